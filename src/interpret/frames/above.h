// Answers what the lower rooms ask of those above them.
#pragma once

#include "interpret/core/above.h"

namespace stator::interpret {

class Tracer;

class FramesAbove final : public Above {
 public:
  void serve(Tracer& tracer) { tracer_ = &tracer; }  // before the first question

  Out call(PyObject* callable, const Args& args, Continuation then) override;
  Out callNested(PyObject* callable, const Args& args) override;
  Out inlineFunction(PyObject* function, const Args& args, Continuation then) override;
  Out runEntered(Out out) override;
  Flow runUntil(size_t depth) override;
  Out runGenerator(PyObject* generator, Ref<> sent) override;
  Out throwIntoGenerator(PyObject* generator, Ref<> exception) override;
  Out closeGenerator(PyObject* generator) override;
  Out nextOfItertools(PyObject* iterator) override;
  Out extendList(PyObject* list, PyObject* iterable) override;
  Out tensorCall(graph::Op op, PyObject* target, const Args& args, bool remember,
                 PyObject* facts) override;
  Out tensorAttr(PyObject* stand_in, PyObject* name) override;
  Flow setTensorAttr(PyObject* stand_in, PyObject* name, PyObject* value) override;
  Out dispatchTorchFunction(graph::Op op, PyObject* target, const Args& args,
                            bool& handled) override;
  Out arrayFromOutside(PyObject* raw, const sources::Source* source) override;
  Out wrapperFromOutside(PyObject* raw, const sources::Source* source) override;

 private:
  Tracer* tracer_ = nullptr;
};

}  // namespace stator::interpret
