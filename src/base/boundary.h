// Where C++ meets CPython's way of failing: a null pointer with an error set becomes PythonError on the way in, and
// every C++ exception becomes a Python one at a function that Python calls.
#pragma once

#include "base/check.h"
#include "base/ref.h"

#include <type_traits>

namespace stator {

inline Ref<> orThrow(PyObject* made) {
  if (made == nullptr) throw PythonError();
  return Ref<>::steal(made);
}

// `body` gives a Ref or a new reference.
template <class Body>
PyObject* guarded(Body&& body) {
  try {
    if constexpr (std::is_pointer_v<decltype(body())>) {
      return body();
    } else {
      return body().release();
    }
  } catch (const PythonError&) {
    return nullptr;
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

}  // namespace stator
