#include "interpret/tensors/parameters.h"

#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/tensors/tensor_attributes.h"
#include "interpret/tensors/tensor_call.h"
#include "interpret/tensors/torch_calls.h"
#include "tensor/meta_of.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace stator::interpret {

namespace {

Ref<> numbers(const shapes::Dims& dims) {
  Ref<> tuple = stealRef(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
  for (size_t i = 0; i < dims.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(dims[i].hint()));
  return tuple;
}

bool areStatic(const shapes::Dims& dims) {
  for (const auto& dim : dims) {
    if (!dim.isStatic()) return false;
  }
  return true;
}

// The whole of some memory, without gaps or overlaps.
bool isDense(const shapes::TensorMeta& facts) {
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (size_t i = 0; i < facts.sizes.size(); ++i) {
    if (facts.sizes[i].hint() != 1)
      dims.emplace_back(facts.strides[i].hint(), facts.sizes[i].hint());
  }
  std::sort(dims.begin(), dims.end());
  int64_t expected = 1;
  for (const auto& [stride, size] : dims) {
    if (stride != expected) return false;
    expected *= size;
  }
  return facts.storage_offset.isStatic() && facts.storage_offset.hint() == 0;
}

// The node that has made the memory; null: it comes from outside, or part of it is not seen in the tensor.
const graph::Node* makerOf(Tracer& t, const shapes::TensorMeta& facts) {
  if (facts.storage_id == 0 || !isDense(facts)) return nullptr;
  for (const graph::Node& node : std::as_const(t.graphs.current()).nodes()) {
    if (node.meta == nullptr || node.meta->storage_id != facts.storage_id) continue;
    const bool whole = node.op != graph::Op::kInput && node.op != graph::Op::kAttribute &&
                       node.meta->dtype == facts.dtype && areStatic(node.meta->sizes) &&
                       node.meta->numel().hint() == facts.numel().hint();
    return whole ? &node : nullptr;
  }
  return nullptr;
}

PyObject* fillFunction() {
  static PyObject* const fill = torchObject("stator._contexts.fill_parameter");
  return fill;
}

}  // namespace

Out newLeaf(Tracer& t, PyTypeObject* type, PyObject* data) {
  const shapes::TensorMeta& facts = *graph::asStandIn(data)->meta;
  if (type != parameterType() || t.graphs.nested() || t.wrappers.any() || facts.layout != 0 ||
      facts.is_inference || facts.is_conj || facts.is_neg || t.torch.now().inference ||
      !areStatic(facts.sizes) || !areStatic(facts.strides) || makerOf(t, facts) == nullptr ||
      (typeOf(t, data) != tensorType() && typeOf(t, data) != parameterType())) {
    return t.breakWith(
        Reason::kUnsupportedTensorOp,
        std::string(type->tp_name) + ": a tensor starts to require grad inside of the graph");
  }
  static PyObject* const make = torchObject("stator._contexts.empty_parameter");
  static PyObject* const dtype_name = PyUnicode_InternFromString("dtype");
  static PyObject* const device_name = PyUnicode_InternFromString("device");
  STATOR_VALUE(dtype, tensorAttr(t, data, dtype_name));
  STATOR_VALUE(device, tensorAttr(t, data, device_name));
  breaks::Draw drawn;
  drawn.method = newRef(make);
  drawn.args = stealRef(PyTuple_Pack(4, numbers(facts.sizes).get(), numbers(facts.strides).get(),
                                     dtype.get(), device.get()));
  drawn.kwargs = stealRef(PyDict_New());
  Ref<> example = stealRef(PyObject_Call(make, drawn.args.get(), nullptr));
  if (!example) {
    // As for ints, which have no gradients: eager raises.
    PyErr_Clear();
    return t.breakWith(Reason::kRaises, type->tp_name);
  }
  const Source* source =
      t.world.root(SourceKind::kDrawn, static_cast<int64_t>(t.effects.draws().size()));
  t.graphs.current().metas.push_back(tensor::metaOf(example.get()));
  shapes::TensorMeta& empty = t.graphs.current().metas.back();
  empty.storage_id = t.storages.fresh();
  graph::Node* node = t.graphs.current().addInput(source, example, &empty);
  node->location = t.location();
  node->scope = t.frames.innermost().scope;
  Ref<> parameter = graph::makeStandIn(node, &empty, reinterpret_cast<PyObject*>(type));
  t.values.addMade(parameter.get(), t.frames.instruction());
  t.effects.draw(std::move(drawn));
  t.effects.note();
  Args both;
  both.values = {parameter.get(), data};
  both.positional = 2;
  // No fact changes by it, and it is none of the writes that a leaf refuses.
  STATOR_VALUE(done, tensorCall(t, graph::Op::kCallFunction, fillFunction(), both, false,
                                torchObject("stator._contexts.filled")));
  noteWritten(t, parameter.get());
  return parameter;
}

bool usesDataOfParameters(Tracer& t) {
  std::unordered_map<uint32_t, uint64_t> moved;  // memory, and where it became a parameter's
  auto note = [&](uint32_t storage) {
    auto at = moved.find(storage);
    if (storage == 0 || at == moved.end()) return;
    t.ending.restartAtEarliest(at->second, Reason::kUnsupportedTensorOp,
                               "Parameter: its data is used beside it");
  };
  for (const graph::Node& node : std::as_const(t.graphs.current()).nodes()) {
    if (node.op == graph::Op::kInput || node.op == graph::Op::kAttribute) continue;
    auto look = [&](const graph::StandIn* used) {
      if (used->meta != nullptr) note(used->meta->storage_id);
    };
    graph::forEachUsed(node, look);
    if (node.target.get() != fillFunction()) continue;
    const values::Info* made = t.values.find(PyTuple_GET_ITEM(node.args.get(), 0));
    moved[graph::asStandIn(PyTuple_GET_ITEM(node.args.get(), 1))->meta->storage_id] = made->born;
  }
  for (const graph::Node* output : t.graphs.current().outputs()) {
    if (output->meta != nullptr) note(output->meta->storage_id);
  }
  return t.ending.restarts();
}

}  // namespace stator::interpret
