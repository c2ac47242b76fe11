// What the lower rooms of the tracer ask of those above them: calls that are run, and tensors. The rooms include each
// other in one direction (CMakeLists.txt); these few functions go the other way. frames/above.cpp answers.
#pragma once

#include "graph/graph.h"
#include "interpret/core/flow.h"
#include "interpret/core/frame_stack.h"

#include <initializer_list>

namespace stator::interpret {

class Above {
 public:
  virtual ~Above() = default;

  // Calls (calls/, frames/).
  virtual Out call(PyObject* callable, const Args& args,
                   Continuation then = Continuation::kPush) = 0;
  // Runs to its end before it returns; a break inside breaks here.
  virtual Out callNested(PyObject* callable, const Args& args) = 0;
  Out callNested(PyObject* callable, std::initializer_list<PyObject*> args) {
    return callNested(callable, Args{std::vector<PyObject*>(args), args.size()});
  }
  virtual Out inlineFunction(PyObject* function, const Args& args, Continuation then) = 0;
  // Runs what was entered to its end and gives its value. A break inside takes the whole trace back to the instruction
  // under way.
  virtual Out runEntered(Out out) = 0;
  virtual Flow runUntil(size_t depth) = 0;                        // frames above that depth
  virtual Out runGenerator(PyObject* generator, Ref<> sent) = 0;  // ok with null: it returned
  virtual Out throwIntoGenerator(PyObject* generator, Ref<> exception) = 0;
  virtual Out closeGenerator(PyObject* generator) = 0;
  virtual Out nextOfItertools(PyObject* iterator) = 0;
  virtual Out extendList(PyObject* list, PyObject* iterable) = 0;

  // Tensors (tensors/).
  virtual Out tensorCall(graph::Op op, PyObject* target, const Args& args, bool remember = true,
                         PyObject* facts = nullptr) = 0;
  virtual Out tensorAttr(PyObject* stand_in, PyObject* name) = 0;
  virtual Flow setTensorAttr(PyObject* stand_in, PyObject* name, PyObject* value) = 0;
  virtual Out dispatchTorchFunction(graph::Op op, PyObject* target, const Args& args,
                                    bool& handled) = 0;
  virtual Out arrayFromOutside(PyObject* raw, const sources::Source* source) = 0;
  virtual Out wrapperFromOutside(PyObject* raw, const sources::Source* source) = 0;
};

}  // namespace stator::interpret
