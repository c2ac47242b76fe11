// Objects as only CPython 3.13 lays them out; see objects.h.
#define Py_BUILD_CORE 1
#include "python/objects.h"

#include <internal/pycore_dict.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_pystate.h>
#include <internal/pycore_range.h>
#include <internal/pycore_typeobject.h>

#if PY_MINOR_VERSION != 13
#error "objects313.c is for CPython 3.13"
#endif

#define SAME_FIELD(ours, theirs)                                                       \
  _Static_assert(offsetof(StatorValues, ours) == offsetof(struct _dictvalues, theirs), \
                 "layout of inline values")
SAME_FIELD(capacity, capacity);
SAME_FIELD(size, size);
SAME_FIELD(embedded, embedded);
SAME_FIELD(valid, valid);
SAME_FIELD(values, values);

// The interpreter's own types keep an index where others have their subclasses; dict and subclasses are in the
// interpreter.
static managed_static_type_state* state_of(PyTypeObject* type) {
  return &PyInterpreterState_Get()->types.builtins.initialized[(size_t)type->tp_subclasses - 1];
}

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
