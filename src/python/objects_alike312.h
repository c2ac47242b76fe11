// Functions of objects.h that read the same in CPython 3.12 and 3.13, included by each version's file behind its
// state_of().
#pragma once

PyObject* stator_builtin_type_dict(PyTypeObject* type) {
  return (type->tp_flags & _Py_TPFLAGS_STATIC_BUILTIN) != 0 ? state_of(type)->tp_dict : NULL;
}

PyObject* stator_range_ahead(PyObject* iterator, Py_ssize_t n) {
  _PyRangeIterObject* range = (_PyRangeIterObject*)iterator;
  return n < range->len ? PyLong_FromLong(range->start + (long)n * range->step) : NULL;
}

void stator_range_skip(PyObject* iterator, Py_ssize_t n) {
  _PyRangeIterObject* range = (_PyRangeIterObject*)iterator;
  long steps = n < range->len ? (long)n : range->len;
  range->start += steps * range->step;
  range->len -= steps;
}

// A dict of weak references by address, and absent where there is none; a class that goes takes its own out if it is
// still there.
void stator_type_hide(PyTypeObject* type, PyTypeObject* base) {
  PyObject** all = (base->tp_flags & _Py_TPFLAGS_STATIC_BUILTIN) != 0
                       ? &state_of(base)->tp_subclasses
                       : (PyObject**)&base->tp_subclasses;
  if (*all == NULL) return;
  PyObject* key = PyLong_FromVoidPtr(type);
  if (key == NULL || PyDict_DelItem(*all, key) < 0) PyErr_Clear();
  Py_XDECREF(key);
  if (PyDict_GET_SIZE(*all) == 0) Py_CLEAR(*all);
}
