// Facts of values, read without running user code, setting errors or bringing objects into being.
#pragma once

#include "base/python.h"

#include <cstdint>

namespace stator::guards {

// The instance dict of an object that has none yet (inline values) is handed around as the object itself, marked by the
// lowest bit.
inline PyObject* asInstanceDict(PyObject* object) {
  return reinterpret_cast<PyObject*>(reinterpret_cast<uintptr_t>(object) | 1);
}
inline bool isInstanceDict(PyObject* value) {
  return (reinterpret_cast<uintptr_t>(value) & 1) != 0;
}
inline PyObject* ownerOfDict(PyObject* value) {
  return reinterpret_cast<PyObject*>(reinterpret_cast<uintptr_t>(value) & ~uintptr_t{1});
}
// The instance dict of `object`: the dict, the marked object, or null if it cannot have one.
PyObject* instanceDictOf(PyObject* object);

// Whether the value can be compared by sameConstant: exact int, bool, float, complex, str, bytes, None, ...,
// torch.device and tuples (torch.Size too), frozensets, slices and ranges of them.
bool isConstant(PyObject* value);
// The same, or a tuple whose other items are compared by their identity.
inline bool comparesByValue(PyObject* value) {
  return PyTuple_CheckExact(value) || isConstant(value);
}
// Same type and equal, deeply: 1, True and 1.0 differ; floats by their bits, so NaN equals itself and 0.0 is not -0.0.
bool sameConstant(PyObject* seen, PyObject* expected);
// By the C layout of the built-in containers and their subclasses; -1: not one of them.
Py_ssize_t lengthOf(PyObject* value);
// A dict with exactly these keys, in this order.
bool hasKeys(PyObject* dict, PyObject* keys);
bool isDict(PyObject* value);
PyObject* keyAt(PyObject* dict, int64_t index);  // borrowed; null: not there
PyTypeObject* typeOf(PyObject* value);

}  // namespace stator::guards
