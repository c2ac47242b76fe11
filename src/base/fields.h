// References that no Ref can hold: fields of objects that CPython allocates and frees, and what lives as long as the
// process.
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

}  // namespace stator
