// Iteration: what iter(), list() and their like do, over containers and user iterators.
#include "interpret/objects/iteration.h"

#include "base/text.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/symbols.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/iteration_changes.h"
#include "interpret/objects/lookups.h"
#include "interpret/objects/native_containers.h"
#include "interpret/objects/next.h"
#include "interpret/objects/scalars.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/truth.h"
#include "python/objects.h"
#include "python/types.h"
#include "symbolic/sym_int.h"
#include "values/dicts.h"

namespace stator::interpret {

namespace {

// Of a type in C, bound: what the type itself does.
bool isNativeMethod(PyObject* bound) {
  PyObject* function = PyMethod_Check(bound) ? PyMethod_GET_FUNCTION(bound) : bound;
  return Py_TYPE(function) == &PyWrapperDescr_Type || Py_TYPE(function) == &PyMethodDescr_Type ||
         Py_TYPE(function)->tp_name == std::string_view("method-wrapper");
}

// As Tensor.__iter__: the views of unbind, which autograd lets nobody write to, and of which all are there before the
// first is asked for.
Out overTensor(Tracer& tracer, PyObject* tensor) {
  constexpr int64_t kMost = 4096;
  static PyObject* const unbind = PyUnicode_InternFromString("unbind");
  static PyObject* const first = PyLong_FromLong(0);
  if (graph::asStandIn(tensor)->meta->sizes[0].value() > kMost)
    return tracer.breakWith(Reason::kUnsupportedIterator, "a tensor of thousands of rows");
  Args args;
  args.values = {tensor, first};
  args.positional = 2;
  STATOR_VALUE(rows, tracer.above.tensorCall(graph::Op::kCallMethod, unbind, args));
  return iterate(tracer, rows.get());
}

Out overStandIn(Tracer& tracer, PyObject* iterable) {
  static PyObject* const iter_name = PyUnicode_InternFromString("__iter__");
  if (tracer.torch_function.relevant()) {
    Args args;
    args.values = {iterable};
    args.positional = 1;
    bool handled = false;
    Out out = tracer.above.dispatchTorchFunction(graph::Op::kCallMethod, iter_name, args, handled);
    if (handled) return out;
  }
  const shapes::TensorMeta* meta = graph::asStandIn(iterable)->meta;
  if (meta == nullptr || meta->sizes.empty())
    return tracer.breakWith(Reason::kRaises, "iterates over a 0-d tensor");
  if (PyType_IsSubtype(typeOf(tracer, iterable), tensorType())) return overTensor(tracer, iterable);
  return tracer.made(makeTraceIterator(IteratorKind::kSequence, {newRef(iterable)}));
}

// A str, range or their like.
Out overText(Tracer& tracer, PyObject* iterable) {
  guardBytes(tracer, iterable);
  if (PyObject_Size(iterable) < 0) {
    PyErr_Clear();
    return tracer.breakWith(Reason::kUnsupportedIterator, "a range longer than any sequence");
  }
  return tracer.made(makeTraceIterator(IteratorKind::kSequence, {newRef(iterable)}));
}

Out overContainer(Tracer& tracer, PyObject* iterable) {
  STATOR_VALUE(items, contents(tracer, iterable));
  if (PyList_Check(iterable) || PyTuple_Check(iterable))
    return tracer.made(makeTraceIterator(IteratorKind::kSequence, {newRef(iterable)}));
  Ref<> all = values::itemsOf(items.get());
  if (!all) return tracer.raiseCurrentError();
  Ref<> snapshot = stealRef(PyList_AsTuple(all.get()));
  Ref<> changes = countingIterator(items.get());
  if (!changes) changes = placesOf(items.get());
  return tracer.made(
      makeTraceIterator(IteratorKind::kSnapshot, {snapshot, newRef(iterable), Ref<>(), changes}));
}

Out overView(Tracer& tracer, PyObject* iterable) {
  STATOR_VALUE(view, viewContents(tracer, iterable));
  Ref<> snapshot = stealRef(PySequence_Tuple(view.get()));
  STATOR_VALUE(dict, viewedDict(tracer, iterable));
  STATOR_VALUE(items, contents(tracer, dict.get()));
  Ref<> keys;
  if (!PyDictKeys_Check(iterable)) {
    Ref<> all = values::dictKeys(items.get());
    keys = all ? stealRef(PyList_AsTuple(all.get())) : Ref<>();
    if (!keys) return tracer.raiseCurrentError();
  }
  Ref<> changes = countingIterator(items.get());
  if (!changes) changes = placesOf(items.get());
  return tracer.made(
      makeTraceIterator(IteratorKind::kSnapshot, {snapshot, newRef(iterable), keys, changes}));
}

// An object without __iter__: __getitem__ is asked with 0, 1, 2 ...
Out byIndex(Tracer& tracer, PyObject* iterable) {
  PyTypeObject* type = typeOf(tracer, iterable);
  if (isDenied(tracer, type, "__iter__"))
    return tracer.raiseNew(PyExc_TypeError, "'%.200s' object is not iterable", type->tp_name);
  static PyObject* getitem = PyUnicode_InternFromString("__getitem__");
  STATOR_VALUE(by_index, typeLookup(tracer, type, getitem));
  if (by_index) {
    if (!PyFunction_Check(by_index.get()))
      return tracer.breakWith(Reason::kUnsupportedIterator, "iterates by __getitem__");
    return tracer.made(makeTraceIterator(IteratorKind::kByIndex, {newRef(iterable)}));
  }
  return tracer.raiseNew(PyExc_TypeError, "'%.200s' object is not iterable", type->tp_name);
}

Out byProtocol(Tracer& tracer, PyObject* iterable) {
  PyTypeObject* type = Py_TYPE(iterable);
  STATOR_VALUE(bound, special(tracer, iterable, "__iter__"));
  if (!bound) return byIndex(tracer, iterable);
  if (!isNativeMethod(bound.get())) {
    STATOR_VALUE(iterator, tracer.above.callNested(bound.get(), {}));
    if (isTraceIterator(iterator.get()) || PyIter_Check(iterator.get())) return iterator;
    return tracer.raiseNew(PyExc_TypeError, "iter() returned non-iterator of type '%.100s'",
                           typeOf(tracer, iterator.get())->tp_name);
  }
  if (type->tp_iter == PyObject_SelfIter) return newRef(iterable);
  if (PyUnicode_Check(iterable) && type->tp_iter == PyUnicode_Type.tp_iter) {
    STATOR_VALUE(text, exactScalar(tracer, iterable));
    return iterate(tracer, text.get());
  }
  return tracer.breakWith(Reason::kUnsupportedIterator,
                          std::string("iterates over a ") + type->tp_name);
}

}  // namespace

Out iterate(Tracer& tracer, PyObject* iterable) {
  static PyObject* method = PyUnicode_InternFromString("__iter__");
  if (isTraceIterator(iterable)) return newRef(iterable);
  if (graph::isStandIn(iterable)) return overStandIn(tracer, iterable);
  STATOR_VALUE(scalar, plainScalar(tracer, iterable));
  if (scalar && isTextLike(scalar.get())) return iterate(tracer, scalar.get());
  if (isTextLike(iterable)) return overText(tracer, iterable);
  if (isNativeContainer(tracer, iterable, method)) return overContainer(tracer, iterable);
  if (isDictView(iterable)) return overView(tracer, iterable);
  // Iterating over an Enum class yields its members.
  if (PyType_Check(iterable) &&
      PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(iterable), enumType())) {
    Ref<> snapshot = stealRef(PySequence_Tuple(iterable));
    if (!snapshot) return tracer.raiseCurrentError();
    return tracer.made(makeTraceIterator(IteratorKind::kSnapshot, {snapshot, newRef(iterable)}));
  }
  return byProtocol(tracer, iterable);
}

Out reversedKeys(Tracer& tracer, PyObject* iterable) {
  STATOR_VALUE(forward, iterate(tracer, iterable));
  if (!isTraceIterator(forward.get()) ||
      asTraceIterator(forward.get())->kind != IteratorKind::kSnapshot)
    return tracer.breakWith(Reason::kUnsupportedIterator, "reversed()");
  std::vector<Ref<>> parts = *asTraceIterator(forward.get())->sources;
  for (size_t i : {0, 2}) {
    if (!parts[i]) continue;
    Ref<> list = stealRef(PySequence_List(parts[i].get()));
    PyList_Reverse(list.get());
    parts[i] = stealRef(PyList_AsTuple(list.get()));
  }
  STATOR_VALUE(dict, changeable(tracer, iterable));
  STATOR_VALUE(items, contents(tracer, dict.get()));
  if (Ref<> counting = countingIterator(items.get(), true)) parts[3] = std::move(counting);
  parts.push_back(newRef(Py_True));
  return tracer.made(makeTraceIterator(IteratorKind::kSnapshot, std::move(parts)));
}

namespace {

// Whatever a subclass of set has for __iter__.
Out elementsOf(Tracer& tracer, PyObject* set) {
  STATOR_VALUE(items, contents(tracer, set));
  Ref<> list = stealRef(PyList_New(0));
  PyObject* item = nullptr;
  Py_hash_t hash = 0;
  Py_ssize_t position = 0;
  while (_PySet_NextEntry(items.get(), &position, &item, &hash)) PyList_Append(list.get(), item);
  return list;
}

}  // namespace

// What a set's methods in C take for an iterable: how they go about it, and the order of what comes out, depends on
// whether it is a set or a dict.
Out setOperand(Tracer& tracer, PyObject* iterable) {
  const bool set = !graph::isStandIn(iterable) && PyAnySet_Check(iterable);
  const bool keyed = set || (!graph::isStandIn(iterable) && PyDict_CheckExact(iterable));
  STATOR_VALUE(list, set ? elementsOf(tracer, iterable) : listOf(tracer, iterable));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(list.get(), i);
    // A set is about the numbers that they are.
    if (symbolic::isSymbol(item)) {
      PyList_SetItem(list.get(), i, concrete(tracer, item).release());
      continue;
    }
    STATOR_FLOW(requireHashable(tracer, item));
  }
  return keyed ? contents(tracer, iterable) : std::move(list);
}

Out listOf(Tracer& tracer, PyObject* iterable, Py_ssize_t most) {
  Ref<> list = stealRef(PyList_New(0));
  if (!isTraceIterator(iterable) && !graph::isStandIn(iterable) &&
      (PyList_CheckExact(iterable) || PyTuple_CheckExact(iterable))) {
    STATOR_VALUE(items, contents(tracer, iterable));
    return stealRef(PySequence_List(items.get()));
  }
  STATOR_VALUE(iterator, iterate(tracer, iterable));
  STATOR_FLOW(fillList(tracer, list.get(), iterator.get(), most));
  return list;
}

Out listOrError(Tracer& tracer, PyObject* iterable, const char* otherwise) {
  if (!graph::isStandIn(iterable) && !isTraceIterator(iterable) &&
      (PyList_CheckExact(iterable) || PyTuple_CheckExact(iterable)))
    return listOf(tracer, iterable);
  Out iterator = iterate(tracer, iterable);
  if (iterator.flow() == Flow::kRaise && tracer.errors.raisedIs(PyExc_TypeError)) {
    tracer.errors.dropRaised();
    return tracer.raiseNew(PyExc_TypeError, "%s", otherwise);
  }
  if (!iterator.ok()) return iterator;
  Ref<> list = stealRef(PyList_New(0));
  STATOR_FLOW(fillList(tracer, list.get(), iterator.get(), -1));
  return list;
}

Out sizedListOf(Tracer& tracer, PyObject* iterable) {
  if (graph::isStandIn(iterable) ||
      (!isTraceIterator(iterable) && !stator_is_user_class(Py_TYPE(iterable))))
    return listOf(tracer, iterable);
  Ref<> list = stealRef(PyList_New(0));
  STATOR_VALUE(iterator, iterate(tracer, iterable));
  STATOR_FLOW(askForLength(tracer, iterable));
  STATOR_FLOW(fillList(tracer, list.get(), iterator.get(), -1));
  return list;
}

Flow fillList(Tracer& tracer, PyObject* list, PyObject* iterator, Py_ssize_t most) {
  while (most < 0 || PyList_GET_SIZE(list) < most) {
    STATOR_VALUE(item, next(tracer, iterator));
    if (!item) break;
    PyList_Append(list, item.get());
    if (PyList_GET_SIZE(list) > 1'000'000)
      return tracer.breakWith(Reason::kTraceLimit, "a very long iteration");
  }
  return Flow::kOk;
}

// Before list() and its like take the items they ask how many there are: what a class says to that is seen by whoever
// wrote it.
Flow askForLength(Tracer& tracer, PyObject* iterable) {
  static PyObject* const length_name = PyUnicode_InternFromString("__len__");
  static PyObject* const hint_name = PyUnicode_InternFromString("__length_hint__");
  if (isTraceIterator(iterable)) {
    // Those that ask __getitem__ pass the question on.
    TraceIterator* iterator = asTraceIterator(iterable);
    const bool asks = iterator->kind == IteratorKind::kByIndex ||
                      (iterator->kind == IteratorKind::kReversed && iterator->flag);
    if (!asks || iterator->exhausted) return Flow::kOk;
    PyTypeObject* type = typeOf(tracer, (*iterator->sources)[0].get());
    STATOR_VALUE(told, typeLookup(tracer, type, length_name));
    if (!told) return Flow::kOk;
    Out answer = tracer.above.runEntered(length(tracer, (*iterator->sources)[0].get()));
    if (answer.flow() != Flow::kRaise) return answer.flow();
    return tracer.breakWith(Reason::kRaises, "the length of an iterable");
  }
  if (graph::isStandIn(iterable) || !stator_is_user_class(Py_TYPE(iterable))) return Flow::kOk;
  for (PyObject* name : {length_name, hint_name}) {
    STATOR_VALUE(method, typeLookup(tracer, Py_TYPE(iterable), name));
    if (!method) continue;
    if (Py_TYPE(method.get()) == &PyWrapperDescr_Type ||
        Py_TYPE(method.get()) == &PyMethodDescr_Type)
      return Flow::kOk;
    if (!PyFunction_Check(method.get()))
      return tracer.breakWith(Reason::kUnsupportedObject,
                              "the length of an iterable, from a descriptor");
    STATOR_VALUE(bound, special(tracer, iterable, utf8(name)));
    Out answer = tracer.above.callNested(bound.get(), Args{});
    // TypeErrors are passed over, other errors are not, and some answers are errors.
    if (answer.flow() == Flow::kRaise)
      return tracer.breakWith(Reason::kRaises, "the length of an iterable");
    if (!answer.ok()) return answer.flow();
    PyObject* value = answer.get();
    const bool fits = (PyLong_Check(value) && _PyLong_Sign(value) >= 0) ||
                      symbolic::isSymbol(value) ||
                      (name == hint_name && value == Py_NotImplemented);
    if (!fits) return tracer.breakWith(Reason::kRaises, "the length of an iterable");
    return Flow::kOk;
  }
  return Flow::kOk;
}

}  // namespace stator::interpret
