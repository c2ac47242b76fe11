// Tensors of one element whose value the trace knows, since the program made them of constants: `torch.tensor(16) * 2`.
// Reading them into Python needs no break. Asked for only where a capture would have to end otherwise: the few
// operations are run for real then, on tensors of our own.
#include "interpret/objects/known_scalars.h"

#include "base/rebuilt.h"
#include "base/stack_room.h"
#include "interpret/core/sym_scalars.h"
#include "interpret/core/tracer.h"

#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace stator::interpret {

namespace {

class Evaluation {
 public:
  // `with_inputs`: any value, with the inputs as they are now.
  explicit Evaluation(graph::Graph& graph, bool with_inputs = false)
      : graph_(graph), with_inputs_(with_inputs) {}

  // The real tensor; null (without an error) where its value is not known.
  Ref<> tensor(PyObject* stand_in) {
    Ref<> value = replaced(stand_in);
    if (!value) PyErr_Clear();
    return value && !written() ? value : Ref<>();
  }

 private:
  // An argument with the stand-ins' tensors in their places; null: one is not known.
  Ref<> replaced(PyObject* argument) {
    needStack();
    if (graph::isStandIn(argument)) return run(graph::asStandIn(argument));
    if (PyTuple_CheckExact(argument) || PyList_CheckExact(argument))
      return rebuilt(argument, [&](PyObject* item) { return replaced(item); });
    return values::isConstantDeep(argument) ? newRef(argument) : Ref<>();
  }

  Ref<> run(graph::StandIn* stand_in) {
    graph::Node* node = stand_in->node;
    if (auto found = done_.find(node); found != done_.end()) return found->second;
    if (!mayRun(*node, stand_in->meta)) return Ref<>();
    if (stand_in->meta != nullptr) storages_.insert(stand_in->meta->storage_id);
    Ref<> result = node->op == graph::Op::kInput ? node->example : call(*node);
    done_.emplace(node, result);
    return result;
  }

  bool mayRun(const graph::Node& node, const shapes::TensorMeta* meta) {
    if (with_inputs_) {
      const bool call = node.op == graph::Op::kCallFunction || node.op == graph::Op::kCallMethod;
      return !node.mutates && !node.written && (call || node.op == graph::Op::kInput);
    }
    return node.op != graph::Op::kInput && !node.mutates && meta != nullptr && meta == node.meta &&
           meta->numel() == 1 && ++steps_ <= 64 && meta->device == shapes::DeviceType::CPU &&
           !meta->requires_grad;
  }

  Ref<> call(const graph::Node& node) {
    Ref<> args = replaced(node.args.get());
    if (!args) return args;
    Ref<> kwargs;
    if (node.kwargs) {
      kwargs = stealRef(PyDict_New());
      PyObject *key = nullptr, *item = nullptr;
      for (Py_ssize_t at = 0; PyDict_Next(node.kwargs.get(), &at, &key, &item);) {
        Ref<> value = replaced(item);
        if (!value || PyDict_SetItem(kwargs.get(), key, value.get()) != 0) return Ref<>();
      }
    }
    if (node.op == graph::Op::kCallFunction)
      return stealRef(PyObject_Call(node.target.get(), args.get(), kwargs.get()));
    Ref<> method = stealRef(PyObject_GetAttr(PyTuple_GET_ITEM(args.get(), 0), node.target.get()));
    Ref<> rest = stealRef(PyTuple_GetSlice(args.get(), 1, PyTuple_GET_SIZE(args.get())));
    return method ? stealRef(PyObject_Call(method.get(), rest.get(), kwargs.get())) : Ref<>();
  }

  // Somebody wrote to one of them later on.
  bool written() const {
    for (const graph::Node& node : graph_.nodes()) {
      if (!node.mutates || !node.args) continue;
      bool touches = false;
      auto look = [&](graph::StandIn* used) {
        touches |= used->meta != nullptr && storages_.count(used->meta->storage_id) != 0;
      };
      graph::forEachStandIn(node.args.get(), look);
      graph::forEachStandIn(node.kwargs.get(), look);
      if (touches) return true;
    }
    return false;
  }

  graph::Graph& graph_;
  const bool with_inputs_;
  std::unordered_map<graph::Node*, Ref<>> done_;
  std::unordered_set<uint32_t> storages_;
  int steps_ = 0;
};

bool hasStandInBound(PyObject* slice) {
  auto* bounds = reinterpret_cast<PySliceObject*>(slice);
  return graph::isStandIn(bounds->start) || graph::isStandIn(bounds->stop) ||
         graph::isStandIn(bounds->step);
}

bool isWholeNumber(PyObject* stand_in) {
  const shapes::TensorMeta* meta = graph::asStandIn(stand_in)->meta;
  if (meta == nullptr || !meta->sizes.empty()) return false;
  switch (meta->dtype) {
    case shapes::DType::Byte:
    case shapes::DType::Char:
    case shapes::DType::Short:
    case shapes::DType::Int:
    case shapes::DType::Long:
      return true;
    default:
      return false;
  }
}

Ref<> knownIndex(Tracer& t, PyObject* stand_in) {
  Ref<> tensor = knownTensor(t, stand_in);
  Ref<> number = tensor ? stealRef(PyNumber_Index(tensor.get())) : Ref<>();
  if (!number) PyErr_Clear();
  return number;
}

}  // namespace

Ref<> knownTensor(Tracer& tracer, PyObject* stand_in) {
  return graph::isStandIn(stand_in) ? Evaluation(tracer.graphs.current()).tensor(stand_in)
                                    : Ref<>();
}

Ref<> computedNow(Tracer& tracer, PyObject* stand_in) {
  if (tracer.graphs.nested()) return Ref<>();
  return Evaluation(tracer.graphs.current(), true).tensor(stand_in);
}

// A slice whose bounds are tensors of known values, with ints in their places; null: there is nothing to replace, or
// not all are known.
Ref<> knownSlices(Tracer& tracer, PyObject* index) {
  needStack();
  // x[torch.tensor(1)] is x[1] to torch too, which reads the number.
  if (graph::isStandIn(index)) return isWholeNumber(index) ? knownIndex(tracer, index) : Ref<>();
  if (PySlice_Check(index) && hasStandInBound(index)) {
    auto* slice = reinterpret_cast<PySliceObject*>(index);
    Ref<> bounds[3];
    PyObject* parts[3] = {slice->start, slice->stop, slice->step};
    for (int i = 0; i < 3; ++i) {
      bounds[i] = newRef(parts[i]);
      if (!graph::isStandIn(parts[i])) continue;
      bounds[i] = knownIndex(tracer, parts[i]);
      if (!bounds[i]) return Ref<>();
    }
    return stealRef(PySlice_New(bounds[0].get(), bounds[1].get(), bounds[2].get()));
  }
  if (!PyTuple_CheckExact(index)) return Ref<>();
  bool any = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(index); ++i) {
    PyObject* part = PyTuple_GET_ITEM(index, i);
    any |= graph::isStandIn(part) || (PySlice_Check(part) && hasStandInBound(part));
  }
  if (!any) return Ref<>();
  any = false;
  Ref<> out = stealRef(PyTuple_New(PyTuple_GET_SIZE(index)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(index); ++i) {
    PyObject* part = PyTuple_GET_ITEM(index, i);
    Ref<> known =
        PySlice_Check(part) || graph::isStandIn(part) ? knownSlices(tracer, part) : Ref<>();
    any |= static_cast<bool>(known);
    PyTuple_SET_ITEM(out.get(), i, known ? known.release() : Py_NewRef(part));
  }
  return any ? out : Ref<>();
}

Ref<> knownSizes(Tracer& tracer, PyObject* argument) {
  if (graph::isStandIn(argument))
    return isWholeNumber(argument) ? knownIndex(tracer, argument) : Ref<>();
  if (!PyTuple_Check(argument) && !PyList_CheckExact(argument)) return Ref<>();
  Ref<> list = stealRef(PySequence_List(argument));
  bool any = false;
  for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(list.get(), i);
    Ref<> number = graph::isStandIn(item) ? knownSizes(tracer, item) : Ref<>();
    if (!number) continue;
    any = true;
    PyList_SetItem(list.get(), i, number.release());
  }
  if (!any) return Ref<>();
  return PyTuple_Check(argument) ? stealRef(PyList_AsTuple(list.get())) : list;
}

Out readIndex(Tracer& tracer, PyObject* index) {
  static PyObject* const read = PyUnicode_InternFromString("__index__");
  if (graph::isStandIn(index))
    return isWholeNumber(index) ? readIntoGraph(tracer, read, index) : Out(Ref<>());
  if (PySlice_Check(index) && hasStandInBound(index)) {
    auto* slice = reinterpret_cast<PySliceObject*>(index);
    Ref<> bounds[3];
    PyObject* parts[3] = {slice->start, slice->stop, slice->step};
    for (int i = 0; i < 3; ++i) {
      bounds[i] = newRef(parts[i]);
      if (!graph::isStandIn(parts[i])) continue;
      STATOR_VALUE(number, readIntoGraph(tracer, read, parts[i]));
      if (!number) return Ref<>();
      bounds[i] = number;
    }
    return stealRef(PySlice_New(bounds[0].get(), bounds[1].get(), bounds[2].get()));
  }
  if (!PyTuple_CheckExact(index)) return Ref<>();
  bool any = false;
  std::vector<Ref<>> parts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(index); ++i) {
    PyObject* part = PyTuple_GET_ITEM(index, i);
    const bool may = PySlice_Check(part) || graph::isStandIn(part);
    STATOR_VALUE(number, may ? readIndex(tracer, part) : Out(Ref<>()));
    any |= static_cast<bool>(number);
    parts.push_back(number ? number : newRef(part));
  }
  if (!any) return Ref<>();
  Ref<> out = stealRef(PyTuple_New(static_cast<Py_ssize_t>(parts.size())));
  for (size_t i = 0; i < parts.size(); ++i)
    PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), parts[i].release());
  return out;
}

}  // namespace stator::interpret
