// What keys(), values() and items() of a dict look at.
#pragma once

#include "base/python.h"

#ifdef __cplusplus
extern "C" {
#endif

// As in all of 3.11 to 3.13; since 3.13 in CPython's internal headers alone.
typedef struct StatorDictView {
  PyObject_HEAD
  PyObject* dict;
} StatorDictView;

// Borrowed.
static inline PyObject* stator_dict_of_view(PyObject* view) {
  return ((StatorDictView*)view)->dict;
}

#ifdef __cplusplus
}
#endif
