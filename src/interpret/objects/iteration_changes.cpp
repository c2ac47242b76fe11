// What CPython's iterators over dicts, sets and deques find out about changes while they are under way.
#include "interpret/objects/iteration_changes.h"

#include "base/error_aside.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/objects/contents.h"
#include "python/objects.h"
#include "values/dicts.h"

#include <vector>

namespace stator::interpret {

Ref<> placesOf(PyObject* container) {
  Py_ssize_t handed_out = 0;
  PyObject* last = Py_None;
  if (PyDict_Check(container)) {
    StatorView view;
    stator_view_dict(&view, container);
    if (view.keys != nullptr) handed_out = view.keys->used;
    if (handed_out > 0 && view.entries[(handed_out - 1) * view.key_stride] != nullptr)
      last = view.entries[(handed_out - 1) * view.key_stride];
  } else if (PyAnySet_Check(container)) {
    handed_out = reinterpret_cast<PySetObject*>(container)->fill;
  } else {
    return Ref<>();
  }
  Ref<> count = stealRef(PyLong_FromSsize_t(handed_out));
  return stealRef(PyTuple_Pack(2, count.get(), last));
}

Out changeable(Tracer& t, PyObject* owner) {
  if (isDictView(owner)) return viewedDict(t, owner);
  if (PyDict_Check(owner) || PyAnySet_Check(owner) || isDeque(owner)) return newRef(owner);
  return Ref<>();
}

Ref<> countingIterator(PyObject* items, bool backwards) {
  if (isDeque(items)) return stealRef(dequeType()->tp_iter(items));
  if (!PyODict_Check(items)) return Ref<>();
  static PyObject* const reversed = torchObject("collections.OrderedDict.__reversed__");
  return stealRef(backwards ? PyObject_CallOneArg(reversed, items) : PyODict_Type.tp_iter(items));
}

namespace {

bool samePlaces(PyObject* before, PyObject* now) {
  return PyTuple_GET_ITEM(before, 1) == PyTuple_GET_ITEM(now, 1) &&
         PyObject_RichCompareBool(PyTuple_GET_ITEM(before, 0), PyTuple_GET_ITEM(now, 0), Py_EQ) ==
             1;
}

// The key that comes next no longer lies where the iterator looks for it: a table that was made anew has no gaps.
bool keyMoved(PyObject* dict, const std::vector<Ref<>>& parts, int64_t index) {
  StatorView view;
  stator_view_dict(&view, dict);
  PyObject* keys = parts[2] ? parts[2].get() : parts[0].get();
  const Py_ssize_t size = PyTuple_GET_SIZE(keys);
  if (view.keys == nullptr || view.keys->used != size || index >= size) return false;
  const bool backwards = parts.size() > 4;
  return view.entries[(backwards ? size - 1 - index : index) * view.key_stride] !=
         PyTuple_GET_ITEM(keys, index);
}

// Of a dict or set that has as many entries as when the iteration began: CPython goes by the places of its table, the
// trace does not.
bool keysChanged(Tracer& t, PyObject* container, const std::vector<Ref<>>& parts, int64_t index) {
  if (parts.size() < 4 || !parts[3]) return false;
  if (!samePlaces(parts[3].get(), placesOf(container).get())) return true;
  if (PyDict_Check(container)) return keyMoved(container, parts, index);
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

// What it says about a change; null: it saw none.
Ref<> changeSeen(const std::vector<Ref<>>& parts) {
  if (parts.size() < 4 || !parts[3]) return Ref<>();
  Ref<> item = stealRef(PyIter_Next(parts[3].get()));
  ErrorAside error;
  return error.value ? stealRef(PyObject_Str(error.value.get())) : Ref<>();
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

}  // namespace

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

}  // namespace stator::interpret
