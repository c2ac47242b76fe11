// Calls that become nodes of the graph, and what is read off a tensor without one.
#include "interpret/tensors/torch_calls.h"

#include "base/numpy_number.h"
#include "base/stack_room.h"
#include "graph/graph.h"
#include "interpret/core/apparent_types.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/sym_scalars.h"
#include "interpret/core/symbols.h"
#include "interpret/core/tables.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/known_scalars.h"
#include "interpret/tensors/arrays.h"
#include "interpret/tensors/opaque_values.h"
#include "interpret/tensors/torch_contexts.h"
#include "interpret/tensors/torch_function.h"
#include "interpret/tensors/torch_states.h"
#include "interpret/tensors/wrapper_tensors.h"
#include "interpret/tensors/writes.h"
#include "python/objects.h"
#include "shapes/arg.h"
#include "shapes/dims.h"
#include "symbolic/sym_int.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace stator::interpret {

Out fromLong(Tracer& t, PyObject* value);

namespace {

// What torch takes a number of NumPy's for, but where it makes a tensor of it; null: it is none.
Ref<> pythonNumber(PyObject* value) {
  if (!isNumpyNumber(value)) return Ref<>();
  const std::string_view name = Py_TYPE(value)->tp_name;
  if (name.substr(0, 10) == "numpy.bool")
    return newRef(PyObject_IsTrue(value) ? Py_True : Py_False);
  return stealRef(name.substr(0, 11) == "numpy.float" ? PyNumber_Float(value)
                                                      : PyNumber_Long(value));
}

}  // namespace

const shapes::TensorMeta* metaOfStandIn(PyObject* object) {
  return graph::isStandIn(object) ? graph::asStandIn(object)->meta : nullptr;
}

void collectTensors(PyObject* value, std::vector<PyObject*>& out) {
  graph::forEachLeaf(value, [&](PyObject* leaf) {
    if (metaOfStandIn(leaf) != nullptr) out.push_back(leaf);
  });
}

Out graphArgument(Tracer& tracer, PyObject* value, int depth) {
  if (graph::isStandIn(value) && tracer.graphs.hadSubgraphs() &&
      !tracer.graphs.reachable(graph::asStandIn(value)->node)) {
    return tracer.breakWith(Reason::kUnsupportedTensorOp,
                            "a value that was made inside of a function of the graph");
  }
  if (graph::isStandIn(value) || values::isScalar(value) || symbolic::isSymbol(value))
    return newRef(value);
  if (values::isConstantDeep(value)) return newRef(value);
  if (depth > 6) return tracer.breakWith(Reason::kUnsupportedTensorOp, "a deeply nested argument");
  if (PyTuple_Check(value) || PyList_Check(value)) {
    STATOR_VALUE(items, contents(tracer, value));
    // By the C layout, as torch takes them.
    const Py_ssize_t n = Py_SIZE(items.get());
    Ref<> list = stealRef(PyList_New(n));
    for (Py_ssize_t i = 0; i < n; ++i) {
      Ref<> raw = newRef(PySequence_Fast_GET_ITEM(items.get(), i));
      STATOR_VALUE(item, graphArgument(tracer, raw.get(), depth + 1));
      PyList_SET_ITEM(list.get(), i, item.release());
    }
    if (PyList_Check(value)) return list;
    return stealRef(PyList_AsTuple(list.get()));
  }
  if (PyDict_CheckExact(value)) {
    STATOR_VALUE(items, contents(tracer, value));
    Ref<> dict = stealRef(PyDict_New());
    PyObject *key = nullptr, *raw = nullptr;
    Py_ssize_t position = 0;
    Py_hash_t hash = 0;
    while (stator_dict_next(items.get(), &position, &key, &raw, &hash)) {
      STATOR_VALUE(item, graphArgument(tracer, raw, depth + 1));
      _PyDict_SetItem_KnownHash(dict.get(), key, item.get(), hash);
    }
    return dict;
  }
  if (PySlice_Check(value)) {
    auto* slice = reinterpret_cast<PySliceObject*>(value);
    STATOR_VALUE(start, graphArgument(tracer, slice->start, depth + 1));
    STATOR_VALUE(stop, graphArgument(tracer, slice->stop, depth + 1));
    STATOR_VALUE(step, graphArgument(tracer, slice->step, depth + 1));
    return stealRef(PySlice_New(start.get(), stop.get(), step.get()));
  }
  if (isTraceIterator(value)) {
    STATOR_VALUE(list, listOf(tracer, value));
    return graphArgument(tracer, list.get(), depth + 1);
  }
  static auto* const operator_type =
      reinterpret_cast<PyTypeObject*>(torchObject("torch._ops.OpOverload"));
  if (PyType_Check(value) || PyCFunction_Check(value) || isEnumMember(value) ||
      isGraphModule(value) || Py_TYPE(value) == operator_type)
    return newRef(value);
  if (PyLong_Check(value)) return fromLong(tracer, value);
  if (Ref<> number = pythonNumber(value)) return number;
  if (tracer.options.capture_scalar_outputs && isTraceArray(value) && isArrayScalar(value)) {
    // torch takes NumPy's numbers for Python's.
    static PyObject* const item = PyUnicode_InternFromString("item");
    STATOR_VALUE(number, readIntoGraph(tracer, item, arrayTensor(value)));
    if (number) return number;
  }
  STATOR_VALUE(opaque, opaqueValue(tracer, value, depth));
  if (opaque) return opaque;
  return tracer.breakWith(Reason::kUnsupportedTensorOp,
                          std::string("an argument is a ") + Py_TYPE(value)->tp_name);
}

void noteWritten(Tracer& tracer, PyObject* tensor) {
  uint32_t storage = graph::asStandIn(tensor)->meta->storage_id;
  for (graph::Node* input : tracer.graphs.root().inputs()) {
    if (input == graph::asStandIn(tensor)->node ||
        (storage != 0 && input->meta != nullptr && input->meta->storage_id == storage)) {
      input->written = true;
      tracer.storages.noteInputWrite(storage);
    }
  }
  if (!tracer.wrappers.anyTies()) return;
  // What is written to in a part is written to in the whole, and the other way round.
  const std::unordered_set<uint32_t> involved = tracer.wrappers.tied(storage);
  for (graph::Node* input : tracer.graphs.root().inputs()) {
    if (input->meta != nullptr && input->meta->storage_id != 0 &&
        involved.count(input->meta->storage_id) != 0) {
      input->written = true;
      tracer.storages.noteInputWrite(input->meta->storage_id);
    }
  }
}

bool anyStandIn(Tracer& tracer, const Args& args) {
  std::vector<PyObject*> found;
  for (PyObject* value : args.values) collectTensors(value, found);
  return !found.empty();
}

}  // namespace stator::interpret
