// Single numbers of NumPy's: immutable, written in C, and with their value right behind the header. Known by name, so
// that nothing here needs NumPy.
#pragma once

#include "base/python.h"

#include <cstring>
#include <string_view>
#include <utility>

namespace stator {

// The bytes of the value; 0: it is no such number.
inline size_t numpyNumberSize(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) return 0;
  std::string_view name = type->tp_name;
  if (name.substr(0, 6) != "numpy.") return 0;
  name.remove_prefix(6);
  constexpr std::pair<std::string_view, size_t> kNumbers[] = {
      {"float64", 8}, {"int64", 8},   {"float32", 4}, {"bool", 1}, {"bool_", 1},
      {"int32", 4},   {"float16", 2}, {"uint8", 1},   {"int8", 1}, {"int16", 2},
      {"uint16", 2},  {"uint32", 4},  {"uint64", 8}};
  for (const auto& [known, size] : kNumbers) {
    if (name == known) return size;
  }
  return 0;
}
inline bool isNumpyNumber(PyObject* object) { return numpyNumberSize(object) != 0; }

// By their bits, as floats of Python's.
inline bool sameNumpyNumber(PyObject* left, PyObject* right) {
  const size_t size = numpyNumberSize(right);
  return size != 0 && Py_TYPE(left) == Py_TYPE(right) &&
         std::memcmp(left + 1, right + 1, size) == 0;
}

}  // namespace stator
