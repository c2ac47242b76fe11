// Containers, strings, slices, unpacking.
#include "runtime/concrete.h"

#include <algorithm>

namespace stator::runtime::concrete {
namespace {

// Moves the top `count` values of the stack into a new tuple or list, in order.
void moveItems(Machine& m, int count, PyObject** items) {
  *m.top -= count;
  std::copy_n(m.slots + *m.top, count, items);
}

Step fillMap(Machine& m, PyObject* const* keys, ptrdiff_t key_step, PyObject* const* values,
             ptrdiff_t value_step, int count, int pops) {
  Ref<> map = stealRef(PyDict_New());
  if (!map) return Step::kRaise;
  for (int i = 0; i < count; i++) {
    if (PyDict_SetItem(map.get(), keys[i * key_step], values[i * value_step]) < 0)
      return Step::kRaise;
  }
  while (pops-- > 0) m.pop();
  m.push(std::move(map));
  return Step::kNext;
}

// Puts `before` items of the iterable, and with `after` >= 0 the rest as a list and then `after` more, on the stack so
// that the first is on top. The items become part of the stack only if all went well.
Step unpack(Machine& m, int before, int after) {
  Ref<> iterable = m.pop();
  Ref<> iterator = stealRef(PyObject_GetIter(iterable.get()));
  if (!iterator) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) && !Py_TYPE(iterable.get())->tp_iter &&
        !PySequence_Check(iterable.get())) {
      PyErr_Format(PyExc_TypeError, "cannot unpack non-iterable %.200s object",
                   Py_TYPE(iterable.get())->tp_name);
    }
    return Step::kRaise;
  }
  const int total = after < 0 ? before : before + 1 + after;
  PyObject** bottom = m.slots + *m.top;
  PyObject** place = bottom + total;
  auto fail = [&] {
    while (place < bottom + total) stealRef(*place++);
    return Step::kRaise;
  };
  for (int i = 0; i < before; i++) {
    PyObject* item = PyIter_Next(iterator.get());
    if (!item) {
      if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError,
                     after < 0 ? "not enough values to unpack (expected %d, got %d)"
                               : "not enough values to unpack (expected at least %d, got %d)",
                     after < 0 ? before : before + after, i);
      }
      return fail();
    }
    *--place = item;
  }
  if (after < 0) {
    Ref<> extra = stealRef(PyIter_Next(iterator.get()));
    if (extra) {
      extra.reset();
      PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %d)", before);
    }
    if (PyErr_Occurred()) return fail();
  } else {
    PyObject* rest = PySequence_List(iterator.get());
    if (!rest) return fail();
    *--place = rest;
    Py_ssize_t length = PyList_GET_SIZE(rest);
    if (length < after) {
      PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %zd)",
                   before + after, before + length);
      return fail();
    }
    for (int i = after; i > 0; i--) *--place = PyList_GET_ITEM(rest, length - i);
    Py_SET_SIZE(rest, length - after);  // the references have moved to the stack
  }
  *m.top += total;
  iterator.reset();
  return Step::kNext;
}

}  // namespace

Step buildTuple(Machine& m, int oparg) {
  Ref<> tuple = stealRef(PyTuple_New(oparg));
  if (!tuple) return Step::kRaise;
  if (oparg) moveItems(m, oparg, &PyTuple_GET_ITEM(tuple.get(), 0));
  return m.finish(std::move(tuple));
}

Step buildList(Machine& m, int oparg) {
  Ref<> list = stealRef(PyList_New(oparg));
  if (!list) return Step::kRaise;
  if (oparg) moveItems(m, oparg, PySequence_Fast_ITEMS(list.get()));
  return m.finish(std::move(list));
}

Step buildSet(Machine& m, int oparg) {
  Ref<> set = stealRef(PySet_New(nullptr));
  if (!set) return Step::kRaise;
  int status = 0;
  for (int i = oparg; i > 0; i--) {
    Ref<> item = stealRef(std::exchange(m.peek(i), nullptr));
    if (status == 0) status = PySet_Add(set.get(), item.get());
  }
  *m.top -= oparg;
  return status < 0 ? Step::kRaise : m.finish(std::move(set));
}

Step buildMap(Machine& m, int oparg) {
  PyObject** first = &m.peek(2 * oparg);
  return fillMap(m, first, 2, first + 1, 2, oparg, 2 * oparg);
}

Step buildConstKeyMap(Machine& m, int oparg) {
  PyObject* keys = m.peek(1);
  if (!PyTuple_CheckExact(keys) || PyTuple_GET_SIZE(keys) != oparg) {
    PyErr_SetString(PyExc_SystemError, "bad BUILD_CONST_KEY_MAP keys argument");
    return Step::kRaise;
  }
  return fillMap(m, PySequence_Fast_ITEMS(keys), 1, &m.peek(oparg + 1), 1, oparg, oparg + 1);
}

Step buildString(Machine& m, int oparg) {
  Ref<> empty = stealRef(PyUnicode_New(0, 0));
  Ref<> joined = stealRef(_PyUnicode_JoinArray(empty.get(), &m.peek(oparg), oparg));
  if (!joined) return Step::kRaise;
  while (oparg-- > 0) m.pop();
  m.push(std::move(joined));
  return Step::kNext;
}

Step buildSlice(Machine& m, int oparg) {
  Ref<> step = oparg == 3 ? m.pop() : nullptr;
  Ref<> stop = m.pop();
  Ref<> start = m.pop();
  return m.finish(stealRef(PySlice_New(start.get(), stop.get(), step.get())));
}

namespace {

// str(), repr() and ascii() of f-strings: !s, !r, !a.
Ref<> converted(Ref<> value, int conversion) {
  switch (conversion) {
    case 1:
      return stealRef(PyObject_Str(value.get()));
    case 2:
      return stealRef(PyObject_Repr(value.get()));
    case 3:
      return stealRef(PyObject_ASCII(value.get()));
    default:
      return value;
  }
}

}  // namespace

Step convertValue(Machine& m, int oparg) { return m.finish(converted(m.pop(), oparg)); }

// The argument's low bits choose the conversion (!s, !r, !a), bit 2 says that a format specification is on the stack.
Step formatValue(Machine& m, int oparg) {
  Ref<> spec = oparg & 4 ? m.pop() : nullptr;
  Ref<> value = converted(m.pop(), oparg & 3);
  if (!value || (PyUnicode_CheckExact(value.get()) && !spec)) return m.finish(std::move(value));
  return m.finish(stealRef(PyObject_Format(value.get(), spec.get())));
}

Step listToTuple(Machine& m, int) {
  Ref<> list = m.pop();
  return m.finish(stealRef(PyList_AsTuple(list.get())));
}

Step listAppend(Machine& m, int oparg) {
  Ref<> item = m.pop();
  return Machine::check(PyList_Append(m.peek(oparg), item.get()));
}

Step setAdd(Machine& m, int oparg) {
  Ref<> item = m.pop();
  return Machine::check(PySet_Add(m.peek(oparg), item.get()));
}

Step mapAdd(Machine& m, int oparg) {
  Ref<> value = m.pop();
  Ref<> key = m.pop();
  return Machine::check(PyDict_SetItem(m.peek(oparg), key.get(), value.get()));
}

Step listExtend(Machine& m, int oparg) {
  Ref<> iterable = m.pop();
  Ref<> none =
      stealRef(_PyList_Extend(reinterpret_cast<PyListObject*>(m.peek(oparg)), iterable.get()));
  if (none) return Step::kNext;
  if (PyErr_ExceptionMatches(PyExc_TypeError) && !Py_TYPE(iterable.get())->tp_iter &&
      !PySequence_Check(iterable.get())) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "Value after * must be an iterable, not %.200s",
                 Py_TYPE(iterable.get())->tp_name);
  }
  return Step::kRaise;
}

Step setUpdate(Machine& m, int oparg) {
  Ref<> iterable = m.pop();
  return Machine::check(_PySet_Update(m.peek(oparg), iterable.get()));
}

Step dictUpdate(Machine& m, int oparg) {
  Ref<> update = m.pop();
  if (PyDict_Update(m.peek(oparg), update.get()) == 0) return Step::kNext;
  if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Format(PyExc_TypeError, "'%.200s' object is not a mapping",
                 Py_TYPE(update.get())->tp_name);
  }
  return Step::kRaise;
}

Step dictMerge(Machine& m, int oparg) {
  Ref<> update = m.pop();
  if (_PyDict_MergeEx(m.peek(oparg), update.get(), 2) == 0) return Step::kNext;
  rewordKeywordError(m.peek((kNullBehindCallable ? 3 : 2) + oparg), update.get());
  return Step::kRaise;
}

Step unpackSequence(Machine& m, int oparg) { return unpack(m, oparg, -1); }
Step unpackEx(Machine& m, int oparg) { return unpack(m, oparg & 0xff, oparg >> 8); }

}  // namespace stator::runtime::concrete
