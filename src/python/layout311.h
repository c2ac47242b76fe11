// CPython 3.11: where objects keep their attributes; see objects.h.
// An array of values and a dict have a word each in front of the object; at most one of them is set. The array is
// preceded by bytes: [-1] length of that prefix, [-2] how many values are set, [-3 - i] index of the i-th in order.
#pragma once

#include "python/objects.h"

static inline PyObject** stator_managed_dict_slot(PyObject* object) {
  return (PyObject**)object - 3;
}
static inline PyObject* stator_managed_dict(PyObject* object) {
  return *stator_managed_dict_slot(object);
}
static inline const uint64_t* stator_inline_values_word(PyObject* object) {
  return (const uint64_t*)object - 4;
}
static inline PyObject** stator_inline_values(PyObject* object) {
  return ((PyObject***)object)[-4];
}
static inline PyObject** stator_split_values(void* values) { return (PyObject**)values; }

static inline Py_ssize_t stator_values_count(const StatorView* view) {
  return ((const uint8_t*)view->values)[-2];
}
static inline Py_ssize_t stator_values_order(const StatorView* view, Py_ssize_t position) {
  return ((const uint8_t*)view->values)[-3 - position];
}

static inline int stator_dict_versioned(const PyDictObject* dict) { return 1; }

static inline PyObject* stator_type_dict(PyTypeObject* type) { return type->tp_dict; }

// 0 when the type has none at present.
static inline uint32_t stator_type_version(PyTypeObject* type) {
  return (type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
}

static inline int stator_same_int(PyObject* left, PyObject* right) {
  if (Py_SIZE(left) != Py_SIZE(right)) return 0;
  return memcmp(((PyLongObject*)left)->ob_digit, ((PyLongObject*)right)->ob_digit,
                (size_t)Py_ABS(Py_SIZE(left)) * sizeof(digit)) == 0;
}
