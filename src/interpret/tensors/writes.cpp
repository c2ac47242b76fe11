// Writes that fail when they run, although their shapes fit: a graph that fails half way has done the rest already, so
// such an operation is left to the real interpreter.
#include "interpret/core/known.h"
#include "interpret/core/tracer.h"

#include <algorithm>

namespace stator::interpret {

using shapes::TensorMeta;

namespace {

// Elements lie side by side, in any order of the dimensions.
bool isDense(const TensorMeta& meta) {
  std::vector<std::pair<shapes::Dim, shapes::Dim>> dims;  // stride, size
  for (size_t i = 0; i < meta.sizes.size(); ++i) {
    if (meta.sizes[i] > 1) dims.emplace_back(meta.strides[i], meta.sizes[i]);
  }
  std::sort(dims.begin(), dims.end(), [](const auto& a, const auto& b) {
    return a.first < b.first || (a.first == b.first && a.second < b.second);
  });
  shapes::Dim expected = 1;
  for (auto [stride, size] : dims) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
}

// One element of memory stands for several of the tensor.
bool overlapsItself(const TensorMeta& meta) {
  for (size_t i = 0; i < meta.sizes.size(); ++i) {
    if (meta.sizes[i] > 1 && meta.strides[i] == 0) return true;
  }
  return false;
}

// torch compares the memory of dense tensors only, and takes no offence at equal ones.
bool overlapsPartly(const TensorMeta& written, const TensorMeta& read) {
  if (written.storage_id == 0 || written.storage_id != read.storage_id ||
      written.dtype != read.dtype)
    return false;
  if (written.numel() == 0 || read.numel() == 0 || !isDense(written) || !isDense(read))
    return false;
  shapes::Dim begin = written.storage_offset, end = begin + written.numel();
  shapes::Dim other_begin = read.storage_offset, other_end = other_begin + read.numel();
  if (begin == other_begin && end == other_end) return written.strides != read.strides;
  return begin < other_end && other_begin < end;
}

// The one of several views of one call (unbind, split) that this is, or is a view of; null: it is none.
PyObject* oneOfViews(PyObject* stand_in) {
  while (stand_in != nullptr && graph::asStandIn(stand_in)->meta != nullptr) {
    const graph::StandIn* at = graph::asStandIn(stand_in);
    if (at->node->op == graph::Op::kInput || at->meta->storage_id == 0) return nullptr;
    PyObject* viewed = nullptr;
    bool several = false;
    graph::forEachStandIn(at->node->args.get(), [&](graph::StandIn* used) {
      several |= used->meta == nullptr && at->node->target.get() == operatorFunction("getitem");
      if (viewed == nullptr && used->meta != nullptr &&
          used->meta->storage_id == at->meta->storage_id)
        viewed = reinterpret_cast<PyObject*>(used);
    });
    if (several) return stand_in;
    stand_in = viewed != stand_in ? viewed : nullptr;
  }
  return nullptr;
}

// Whether the call that gave several results, one of which this is, gave views.
bool isViewOfArgument(PyObject* stand_in) {
  const graph::StandIn* part = graph::asStandIn(stand_in);
  const graph::StandIn* all = graph::asStandIn(PyTuple_GET_ITEM(part->node->args.get(), 0));
  bool found = false;
  graph::forEachStandIn(all->node->args.get(), [&](graph::StandIn* used) {
    found |= used->meta != nullptr && used->meta->storage_id == part->meta->storage_id;
  });
  return found;
}

}  // namespace

Flow writeToOneOfViews(Tracer& tracer, PyObject* stand_in, const std::vector<PyObject*>& tensors) {
  if (!tracer.torch.now().grad_enabled ||
      std::none_of(tensors.begin(), tensors.end(), [](PyObject* tensor) {
        const TensorMeta* meta = graph::asStandIn(tensor)->meta;
        return meta != nullptr && meta->requires_grad;
      }))
    return Flow::kOk;
  PyObject* one = oneOfViews(stand_in);
  if (one == nullptr || !isViewOfArgument(one)) return Flow::kOk;
  const char* why = "writes to one of several views";
  if (const values::Info* info = tracer.values.find(one))
    tracer.ending.restartAt(info->born, Reason::kRaises, why);
  return tracer.breakWith(Reason::kRaises, why);
}

bool isOfExpandedInput(Tracer& tracer, uint32_t storage) {
  const auto& inputs = tracer.graphs.current().inputs();
  return storage != 0 && std::any_of(inputs.begin(), inputs.end(), [&](const graph::Node* input) {
           return input->meta != nullptr && input->meta->storage_id == storage &&
                  overlapsItself(*input->meta);
         });
}

namespace {

// An autograd function writes without grad mode. Backends that differentiate take the write for a step of the graph's,
// with grad mode.
bool writesUnseen(Tracer& tracer, PyObject* target) {
  static PyObject* const apply = torchObject("torch.ops.higher_order.autograd_function_apply");
  return tracer.options.runs_as_captured && target == apply;
}

}  // namespace

bool writeMayFail(Tracer& tracer, PyObject* target, const std::vector<PyObject*>& arguments,
                  const std::vector<PyObject*>& tensors, std::string& why) {
  if (tensors.empty() || graph::asStandIn(tensors[0])->meta == nullptr) return false;
  TensorMeta written = *graph::asStandIn(tensors[0])->meta;
  if (tracer.torch.now().grad_enabled && written.requires_grad) {
    bool leaf = written.is_leaf;
    for (const graph::Node* input : tracer.graphs.current().inputs()) {
      if (input->meta == nullptr || written.storage_id == 0 ||
          input->meta->storage_id != written.storage_id)
        continue;
      leaf |= input->meta->is_leaf && input->meta->requires_grad;
    }
    if (leaf && !writesUnseen(tracer, target)) {
      why = "writes to a leaf that requires grad, or a view of one";
      return true;
    }
  }
  bool shares = overlapsItself(written);
  for (size_t i = 1; i < tensors.size() && !shares; ++i) {
    const TensorMeta* other = graph::asStandIn(tensors[i])->meta;
    shares = other != nullptr && written.storage_id != 0 && other->storage_id == written.storage_id;
  }
  if (!shares) return false;
  if (target == operatorFunction("setitem") && arguments.size() == 3) {
    // What is written is the part that the index names.
    shapes::Request request;
    request.target = operatorFunction("getitem");
    request.args = arguments.data();
    request.positional = 2;
    request.state = &tracer.torch.now();
    request.reader.tensor_of = [](PyObject* object) {
      return graph::isStandIn(object) ? graph::asStandIn(object)->meta : nullptr;
    };
    shapes::Answer answer = shapes::infer(request);
    if (answer.status != shapes::Status::kOk || answer.inferred->outputs.size() != 1 ||
        answer.inferred->outputs[0].alias_of < 0)
      return false;
    written = answer.inferred->outputs[0].meta;
    written.storage_id = graph::asStandIn(tensors[0])->meta->storage_id;
  }
  if (overlapsItself(written)) {
    why = "writes to a tensor whose elements share memory";
    return true;
  }
  for (size_t i = 1; i < tensors.size(); ++i) {
    const TensorMeta* other = graph::asStandIn(tensors[i])->meta;
    if (other != nullptr && overlapsPartly(written, *other)) {
      why = "reads and writes memory that overlaps";
      return true;
    }
  }
  return false;
}

}  // namespace stator::interpret
