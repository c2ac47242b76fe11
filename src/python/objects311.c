// Objects as only CPython 3.11 lays them out; see objects.h.
#include "python/objects.h"

#if PY_MINOR_VERSION != 11
#error "objects311.c is for CPython 3.11"
#endif

PyObject* stator_builtin_type_dict(PyTypeObject* type) { return type->tp_dict; }

// Objects/rangeobject.c
typedef struct {
  PyObject_HEAD
  long index;
  long start;
  long step;
  long length;
} RangeIterator;

PyObject* stator_range_ahead(PyObject* iterator, Py_ssize_t n) {
  RangeIterator* range = (RangeIterator*)iterator;
  if (n >= range->length - range->index) return NULL;
  return PyLong_FromLong(range->start + (range->index + (long)n) * range->step);
}

void stator_range_skip(PyObject* iterator, Py_ssize_t n) {
  RangeIterator* range = (RangeIterator*)iterator;
  range->index = n < range->length - range->index ? range->index + (long)n : range->length;
}

// tp_subclasses is a dict of weak references by address, and absent where there is none; a class that goes takes its
// own out if it is still there.
void stator_type_hide(PyTypeObject* type, PyTypeObject* base) {
  PyObject* all = base->tp_subclasses;
  if (all == NULL) return;
  PyObject* key = PyLong_FromVoidPtr(type);
  if (key == NULL || PyDict_DelItem(all, key) < 0) PyErr_Clear();
  Py_XDECREF(key);
  if (PyDict_GET_SIZE(all) == 0) Py_CLEAR(base->tp_subclasses);
}
