// Tensors of one element whose value the trace knows, since the program made them of constants: `torch.tensor(16) * 2`.
// Reading them into Python needs no break. Asked for only where a capture would have to end otherwise: the few
// operations are run for real then, on tensors of our own.
#include "interpret/objects/known_scalars.h"

#include "base/parts.h"
#include "base/rebuilt.h"
#include "base/stack_room.h"
#include "interpret/core/rebuilt_values.h"
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
    // What assume_constant_result gave.
    if (node.op == graph::Op::kInput && node.specialised && !node.written &&
        node.source->kind == sources::SourceKind::kPinned)
      return true;
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
      graph::forEachUsed(node, look);
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

bool isStandInOrSliceOfOne(PyObject* part) {
  auto other = [](PyObject* bound) { return !graph::isStandIn(bound); };
  return !other(part) || (PySlice_Check(part) && !everyBound(part, other));
}

// A tuple, list or slice with what `read` gives in place of the parts that `asks` is true of. Ok with null: nothing was
// read, or, of a slice, not all.
template <class Asks, class Read>
Out withNumbers(PyObject* container, Asks&& asks, Read&& read) {
  if (everyPart(container, [&](PyObject* part) { return !asks(part); })) return Ref<>();
  const bool all = PySlice_Check(container);
  bool any = false;
  STATOR_VALUE(made, rebuiltValues(container, [&](PyObject* part) -> Out {
                 if (!asks(part)) return newRef(part);
                 STATOR_VALUE(number, read(part));
                 any |= static_cast<bool>(number);
                 return number || all ? number : newRef(part);
               }));
  return any ? made : Ref<>();
}

// An index with what `read` gives in place of tensors of one whole number: the index itself, a bound of a slice, or
// such a part of a tuple.
template <class Read>
Out indexWithNumbers(PyObject* index, Read& read) {
  if (graph::isStandIn(index)) return isWholeNumber(index) ? read(index) : Out(Ref<>());
  if (PySlice_Check(index)) return withNumbers(index, graph::isStandIn, read);
  if (!PyTuple_CheckExact(index)) return Ref<>();
  return withNumbers(index, isStandInOrSliceOfOne,
                     [&](PyObject* part) { return indexWithNumbers(part, read); });
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

// Ints in place of tensors of known values; null: there is nothing to replace, or not all bounds of a slice are known.
Ref<> knownSlices(Tracer& tracer, PyObject* index) {
  // x[torch.tensor(1)] is x[1] to torch too, which reads the number.
  auto known = [&](PyObject* stand_in) { return Out(knownIndex(tracer, stand_in)); };
  return indexWithNumbers(index, known).take();
}

Ref<> knownSizes(Tracer& tracer, PyObject* argument) {
  auto known = [&](PyObject* stand_in) {
    return isWholeNumber(stand_in) ? Out(knownIndex(tracer, stand_in)) : Out(Ref<>());
  };
  if (graph::isStandIn(argument)) return known(argument).take();
  if (!PyTuple_Check(argument) && !PyList_CheckExact(argument)) return Ref<>();
  return withNumbers(argument, graph::isStandIn, known).take();
}

Out readIndex(Tracer& tracer, PyObject* index) {
  static PyObject* const name = PyUnicode_InternFromString("__index__");
  auto read = [&](PyObject* stand_in) { return readIntoGraph(tracer, name, stand_in); };
  return indexWithNumbers(index, read);
}

}  // namespace stator::interpret
