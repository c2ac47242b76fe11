// Whether a tensor operation may be in the graph.
#include "graph/raising.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/tensors/tensor_attributes.h"
#include "interpret/tensors/tensor_call_steps.h"
#include "interpret/tensors/torch_calls.h"
#include "interpret/tensors/wrapper_tensors.h"
#include "interpret/tensors/writes.h"
#include "python/fields.h"
#include "shapes/dims.h"
#include "tensor/meta_of.h"
#include "tensor/tensor_guard.h"

#include <algorithm>
#include <string>
#include <unordered_set>

namespace stator::interpret {

namespace {

bool givesGradients(const shapes::Inferred& inferred) {
  return std::any_of(inferred.outputs.begin(), inferred.outputs.end(),
                     [](const shapes::Output& output) { return output.meta.requires_grad; });
}

// The tensors that a call is to write its results into.
std::vector<PyObject*> tensorsOfOut(const shapes::Request& request) {
  std::vector<PyObject*> tensors;
  const Py_ssize_t keywords = request.kwnames == nullptr ? 0 : PyTuple_GET_SIZE(request.kwnames);
  for (Py_ssize_t i = 0; i < keywords; ++i) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(request.kwnames, i), "out") == 0)
      collectTensors(request.args[request.positional + static_cast<size_t>(i)], tensors);
  }
  return tensors;
}

// Some operations take tensors without data beside others, and do nothing; what traces them refuses to.
bool mixesMeta(const std::vector<PyObject*>& tensors) {
  bool without_data = false, with_data = false;
  for (PyObject* tensor : tensors) {
    const shapes::TensorMeta* meta = graph::asStandIn(tensor)->meta;
    if (meta == nullptr) continue;
    if (meta->device == shapes::DeviceType::Meta)
      without_data = true;
    else if (!meta->sizes.empty() || meta->device != shapes::DeviceType::CPU)
      with_data = true;
  }
  return without_data && with_data;
}

}  // namespace

// Fakes take any device for one that is there; a graph with them would fail where it runs, or end the process in its
// backend.
Flow TensorCall::checkDevices() {
  // A wrapper decides for itself: that of nested tensors takes one without data as an example.
  if (!tracer_.options.runs_as_captured && !request_.wrapped && mixesMeta(involved()))
    return breakWith(Reason::kUnsupportedTensorOp, "takes tensors with and without data");
  for (const shapes::Output& output : inferred().outputs) {
    if (output.kind != shapes::Output::Kind::kTensor ||
        output.meta.device == shapes::DeviceType::CPU)
      continue;
    const auto is_there = [&](PyObject* tensor) {
      const shapes::TensorMeta* meta = graph::asStandIn(tensor)->meta;
      return meta != nullptr && meta->device == output.meta.device &&
             meta->device_index == output.meta.device_index;
    };
    const std::vector<PyObject*> tensors = involved();
    if (std::none_of(tensors.begin(), tensors.end(), is_there) &&
        !tensor::deviceExists(output.meta.device, output.meta.device_index))
      return breakWith(Reason::kRaises, "a device that is not there");
  }
  return Flow::kOk;
}

Flow TensorCall::checkLeafUse() {
  if (!tracer_.storages.anyLeafWrites() || !tracer_.torch.now().grad_enabled ||
      !givesGradients(inferred()))
    return Flow::kOk;
  for (PyObject* tensor : involved()) {
    const shapes::TensorMeta* meta = graph::asStandIn(tensor)->meta;
    if (meta != nullptr && tracer_.storages.isLeafWritten(meta->storage_id))
      return breakWith(Reason::kUnsupportedMutation,
                       "uses a leaf that was written to under no_grad");
  }
  return Flow::kOk;
}

// Two of the tensors of a list that is written to (_foreach_add_) lie in one memory: what traces it computes both from
// the old value.
bool TensorCall::sharesWritten() const {
  if (now_.empty() || !(PyList_Check(now_[0]) || PyTuple_Check(now_[0]))) return false;
  std::vector<PyObject*> tensors;
  collectTensors(now_[0], tensors);
  std::unordered_set<uint32_t> seen;
  return std::any_of(tensors.begin(), tensors.end(), [&](PyObject* tensor) {
    const uint32_t storage = graph::asStandIn(tensor)->meta->storage_id;
    return storage != 0 && !seen.insert(storage).second;
  });
}

Flow TensorCall::checkWrites() {
  if (new_sizes_) return breakWith(Reason::kDynamicOutputShape, "writes its result into a tensor");
  const std::vector<PyObject*> tensors = involved();
  std::string why;
  // In-place operations write to the first, layers with a state to some others.
  std::vector<int> named_first = inferred().written_inputs;
  if (named_first.empty() || named_first[0] == 0) named_first = {0};
  for (int index : named_first) {
    // What is written to comes first.
    std::vector<PyObject*> ordered = tensors;
    const auto at = ordered.begin() + index;
    if (index > 0 && static_cast<size_t>(index) < ordered.size())
      std::rotate(ordered.begin(), at, at + 1);
    if (writeMayFail(tracer_, target_, now_, ordered, why))
      return breakWith(Reason::kRaises, why.c_str());
  }
  if (!tracer_.options.runs_as_captured && sharesWritten())
    return breakWith(Reason::kUnsupportedMutation, "writes to the same memory more than once");
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool written = wasWritten(i);
    const uint32_t storage = graph::asStandIn(tensors[i])->meta->storage_id;
    if (written && writesToShared(tracer_, storage))
      return breakWith(
          Reason::kUnsupportedMutation,
          "writes to memory of several inputs, with and without gradients or of wrappers");
    if (written && !tracer_.options.runs_as_captured && isOfExpandedInput(tracer_, storage))
      return breakWith(Reason::kUnsupportedMutation, "writes to memory of an expanded input");
    if (written && !tracer_.options.runs_as_captured) {
      STATOR_FLOW(writeToData(tracer_, tensors[i]));
      STATOR_FLOW(writeToOneOfViews(tracer_, tensors[i], tensors));
    }
    // AOTAutograd saves what the write left for the backward pass, and writes once more there.
    if (written && !tracer_.options.runs_as_captured && !tracer_.torch.now().grad_enabled &&
        tracer_.storages.hasGrads(storage))
      tracer_.storages.noteLeafWrite(storage);
    if (tracer_.storages.isHooked(storage))
      return tracer_.breakWith(Reason::kCallsOutside, "writes to a tensor with a hook");
  }
  // an answer is good until the next question only
  if (!request_.wrapped) answer_ = shapes::infer(request_);
  return Flow::kOk;
}

Flow TensorCall::checkChangedFacts() {
  if (tracer_.torch_function.relevant() && !inferred().changed_inputs.empty()) {
    // The graph gets another object for an instance of a subclass, with the same memory and facts of its own.
    for (PyObject* value : now_) {
      if (graph::isStandIn(value) && typeOf(tracer_, value) != tensorType() &&
          typeOf(tracer_, value) != parameterType() && typeOf(tracer_, value) != &PyTuple_Type)
        return breakWith(Reason::kUnsupportedTensorOp,
                         "changes the facts of an instance of a tensor subclass");
    }
  }
  if (!request_.wrapped || tracer_.options.runs_as_captured) return Flow::kOk;
  // What takes wrappers apart has no way to give one other sizes.
  for (const auto& [index, after] : inferred().changed_inputs) {
    const graph::StandIn* changed = graph::asStandIn(tensors_[static_cast<size_t>(index)]);
    if (!shapes::identical(changed->meta->sizes, after.sizes) ||
        !shapes::identical(changed->meta->strides, after.strides))
      return breakWith(Reason::kUnsupportedMutation, "changes the sizes of a wrapper subclass");
  }
  return Flow::kOk;
}

// AOTAutograd computes gradients for inputs of the graph, and for nothing that becomes a leaf inside of it. A view of a
// leaf that is taken without gradients says of itself that it is one, but no gradient comes to it.
Flow TensorCall::checkForAutograd() {
  if (tracer_.options.runs_as_captured) return Flow::kOk;
  bool leaf = false;
  for (const shapes::Output& output : inferred().outputs) {
    if (output.kind != shapes::Output::Kind::kTensor || output.same_object_as >= 0) continue;
    const bool view_of_leaf =
        output.alias_of >= 0 &&
        graph::asStandIn(tensors_[static_cast<size_t>(output.alias_of)])->meta->requires_grad;
    leaf |= output.meta.requires_grad && output.meta.is_leaf && !view_of_leaf;
  }
  for (const auto& [index, after] : inferred().changed_inputs) {
    const graph::StandIn* changed = graph::asStandIn(tensors_[static_cast<size_t>(index)]);
    leaf |= after.requires_grad && after.is_leaf && !changed->meta->requires_grad;
    // It has no way to give the memory of the caller's tensor another size, nor to take views of memory that it
    // resized.
    if (!shapes::identical({changed->meta->storage_bytes}, {after.storage_bytes}))
      return breakWith(Reason::kUnsupportedMutation, "resizes the memory of a tensor");
  }
  // Nor does it keep the strides of what a result is written into: it computes a new one and forgets the old.
  for (PyObject* out : tensorsOfOut(request_)) {
    const shapes::TensorMeta& meta = *graph::asStandIn(out)->meta;
    if (!shapes::isContiguous(meta.sizes, meta.strides))
      return breakWith(Reason::kUnsupportedTensorOp, "out= is a tensor that is not contiguous");
  }
  if (leaf)
    return breakWith(Reason::kUnsupportedTensorOp,
                     "a tensor starts to require grad inside of the graph");
  return Flow::kOk;
}

// AOTAutograd writes out each step of a recurrent layer on a CPU: a graph as long as the sequence, one for each length,
// and seconds of compilation for each step. An LSTM without gradients is one operator there.
Flow TensorCall::checkRecurrence() {
  if (!tracer_.options.leaves_recurrences || !PyCFunction_Check(target_) || now_.size() < 2)
    return Flow::kOk;
  const std::string_view name = stator_function_method(target_)->ml_name;
  const bool lstm = name == "lstm";
  if (!lstm && name != "gru" && name != "rnn_tanh" && name != "rnn_relu") return Flow::kOk;
  const bool on_cpu = graph::isStandIn(now_[0]) && graph::asStandIn(now_[0])->meta != nullptr &&
                      graph::asStandIn(now_[0])->meta->device == shapes::DeviceType::CPU;
  const bool packed = lstm && graph::isStandIn(now_[1]);
  if (!on_cpu || (lstm && !packed && !givesGradients(inferred()))) return Flow::kOk;
  return breakWith(Reason::kUnsupportedTensorOp,
                   "is left to torch, since the backend would write out each step; "
                   "config.allow_rnn = True captures it");
}

// Even where nothing changes by it.
Flow TensorCall::checkTransforms() {
  if (op_ == graph::Op::kCallMethod &&
      PyUnicode_CompareWithASCIIString(target_, "requires_grad_") == 0 &&
      (tracer_.graphs.underTransform() || tensor::transformsActive()))
    return breakWith(Reason::kRaises, "a transform of torch.func refuses it");
  return Flow::kOk;
}

Flow TensorCall::mayBeInGraph() {
  STATOR_FLOW(checkTransforms());
  STATOR_FLOW(checkDevices());
  STATOR_FLOW(checkLeafUse());
  STATOR_FLOW(checkRecurrence());
  const bool one = inferred().outputs.size() == 1;
  if (tracer_.effects.changedFacts() &&
      graph::mayRaiseOnData(op_, target_, one ? &inferred().outputs[0].meta : nullptr,
                            now_.size() > 1 ? now_[1] : nullptr))
    return breakWith(Reason::kUnsupportedMutation,
                     "may raise where a tensor has other facts than before");
  if (inferred().mutates) STATOR_FLOW(checkWrites());
  tensors_ = involved();
  STATOR_FLOW(checkChangedFacts());
  return checkForAutograd();
}

}  // namespace stator::interpret
