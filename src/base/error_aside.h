// Python's error that is set, taken away for a while.
#pragma once

#include "base/ref.h"

namespace stator {

// The error as CPython keeps it; nothing where none is set.
struct ErrorAside {
  Ref<> type, value, traceback;
  ErrorAside() {
    PyObject *raw_type = nullptr, *raw_value = nullptr, *raw_traceback = nullptr;
    PyErr_Fetch(&raw_type, &raw_value, &raw_traceback);
    own(raw_type, raw_value, raw_traceback);
  }
  // The exception itself; it may not have been made yet.
  PyObject* instance() {
    PyObject *raw_type = type.release(), *raw_value = value.release(),
             *raw_traceback = traceback.release();
    PyErr_NormalizeException(&raw_type, &raw_value, &raw_traceback);
    own(raw_type, raw_value, raw_traceback);
    return value.get();
  }
  void restore() { PyErr_Restore(type.release(), value.release(), traceback.release()); }

 private:
  void own(PyObject* raw_type, PyObject* raw_value, PyObject* raw_traceback) {
    type = stealRef(raw_type);
    value = stealRef(raw_value);
    traceback = stealRef(raw_traceback);
  }
};

// What is set stays set, whatever happens in this scope.
struct ErrorKept : ErrorAside {
  ErrorKept() = default;
  ErrorKept(const ErrorKept&) = delete;
  ErrorKept& operator=(const ErrorKept&) = delete;
  ~ErrorKept() { restore(); }
};

// The same as one object, which has its traceback.
inline Ref<> takeError() {
  ErrorAside error;
  PyObject* instance = error.instance();
  if (error.traceback) PyException_SetTraceback(instance, error.traceback.get());
  return std::move(error.value);
}
inline void setError(Ref<> error) {
  PyObject* traceback = PyException_GetTraceback(error.get());
  PyObject* type = newRef(reinterpret_cast<PyObject*>(Py_TYPE(error.get()))).release();
  PyErr_Restore(type, error.release(), traceback);
}

}  // namespace stator
