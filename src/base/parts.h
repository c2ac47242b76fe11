// The parts of a container, one level of it, without a copy. Whoever looks into nested containers says what holds of
// one object and calls these for those that it looks into; base/rebuilt.h is for those that make them anew.
// Each stops at the first part of which `test(PyObject*)` is false, and says whether there was none. `test` changes no
// container.
#pragma once

#include "base/python.h"

namespace stator {

// Of a tuple or list, or a subclass of one.
template <class Test>
bool everyItem(PyObject* sequence, Test&& test) {
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i) {
    if (!test(PySequence_Fast_GET_ITEM(sequence, i))) return false;
  }
  return true;
}

// Of a dict, or a subclass of it: `test(key, value)`.
template <class Test>
bool everyEntry(PyObject* dict, Test&& test) {
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value) != 0;) {
    if (!test(key, value)) return false;
  }
  return true;
}

// Of a set or frozenset.
template <class Test>
bool everyElement(PyObject* set, Test&& test) {
  PyObject* element = nullptr;
  Py_hash_t hash = 0;
  for (Py_ssize_t at = 0; _PySet_NextEntry(set, &at, &element, &hash) != 0;) {
    if (!test(element)) return false;
  }
  return true;
}

template <class Test>
bool everyBound(PyObject* slice, Test&& test) {
  const auto* of = reinterpret_cast<PySliceObject*>(slice);
  return test(of->start) && test(of->stop) && test(of->step);
}

// Items of tuples and lists, values of dicts, bounds of slices; anything else has no parts.
template <class Test>
bool everyPart(PyObject* value, Test&& test) {
  if (PyTuple_Check(value) || PyList_Check(value)) return everyItem(value, test);
  if (PyDict_Check(value))
    return everyEntry(value, [&](PyObject*, PyObject* item) { return test(item); });
  return !PySlice_Check(value) || everyBound(value, test);
}

}  // namespace stator
