// A call of a tensor operation under way, step by step: arguments as the graph keeps them, what comes out, whether it
// may be in this graph, the node, its values, and what it did to its arguments.
#pragma once

#include "interpret/core/tracer.h"
#include "interpret/tensors/tensor_call.h"
#include "shapes/infer.h"
#include "tensor/torch_function.h"

#include <optional>
#include <vector>

namespace stator::interpret {

class TensorCall {
 public:
  TensorCall(Tracer& tracer, graph::Op op, PyObject* target, const Args& args, bool remember,
             PyObject* facts)
      : tracer_(tracer),
        op_(op),
        target_(target),
        args_(args),
        remember_(remember),
        facts_(facts) {}
  Out run();

 private:
  // The call under another name, or with other arguments.
  Out again(PyObject* target, const Args& args) {
    return tensorCall(tracer_, op_, target, args, remember_, facts_);
  }
  Flow breakWith(Reason reason, const char* why);
  std::vector<PyObject*> involved() const;
  bool wasWritten(size_t tensor) const;
  const shapes::Inferred& inferred() const { return *answer_.inferred; }

  // ---- arguments and what comes out (tensor_call.cpp)
  // -----------------------------------------------------------------------------------
  Flow takeArguments();
  void infer();
  void askWrappers(std::optional<tensor::TorchFunctionPause>& handlers_ran);
  // No answer: what the program gets instead, if there is a way; ok with null: none.
  Out withoutAnswer();
  bool classIsLost() const;
  Out withNumbers();
  Out withKnownSizes();
  // ---- whether it may be in this graph (tensor_call_checks.cpp)
  // -------------------------------------------------------------------------
  Flow mayBeInGraph();
  Flow checkTransforms();
  Flow checkDevices();
  Flow checkLeafUse();
  bool sharesWritten() const;
  Flow checkWrites();
  Flow checkChangedFacts();
  Flow checkForAutograd();
  Flow checkRecurrence();
  // ---- the node, its values, what it did to its arguments (tensor_call_results.cpp)
  // -----------------------------------------------------
  bool onlyConstants() const;
  Out constants();
  void addNode();
  const shapes::TensorMeta* factsOf(const shapes::Output& output);
  Ref<> raggedSize(graph::Node* of, const shapes::Output& output);
  Ref<> singleValue();
  Out severalValues();
  Ref<> itemValue(PyObject* whole, size_t index, const shapes::Output& output);
  void noteEffects();

  Tracer& tracer_;
  graph::Op op_;
  PyObject* target_;
  const Args& args_;
  const bool remember_;
  bool any_float_ = false;
  PyObject* facts_;
  std::vector<Ref<>> keep_;
  std::vector<PyObject*> now_;    // the arguments, as the graph will keep them
  std::vector<PyObject*> asked_;  // the same for inference, where that is given something else
  bool overloaded_ = false;       // an argument has a __torch_function__ after all
  shapes::Request request_;
  shapes::Answer answer_;
  std::optional<shapes::Inferred> kept_;
  size_t first_new_ = 0;  // the first symbol that the operation brought
  bool new_sizes_ = false;
  std::vector<PyObject*> tensors_;
  graph::Node* node_ = nullptr;
  std::vector<uint32_t> storages_;  // of the outputs so far
};

}  // namespace stator::interpret
