// CPython 3.13: where objects keep their attributes; see objects.h.
// One word in front of the object is the dict. The array of values follows the object itself, behind a word of bytes
// (capacity, how many are set, whether it is part of an object, whether it holds); behind the values are bytes, the
// index of the i-th in order. A dict may use that array as its own.
#pragma once

#include "python/objects.h"

typedef struct StatorValues {
  uint8_t capacity;
  uint8_t size;
  uint8_t embedded;
  uint8_t valid;
  PyObject* values[1];
} StatorValues;

static inline PyObject** stator_managed_dict_slot(PyObject* object) {
  return (PyObject**)object - 3;
}
static inline PyObject* stator_managed_dict(PyObject* object) {
  return *stator_managed_dict_slot(object);
}
static inline StatorValues* stator_values_of(PyObject* object) {
  return (Py_TYPE(object)->tp_flags & Py_TPFLAGS_INLINE_VALUES) != 0 ? (StatorValues*)(object + 1)
                                                                     : NULL;
}
static inline const uint64_t* stator_inline_values_word(PyObject* object) {
  return (const uint64_t*)stator_values_of(object);
}
static inline PyObject** stator_inline_values(PyObject* object) {
  StatorValues* values = stator_values_of(object);
  return values != NULL && values->valid ? values->values : NULL;
}
static inline PyObject** stator_split_values(void* values) {
  return ((StatorValues*)values)->values;
}

static inline const StatorValues* stator_values_head(const StatorView* view) {
  return (const StatorValues*)((const char*)view->values - offsetof(StatorValues, values));
}
static inline Py_ssize_t stator_values_count(const StatorView* view) {
  return stator_values_head(view)->size;
}
static inline Py_ssize_t stator_values_order(const StatorView* view, Py_ssize_t position) {
  return ((const uint8_t*)(view->values + stator_values_head(view)->capacity))[position];
}

// An attribute that is written to the object changes the values of a dict that uses them without a new version of the
// dict (3.13.0).
static inline int stator_dict_versioned(const PyDictObject* dict) {
  return dict->ma_values == NULL || !((const StatorValues*)dict->ma_values)->embedded;
}

// Those of the interpreter's own types lie in the interpreter.
static inline PyObject* stator_type_dict(PyTypeObject* type) {
  return type->tp_dict != NULL ? type->tp_dict : stator_builtin_type_dict(type);
}

static inline uint32_t stator_type_version(PyTypeObject* type) { return type->tp_version_tag; }

static inline int stator_same_int(PyObject* left, PyObject* right) {
  const _PyLongValue* mine = &((PyLongObject*)left)->long_value;
  const _PyLongValue* theirs = &((PyLongObject*)right)->long_value;
  // Sign and number of digits; the two lowest bits are the sign, the third is reserved.
  if (mine->lv_tag != theirs->lv_tag) return 0;
  return memcmp(mine->ob_digit, theirs->ob_digit, (mine->lv_tag >> 3) * sizeof(digit)) == 0;
}
