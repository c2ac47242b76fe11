// References that no Ref can hold: fields of objects that CPython allocates and frees, and what lives as long as the process.
#pragma once

#include "base/ref.h"

namespace stator {

// The field is set before what it held is released, which may run code that looks at it.
template <class T>
void setField(T*& field, Ref<T> value) {
  Ref<T>::steal(std::exchange(field, value.release()));
}
template <class T>
void clearField(T*& field) {
  setField(field, Ref<T>());
}

// For the life of the process: its address is a key that must not be used again.
inline void keepForever(PyObject* object) { (void)newRef(object).release(); }

// The error that is set, set aside.
struct ErrorAside {
  Ref<> type, value, traceback;
  ErrorAside() {
    PyObject *raw_type = nullptr, *raw_value = nullptr, *raw_traceback = nullptr;
    PyErr_Fetch(&raw_type, &raw_value, &raw_traceback);
    type = stealRef(raw_type);
    value = stealRef(raw_value);
    traceback = stealRef(raw_traceback);
  }
  // The exception itself; it may not have been made yet.
  Ref<> instance() {
    PyObject *raw_type = type.release(), *raw_value = value.release(),
             *raw_traceback = traceback.release();
    PyErr_NormalizeException(&raw_type, &raw_value, &raw_traceback);
    type = stealRef(raw_type);
    value = stealRef(raw_value);
    traceback = stealRef(raw_traceback);
    return value;
  }
  void restore() { PyErr_Restore(type.release(), value.release(), traceback.release()); }
};

}  // namespace stator
