// CPython 3.12: where objects keep their attributes; see objects.h.
// One word in front of the object is the dict, or the array of values less 1. The array is preceded by bytes as in
// 3.11: [-1] length of that prefix, [-2] how many values are set, [-3 - i] index of the i-th in order.
#pragma once

#include "python/objects.h"

static inline PyObject** stator_managed_dict_slot(PyObject* object) {
  return (PyObject**)object - 3;
}
static inline PyObject* stator_managed_dict(PyObject* object) {
  PyObject* word = *stator_managed_dict_slot(object);
  return ((uintptr_t)word & 1) == 0 ? word : NULL;
}
static inline const uint64_t* stator_inline_values_word(PyObject* object) { return NULL; }
static inline PyObject** stator_inline_values(PyObject* object) {
  char* word = (char*)*stator_managed_dict_slot(object);
  return ((uintptr_t)word & 1) != 0 ? (PyObject**)(word + 1) : NULL;
}
static inline PyObject** stator_split_values(void* values) { return (PyObject**)values; }

static inline Py_ssize_t stator_values_count(const StatorView* view) {
  return ((const uint8_t*)view->values)[-2];
}
static inline Py_ssize_t stator_values_order(const StatorView* view, Py_ssize_t position) {
  return ((const uint8_t*)view->values)[-3 - position];
}

static inline int stator_dict_versioned(const PyDictObject* dict) { return 1; }

// Those of the interpreter's own types lie in the interpreter.
static inline PyObject* stator_type_dict(PyTypeObject* type) {
  return type->tp_dict != NULL ? type->tp_dict : stator_builtin_type_dict(type);
}

static inline uint32_t stator_type_version(PyTypeObject* type) {
  return (type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
}

static inline int stator_same_int(PyObject* left, PyObject* right) {
  const _PyLongValue* mine = &((PyLongObject*)left)->long_value;
  const _PyLongValue* theirs = &((PyLongObject*)right)->long_value;
  // Sign and number of digits; the two lowest bits are the sign, the third is reserved.
  if (mine->lv_tag != theirs->lv_tag) return 0;
  return memcmp(mine->ob_digit, theirs->ob_digit, (mine->lv_tag >> 3) * sizeof(digit)) == 0;
}
