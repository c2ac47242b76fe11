// The Python object that stands for a symbolic int while tracing. Like a tensor's stand-in, no native code may work on it: every slot
// raises and sets a sticky flag. The tracer gives it the meaning of an int, or makes it one (Dim::value).
#pragma once

#include "base/python.h"
#include "base/ref.h"
#include "symbolic/dim.h"

namespace stator::symbolic {

struct SymInt {
  PyObject_HEAD
  Dim dim;
};

extern PyTypeObject SymIntType;
inline bool isSymInt(PyObject* object) {
  return object != nullptr && Py_TYPE(object) == &SymIntType;
}
inline Dim dimOf(PyObject* sym_int) { return reinterpret_cast<SymInt*>(sym_int)->dim; }
// An exact int for a number. Throws PythonError.
Ref<> makeInt(Dim dim);
bool initSymIntType();      // once, at module init
bool takeSymIntLeakFlag();  // true if a slot fired since the last call; clears the flag

}  // namespace stator::symbolic
