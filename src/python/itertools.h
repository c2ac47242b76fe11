// The part of stator._core that plans call to set iterators of itertools to where they stand, and their layouts.
#pragma once

#include "base/python.h"

#ifdef __cplusplus
extern "C" {
#endif

extern PyMethodDef stator_itertools_methods[];

typedef struct {
  PyObject_HEAD
  PyObject* source;  // the iterator over iterables
  PyObject* active;  // the one under way, or NULL
} StatorChain;

#ifdef __cplusplus
}
#endif
