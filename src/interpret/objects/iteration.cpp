// Iteration: what iter() and next() do, over containers, user iterators and the trace's own.
#include "interpret/objects/iteration.h"

#include "base/stack_room.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/symbols.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/items.h"
#include "interpret/objects/scalars.h"
#include "interpret/objects/special_methods.h"
#include "python/objects.h"
#include "python/types.h"
#include "symbolic/sym_int.h"
#include "values/dicts.h"

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

// Of a type in C, bound: what the type itself does.
bool isNativeMethod(PyObject* bound) {
  PyObject* function = PyMethod_Check(bound) ? PyMethod_GET_FUNCTION(bound) : bound;
  return Py_TYPE(function) == &PyWrapperDescr_Type || Py_TYPE(function) == &PyMethodDescr_Type ||
         Py_TYPE(function)->tp_name == std::string_view("method-wrapper");
}

// How many entries a dict has handed out so far, deleted ones included: a key that comes back after it was deleted gets a new one.
Ref<> entriesHandedOut(PyObject* container) {
  if (!PyDict_Check(container)) return Ref<>();
  StatorView view;
  stator_view_dict(&view, container);
  return stealRef(PyLong_FromSsize_t(view.keys != nullptr ? view.keys->used : 0));
}

// Of a dict or set that has as many entries as when the iteration began: CPython goes by the places of its table, the trace does not.
bool keysChanged(Tracer& t, PyObject* container, const std::vector<Ref<>>& parts, int64_t index) {
  if (PyAnySet_Check(container)) {
    if (index >= PyTuple_GET_SIZE(parts[0].get())) return false;
    PyObject* item = PyTuple_GET_ITEM(parts[0].get(), index);
    if (!t.own_keys.any()) return PySet_Contains(container, item) == 0;
    PyObject* other = nullptr;
    Py_hash_t hash = 0;
    Py_ssize_t position = 0;
    while (_PySet_NextEntry(container, &position, &other, &hash)) {
      if (other == item) return false;
    }
    return true;
  }
  if (parts.size() < 4 || !parts[3]) return false;
  Ref<> now = entriesHandedOut(container);
  return PyObject_RichCompareBool(now.get(), parts[3].get(), Py_EQ) != 1;
}

// The dict, set or deque (trace value) that a kSnapshot goes over; null: nothing that changes.
Out changeable(Tracer& t, PyObject* owner) {
  if (isDictView(owner)) return viewedDict(t, owner);
  if (PyDict_Check(owner) || PyAnySet_Check(owner) || isDeque(owner)) return newRef(owner);
  return Ref<>();
}

// Deques and OrderedDicts count their changes: C's own iterator over what the trace keeps of one, which takes each step with the trace's.
Ref<> countingIterator(PyObject* items, bool backwards = false) {
  if (isDeque(items)) return stealRef(dequeType()->tp_iter(items));
  if (!PyODict_Check(items)) return Ref<>();
  static PyObject* const reversed = torchObject("collections.OrderedDict.__reversed__");
  return stealRef(backwards ? PyObject_CallOneArg(reversed, items) : PyODict_Type.tp_iter(items));
}

// What it says about a change; null: it saw none.
Ref<> changeSeen(const std::vector<Ref<>>& parts) {
  if (parts.size() < 4 || !parts[3]) return Ref<>();
  Ref<> item = stealRef(PyIter_Next(parts[3].get()));
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  Ref<> kind = stealRef(type), error = stealRef(value), trace = stealRef(traceback);
  return error ? stealRef(PyObject_Str(error.get())) : Ref<>();
}

enum class Change : uint8_t { kNone, kSize, kKeys };

// With what C says about it, where C was asked.
Out changeOf(Tracer& t, TraceIterator* iterator, Change& change) {
  const std::vector<Ref<>>& parts = *iterator->sources;
  change = iterator->flag ? Change::kSize : Change::kNone;
  STATOR_VALUE(container, changeable(t, parts[1].get()));
  if (!container || iterator->flag) return Ref<>();
  STATOR_VALUE(items, contents(t, container.get()));
  if (isDeque(items.get()) || PyODict_Check(items.get())) {
    Ref<> seen = changeSeen(parts);
    if (seen) change = Change::kSize;
    return seen;
  }
  const Py_ssize_t size =
      PyDict_Check(items.get()) ? PyDict_Size(items.get()) : PySet_GET_SIZE(items.get());
  if (size != PyTuple_GET_SIZE(parts[0].get()))
    change = Change::kSize;
  else if (keysChanged(t, items.get(), parts, iterator->index))
    change = Change::kKeys;
  return Ref<>();
}

// What CPython's iterators over dicts, sets and deques find out about changes. Once told, they say it each time.
Flow checkUnchanged(Tracer& t, PyObject* object) {
  TraceIterator* iterator = asTraceIterator(object);
  PyObject* owner = (*iterator->sources)[1].get();
  Change change = Change::kNone;
  STATOR_VALUE(words, changeOf(t, iterator, change));
  if (change == Change::kKeys) {
    // The real interpreter is to do the whole loop: a dict that is rebuilt half way would not know.
    t.ending.restartAt(t.values.find(object)->born, Reason::kUnsupportedIterator);
    return t.breakWith(Reason::kUnsupportedIterator, "keys change while they are iterated over");
  }
  if (change == Change::kNone) return Flow::kOk;
  if (isDeque(owner)) return t.raiseNew(PyExc_RuntimeError, "deque mutated during iteration");
  STATOR_VALUE(container, changeable(t, owner));
  if (PyODict_Check(container.get())) {
    iterator->exhausted = true;
    return t.raiseNew(PyExc_RuntimeError, "%U", words.get());
  }
  iterator->flag = true;
  return t.raiseNew(PyExc_RuntimeError, PyAnySet_Check(container.get())
                                            ? "Set changed size during iteration"
                                            : "dictionary changed size during iteration");
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

}  // namespace

Ref<> watchDeque(PyObject* items) { return isDeque(items) ? countingIterator(items) : Ref<>(); }

bool sawChange(const Ref<>& watch) {
  if (!watch) return false;
  Ref<> item = stealRef(PyIter_Next(watch.get()));
  if (!PyErr_Occurred()) return false;
  PyErr_Clear();
  return true;
}

bool noticesChange(Tracer& tracer, PyObject* iterator) {
  Change change = Change::kNone;
  Out asked = changeOf(tracer, asTraceIterator(iterator), change);
  return !asked.ok() || change != Change::kNone;
}

namespace {

// As Tensor.__iter__: the views of unbind, which autograd lets nobody write to, and of which all are there before the first is asked for.
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

}  // namespace

Out iterate(Tracer& tracer, PyObject* iterable) {
  static PyObject* method = PyUnicode_InternFromString("__iter__");
  if (isTraceIterator(iterable)) return newRef(iterable);
  if (graph::isStandIn(iterable)) {
    if (tracer.torch_function.relevant()) {
      Args args;
      args.values = {iterable};
      args.positional = 1;
      bool handled = false;
      Out out = tracer.above.dispatchTorchFunction(graph::Op::kCallMethod, method, args, handled);
      if (handled) return out;
    }
    const shapes::TensorMeta* meta = graph::asStandIn(iterable)->meta;
    if (meta == nullptr || meta->sizes.empty())
      return tracer.breakWith(Reason::kRaises, "iterates over a 0-d tensor");
    if (PyType_IsSubtype(typeOf(tracer, iterable), tensorType()))
      return overTensor(tracer, iterable);
    return tracer.made(makeTraceIterator(IteratorKind::kSequence, {newRef(iterable)}));
  }
  PyTypeObject* type = Py_TYPE(iterable);
  STATOR_VALUE(scalar, plainScalar(tracer, iterable));
  if (scalar && isTextLike(scalar.get())) return iterate(tracer, scalar.get());
  if (isTextLike(iterable)) {
    guardBytes(tracer, iterable);
    if (PyObject_Size(iterable) < 0) {
      PyErr_Clear();
      return tracer.breakWith(Reason::kUnsupportedIterator, "a range longer than any sequence");
    }
    return tracer.made(makeTraceIterator(IteratorKind::kSequence, {newRef(iterable)}));
  }
  if (isNativeContainer(tracer, iterable, method)) {
    if (PyList_Check(iterable) || PyTuple_Check(iterable)) {
      STATOR_VALUE(items, contents(tracer, iterable));
      return tracer.made(makeTraceIterator(IteratorKind::kSequence, {newRef(iterable)}));
    }
    STATOR_VALUE(items, contents(tracer, iterable));
    Ref<> snapshot = stealRef(PySequence_Tuple(items.get()));
    Ref<> changes = countingIterator(items.get());
    if (!changes) changes = entriesHandedOut(items.get());
    return tracer.made(
        makeTraceIterator(IteratorKind::kSnapshot, {snapshot, newRef(iterable), Ref<>(), changes}));
  }
  if (isDictView(iterable)) {
    STATOR_VALUE(view, viewContents(tracer, iterable));
    Ref<> snapshot = stealRef(PySequence_Tuple(view.get()));
    STATOR_VALUE(dict, viewedDict(tracer, iterable));
    STATOR_VALUE(items, contents(tracer, dict.get()));
    Ref<> keys = PyDictKeys_Check(iterable) ? Ref<>() : stealRef(PySequence_Tuple(items.get()));
    Ref<> changes = countingIterator(items.get());
    if (!changes) changes = entriesHandedOut(items.get());
    return tracer.made(
        makeTraceIterator(IteratorKind::kSnapshot, {snapshot, newRef(iterable), keys, changes}));
  }
  if (PyType_Check(iterable)) {
    // Iterating over an Enum class yields its members.
    if (PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(iterable), enumType())) {
      Ref<> snapshot = stealRef(PySequence_Tuple(iterable));
      if (!snapshot) return tracer.raiseCurrentError();
      return tracer.made(makeTraceIterator(IteratorKind::kSnapshot, {snapshot, newRef(iterable)}));
    }
  }
  STATOR_VALUE(bound, special(tracer, iterable, "__iter__"));
  if (!bound) {
    if (isDenied(tracer, type, "__iter__"))
      return tracer.raiseNew(PyExc_TypeError, "'%.200s' object is not iterable", type->tp_name);
    static PyObject* getitem = PyUnicode_InternFromString("__getitem__");
    STATOR_VALUE(by_index, typeLookup(tracer, type, getitem));
    if (by_index) {
      if (!PyFunction_Check(by_index.get()))
        return tracer.breakWith(Reason::kUnsupportedIterator, "iterates by __getitem__");
      return tracer.above.callNested(torchObject("stator.polyfills.iteration.by_index"),
                                     {iterable});
    }
    return tracer.raiseNew(PyExc_TypeError, "'%.200s' object is not iterable", type->tp_name);
  }
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

namespace {

// The next item of reversed() over an object with __len__ and __getitem__.
Out itemBefore(Tracer& tracer, TraceIterator* iterator) {
  if (iterator->index < 0) {
    iterator->exhausted = true;
    return Ref<>();
  }
  Ref<> sequence = (*iterator->sources)[0];
  Ref<> index = stealRef(PyLong_FromLongLong(iterator->index));
  Out item = tracer.above.settle(getItem(tracer, sequence.get(), index.get()));
  if (item.flow() == Flow::kOk) iterator->index--;
  if (item.flow() != Flow::kRaise ||
      !(tracer.errors.raisedIs(PyExc_IndexError) || tracer.errors.raisedIs(PyExc_StopIteration)))
    return item;
  tracer.errors.dropRaised();
  iterator->exhausted = true;
  return Ref<>();
}

}  // namespace

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

PyObject* isKnownIterator(PyObject*, PyObject* iterator) {
  return Py_NewRef(stator_iterator_known(iterator) != 0 ? Py_True : Py_False);
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

}  // namespace

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
    tracer.world.guard(Guard{GuardKind::kEquals,
                             tracer.world.child(SourceKind::kAsked, info->source, newRef(ask)),
                             nullptr, newRef(Py_True)});
  }
  noteWrite(tracer, iterator);
  const Source* ahead = tracer.world.child(SourceKind::kAhead, info->source, nullptr, info->taken);
  Ref<> raw = stealRef(stator_iterator_ahead(iterator, info->taken));
  if (!raw) {
    tracer.world.guard(Guard{GuardKind::kAbsent, ahead});
  } else {
    STATOR_VALUE(item, fromOutside(tracer, raw, ahead));
    tracer.world.keep(raw);
    raw = std::move(item);
    info = tracer.values.find(iterator);
  }
  info->taken++;
  info->dirty = true;
  return raw;
}

Out next(Tracer& tracer, PyObject* object) {
  needStack();
  if (!isTraceIterator(object)) {
    PyTypeObject* type = Py_TYPE(object);
    PyObject* method = _PyType_Lookup(type, names().dunder_next);
    if (method == nullptr)
      return tracer.raiseNew(PyExc_TypeError, "'%.200s' object is not an iterator", type->tp_name);
    if (stator_iterator_known(object)) return nextFromOutside(tracer, object);
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
  TraceIterator* iterator = asTraceIterator(object);
  if (iterator->exhausted) {
    // what it returned was told once
    if (iterator->kind == IteratorKind::kGenerator) iterator->sources->clear();
    return Ref<>();
  }
  tracer.frames.commit();
  auto& parts = *iterator->sources;
  auto finish = [&]() -> Out {
    iterator->exhausted = true;
    return Ref<>();
  };
  switch (iterator->kind) {
    case IteratorKind::kSequence: {
      PyObject* sequence = parts[0].get();
      if (graph::isStandIn(sequence)) {
        if (iterator->index >= graph::asStandIn(sequence)->meta->sizes[0].value()) return finish();
        Ref<> index = stealRef(PyLong_FromLongLong(iterator->index));
        STATOR_VALUE(item, getItem(tracer, sequence, index.get()));
        iterator->index++;
        return item;
      }
      STATOR_VALUE(items, contents(tracer, sequence));
      if (iterator->index >= lengthOf(items.get())) return finish();
      return tracer.fromNative(itemAt(items.get(), iterator->index++));
    }
    case IteratorKind::kReversed: {
      if (iterator->flag) return itemBefore(tracer, iterator);
      STATOR_VALUE(items, contents(tracer, parts[0].get()));
      if (iterator->index < 0 || iterator->index >= lengthOf(items.get())) return finish();
      return tracer.fromNative(itemAt(items.get(), iterator->index--));
    }
    case IteratorKind::kSnapshot: {
      Py_ssize_t size = PyTuple_GET_SIZE(parts[0].get());
      PyObject* owner = parts[1].get();
      STATOR_FLOW(checkUnchanged(tracer, object));
      if (iterator->index >= size) return finish();
      if (parts.size() > 2 && parts[2]) {
        // The value that the key has now.
        STATOR_VALUE(dict, viewedDict(tracer, owner));
        STATOR_VALUE(items, contents(tracer, dict.get()));
        PyObject* key = PyTuple_GET_ITEM(parts[2].get(), iterator->index);
        PyObject* value = valueUnder(tracer, items.get(), key);
        if (value == nullptr && PyErr_Occurred()) return tracer.raiseCurrentError();
        if (value == nullptr)
          return tracer.breakWith(Reason::kUnsupportedIterator,
                                  "a dict whose keys change while it is iterated over");
        iterator->index++;
        return PyDictValues_Check(owner) ? newRef(value) : stealRef(PyTuple_Pack(2, key, value));
      }
      return newRef(PyTuple_GET_ITEM(parts[0].get(), iterator->index++));
    }
    case IteratorKind::kZip: {
      if (parts.empty()) return finish();
      Ref<> tuple = stealRef(PyTuple_New(static_cast<Py_ssize_t>(parts.size())));
      for (size_t i = 0; i < parts.size(); ++i) {
        STATOR_VALUE(item, next(tracer, parts[i].get()));
        if (!item) {
          if (iterator->flag) {
            if (i > 0) {
              return tracer.raiseNew(PyExc_ValueError,
                                     "zip() argument %zu is shorter than argument%s%zu", i + 1,
                                     i == 1 ? " " : "s 1-", i);
            }
            for (size_t j = 1; j < parts.size(); ++j) {
              STATOR_VALUE(extra, next(tracer, parts[j].get()));
              if (extra) {
                return tracer.raiseNew(PyExc_ValueError,
                                       "zip() argument %zu is longer than argument%s%zu", j + 1,
                                       j == 1 ? " " : "s 1-", j);
              }
            }
          }
          return finish();
        }
        PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item.release());
      }
      return tuple;
    }
    case IteratorKind::kEnumerate: {
      STATOR_VALUE(item, next(tracer, parts[0].get()));
      if (!item) return finish();
      Ref<> number = stealRef(PyLong_FromLongLong(iterator->index++));
      return stealRef(PyTuple_Pack(2, number.get(), item.get()));
    }
    case IteratorKind::kMap: {
      std::vector<Ref<>> items;
      Args args;
      for (size_t i = 1; i < parts.size(); ++i) {
        STATOR_VALUE(item, next(tracer, parts[i].get()));
        if (!item) return finish();
        args.values.push_back(item.get());
        items.push_back(std::move(item));
      }
      args.positional = args.values.size();
      return tracer.above.callNested(parts[0].get(), args);
    }
    case IteratorKind::kFilter:
      for (;;) {
        STATOR_VALUE(item, next(tracer, parts[1].get()));
        if (!item) return finish();
        Ref<> verdict = item;
        if (parts[0].get() != Py_None &&
            parts[0].get() != reinterpret_cast<PyObject*>(&PyBool_Type)) {
          STATOR_VALUE(result, tracer.above.callNested(parts[0].get(), {item.get()}));
          verdict = result;
        }
        STATOR_VALUE(keep, truth(tracer, verdict.get()));
        if (keep.get() == Py_True) return item;
      }
    case IteratorKind::kCallable: {
      STATOR_VALUE(item, tracer.above.callNested(parts[0].get(), {}));
      if (!isNativeSafe(tracer, item.get()) || !isNativeSafe(tracer, parts[1].get()))
        return tracer.breakWith(Reason::kUnsupportedIterator, "iter() with a sentinel");
      int equal = PyObject_RichCompareBool(item.get(), parts[1].get(), Py_EQ);
      if (equal < 0) return tracer.raiseCurrentError();
      if (equal == 1) return finish();
      return item;
    }
    case IteratorKind::kGenerator:
      return tracer.above.runGenerator(object, newRef(Py_None));
    default:
      return tracer.above.nextOfItertools(object);
  }
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

// What a set's methods in C take for an iterable: how they go about it, and the order of what comes out, depends on whether it is a set or a
// dict.
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

// Before list() and its like take the items they ask how many there are: what a class says to that is seen by whoever wrote it.
Flow askForLength(Tracer& tracer, PyObject* iterable) {
  static PyObject* const length_name = PyUnicode_InternFromString("__len__");
  static PyObject* const hint_name = PyUnicode_InternFromString("__length_hint__");
  if (isTraceIterator(iterable)) {
    // reversed() passes the question on.
    TraceIterator* iterator = asTraceIterator(iterable);
    if (iterator->kind != IteratorKind::kReversed || !iterator->flag || iterator->exhausted)
      return Flow::kOk;
    Out answer = tracer.above.settle(length(tracer, (*iterator->sources)[0].get()));
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
    STATOR_VALUE(bound, special(tracer, iterable, PyUnicode_AsUTF8(name)));
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
