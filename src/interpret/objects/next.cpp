// What next() does: one step of an iterator of the trace, of the program's, or from outside.
#include "interpret/objects/next.h"

#include "base/stack_room.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/items.h"
#include "interpret/objects/iteration_changes.h"
#include "interpret/objects/outside_iterators.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/truth.h"
#include "python/objects.h"

#include <vector>

namespace stator::interpret {

namespace {

// By the C layout, whatever a subclass puts over __len__ and __getitem__.
Py_ssize_t lengthOf(PyObject* sequence) {
  return PyList_Check(sequence)    ? PyList_GET_SIZE(sequence)
         : PyTuple_Check(sequence) ? PyTuple_GET_SIZE(sequence)
                                   : PyObject_Size(sequence);
}
Ref<> itemAt(PyObject* sequence, Py_ssize_t index) {
  if (PyList_Check(sequence)) return newRef(PyList_GET_ITEM(sequence, index));
  if (PyTuple_Check(sequence)) return newRef(PyTuple_GET_ITEM(sequence, index));
  return stealRef(PySequence_GetItem(sequence, index));
}

// What stands under this very key (borrowed). Without a look at its class, which may have its own __hash__.
PyObject* valueUnder(Tracer& t, PyObject* dict, PyObject* key) {
  if (!t.own_keys.any()) return PyDict_GetItemWithError(dict, key);
  PyObject *other = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict, &position, &other, &value)) {
    if (other == key) return value;
  }
  return nullptr;
}

// Its last step: there is no item.
Out end(TraceIterator* iterator) {
  iterator->exhausted = true;
  return Ref<>();
}

// What __getitem__ of an object gives: of reversed(), which goes down, and of iter() where there is no __iter__.
Out itemAsked(Tracer& tracer, TraceIterator* iterator) {
  if (iterator->index < 0) return end(iterator);
  Ref<> sequence = (*iterator->sources)[0];
  Ref<> index = stealRef(PyLong_FromLongLong(iterator->index));
  Out item = tracer.above.runEntered(getItem(tracer, sequence.get(), index.get()));
  if (item.flow() == Flow::kOk)
    iterator->index += iterator->kind == IteratorKind::kByIndex ? 1 : -1;
  if (item.flow() != Flow::kRaise ||
      !(tracer.errors.raisedIs(PyExc_IndexError) || tracer.errors.raisedIs(PyExc_StopIteration)))
    return item;
  tracer.errors.dropRaised();
  return end(iterator);
}

PyObject* isKnownIterator(PyObject*, PyObject* iterator) {
  return newRef(stator_iterator_known(iterator) != 0 ? Py_True : Py_False).release();
}

// The trace's own changes to what an iterator goes over are not in it yet.
bool wasChanged(Tracer& t, PyObject* iterator) {
  for (int i = 0; i < STATOR_MOST_CONTAINERS; ++i) {
    PyObject* container = stator_iterator_container(iterator, i);
    if (container == nullptr) continue;
    values::Info* info = t.values.find(container);
    if (info != nullptr && (info->dirty || info->appended)) return true;
    if (!PyDict_CheckExact(container)) continue;
    for (const values::Info* owner : t.values.all()) {
      if (!owner->overlay || owner->origin != values::Origin::kOutside) continue;
      PyObject** slot = _PyObject_GetDictPtr(owner->object.get());
      if (slot != nullptr && *slot == container) return true;
    }
  }
  return false;
}

// Items that an iterator from outside has not given yet: they are known by how far ahead they lie, wherever it stands.
Out nextFromOutside(Tracer& tracer, PyObject* iterator) {
  values::Info* info = tracer.values.find(iterator);
  if (info == nullptr || info->source == nullptr)
    return tracer.breakWith(Reason::kUnsupportedIterator, Py_TYPE(iterator)->tp_name);
  if (wasChanged(tracer, iterator))
    return tracer.breakWith(Reason::kUnsupportedIterator,
                            "an iterator over a container that was changed");
  tracer.frames.commit();
  if (info->taken == 0 && !stator_iterator_is_simple(iterator)) {
    static PyMethodDef method = {"is_known", isKnownIterator, METH_O, nullptr};
    static PyObject* const ask = PyCFunction_New(&method, nullptr);
    tracer.world.guard(Guard{
        GuardKind::kEquals, tracer.world.child(SourceKind::kAsked, info->source, newRef(ask).get()),
        nullptr, newRef(Py_True)});
  }
  noteWrite(tracer, iterator);
  const Source* ahead = tracer.world.child(SourceKind::kAhead, info->source, nullptr, info->taken);
  Ref<> raw = stealRef(stator_iterator_ahead(iterator, info->taken));
  if (!raw) {
    tracer.world.guard(Guard{GuardKind::kAbsent, ahead});
  } else {
    STATOR_VALUE(item, fromOutside(tracer, raw.get(), ahead));
    tracer.world.keep(raw);
    raw = std::move(item);
    info = tracer.values.find(iterator);
  }
  info->taken++;
  info->dirty = true;
  return raw;
}

// Of a class of the program's, or from outside.
Out nextOfObject(Tracer& tracer, PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject* method = _PyType_Lookup(type, names().dunder_next);
  if (method == nullptr)
    return tracer.raiseNew(PyExc_TypeError, "'%.200s' object is not an iterator", type->tp_name);
  if (takerOf(tracer, object) == nullptr && stator_iterator_known(object))
    return nextFromOutside(tracer, object);
  STATOR_VALUE(taken, takenOver(tracer, object));
  if (taken) return next(tracer, taken.get());
  if (!PyFunction_Check(method))
    return tracer.breakWith(Reason::kUnsupportedIterator, type->tp_name);
  STATOR_VALUE(bound, special(tracer, object, "__next__"));
  Out result = tracer.above.callNested(bound.get(), {});
  if (result.flow() == Flow::kRaise && tracer.errors.raisedIs(PyExc_StopIteration)) {
    tracer.errors.dropRaised();
    return Ref<>();
  }
  return result;
}

Out nextOfSequence(Tracer& tracer, TraceIterator* iterator) {
  PyObject* sequence = (*iterator->sources)[0].get();
  if (graph::isStandIn(sequence)) {
    if (iterator->index >= graph::asStandIn(sequence)->meta->sizes[0].value()) return end(iterator);
    Ref<> index = stealRef(PyLong_FromLongLong(iterator->index));
    STATOR_VALUE(item, getItem(tracer, sequence, index.get()));
    iterator->index++;
    return item;
  }
  STATOR_VALUE(items, contents(tracer, sequence));
  if (iterator->index >= lengthOf(items.get())) return end(iterator);
  return tracer.fromNative(itemAt(items.get(), iterator->index++));
}

Out nextOfReversed(Tracer& tracer, TraceIterator* iterator) {
  if (iterator->flag) return itemAsked(tracer, iterator);
  STATOR_VALUE(items, contents(tracer, (*iterator->sources)[0].get()));
  if (iterator->index < 0 || iterator->index >= lengthOf(items.get())) return end(iterator);
  return tracer.fromNative(itemAt(items.get(), iterator->index--));
}

// Of a dict's values or items: the value that the key has now.
Out nextOfView(Tracer& tracer, TraceIterator* iterator, PyObject* view) {
  STATOR_VALUE(dict, viewedDict(tracer, view));
  STATOR_VALUE(items, contents(tracer, dict.get()));
  PyObject* key = PyTuple_GET_ITEM((*iterator->sources)[2].get(), iterator->index);
  PyObject* value = valueUnder(tracer, items.get(), key);
  if (value == nullptr && PyErr_Occurred()) return tracer.raiseCurrentError();
  if (value == nullptr)
    return tracer.breakWith(Reason::kUnsupportedIterator,
                            "a dict whose keys change while it is iterated over");
  iterator->index++;
  return PyDictValues_Check(view) ? newRef(value) : stealRef(PyTuple_Pack(2, key, value));
}

Out nextOfSnapshot(Tracer& tracer, PyObject* object) {
  TraceIterator* iterator = asTraceIterator(object);
  std::vector<Ref<>>& parts = *iterator->sources;
  Py_ssize_t size = PyTuple_GET_SIZE(parts[0].get());
  PyObject* owner = parts[1].get();
  STATOR_FLOW(checkUnchanged(tracer, object));
  if (iterator->index >= size) return end(iterator);
  if (parts.size() > 2 && parts[2]) return nextOfView(tracer, iterator, owner);
  return newRef(PyTuple_GET_ITEM(parts[0].get(), iterator->index++));
}

// zip(strict=True), once the iterator `ended` has no item: neither has any other.
Flow requireAllEnded(Tracer& tracer, const std::vector<Ref<>>& iterators, size_t ended) {
  if (ended > 0) {
    return tracer.raiseNew(PyExc_ValueError, "zip() argument %zu is shorter than argument%s%zu",
                           ended + 1, ended == 1 ? " " : "s 1-", ended);
  }
  for (size_t j = 1; j < iterators.size(); ++j) {
    STATOR_VALUE(extra, next(tracer, iterators[j].get()));
    if (extra) {
      return tracer.raiseNew(PyExc_ValueError, "zip() argument %zu is longer than argument%s%zu",
                             j + 1, j == 1 ? " " : "s 1-", j);
    }
  }
  return Flow::kOk;
}

Out nextOfZip(Tracer& tracer, TraceIterator* iterator) {
  std::vector<Ref<>>& parts = *iterator->sources;
  if (parts.empty()) return end(iterator);
  Ref<> tuple = stealRef(PyTuple_New(static_cast<Py_ssize_t>(parts.size())));
  for (size_t i = 0; i < parts.size(); ++i) {
    STATOR_VALUE(item, next(tracer, parts[i].get()));
    if (!item) {
      if (iterator->flag) STATOR_FLOW(requireAllEnded(tracer, parts, i));
      return end(iterator);
    }
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item.release());
  }
  return tuple;
}

Out nextOfEnumerate(Tracer& tracer, TraceIterator* iterator) {
  STATOR_VALUE(item, next(tracer, (*iterator->sources)[0].get()));
  if (!item) return end(iterator);
  Ref<> number = stealRef(PyLong_FromLongLong(iterator->index++));
  return stealRef(PyTuple_Pack(2, number.get(), item.get()));
}

Out nextOfMap(Tracer& tracer, TraceIterator* iterator) {
  std::vector<Ref<>>& parts = *iterator->sources;
  std::vector<Ref<>> items;
  Args args;
  for (size_t i = 1; i < parts.size(); ++i) {
    STATOR_VALUE(item, next(tracer, parts[i].get()));
    if (!item) return end(iterator);
    args.values.push_back(item.get());
    items.push_back(std::move(item));
  }
  args.positional = args.values.size();
  return tracer.above.callNested(parts[0].get(), args);
}

Out nextOfFilter(Tracer& tracer, TraceIterator* iterator) {
  std::vector<Ref<>>& parts = *iterator->sources;
  for (;;) {
    STATOR_VALUE(item, next(tracer, parts[1].get()));
    if (!item) return end(iterator);
    Ref<> verdict = item;
    if (parts[0].get() != Py_None && parts[0].get() != reinterpret_cast<PyObject*>(&PyBool_Type)) {
      STATOR_VALUE(result, tracer.above.callNested(parts[0].get(), {item.get()}));
      verdict = result;
    }
    STATOR_VALUE(keep, truth(tracer, verdict.get()));
    if (keep.get() == Py_True) return item;
  }
}

// iter() with a sentinel
Out nextOfCallable(Tracer& tracer, TraceIterator* iterator) {
  std::vector<Ref<>>& parts = *iterator->sources;
  STATOR_VALUE(item, tracer.above.callNested(parts[0].get(), {}));
  if (!isNativeSafe(tracer, item.get()) || !isNativeSafe(tracer, parts[1].get()))
    return tracer.breakWith(Reason::kUnsupportedIterator, "iter() with a sentinel");
  int equal = PyObject_RichCompareBool(item.get(), parts[1].get(), Py_EQ);
  if (equal < 0) return tracer.raiseCurrentError();
  if (equal == 1) return end(iterator);
  return item;
}

}  // namespace

Out next(Tracer& tracer, PyObject* object) {
  needStack();
  if (!isTraceIterator(object)) return nextOfObject(tracer, object);
  TraceIterator* iterator = asTraceIterator(object);
  if (iterator->exhausted) {
    // what it returned was told once
    if (iterator->kind == IteratorKind::kGenerator) iterator->sources->clear();
    return Ref<>();
  }
  tracer.frames.commit();
  switch (iterator->kind) {
    case IteratorKind::kSequence:
      return nextOfSequence(tracer, iterator);
    case IteratorKind::kReversed:
      return nextOfReversed(tracer, iterator);
    case IteratorKind::kByIndex:
      return itemAsked(tracer, iterator);
    case IteratorKind::kSnapshot:
      return nextOfSnapshot(tracer, object);
    case IteratorKind::kZip:
      return nextOfZip(tracer, iterator);
    case IteratorKind::kEnumerate:
      return nextOfEnumerate(tracer, iterator);
    case IteratorKind::kMap:
      return nextOfMap(tracer, iterator);
    case IteratorKind::kFilter:
      return nextOfFilter(tracer, iterator);
    case IteratorKind::kCallable:
      return nextOfCallable(tracer, iterator);
    case IteratorKind::kGenerator:
      return tracer.above.runGenerator(object, newRef(Py_None));
    default:
      return tracer.above.nextOfItertools(object);
  }
}

}  // namespace stator::interpret
