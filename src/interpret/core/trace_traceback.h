// What a program gets for the traceback of an exception made in the trace: it can be handed around but not looked into.
#pragma once

#include "base/python.h"

namespace stator::interpret {

extern PyTypeObject TraceTracebackType;
bool initTraceTracebackType();
inline bool isTraceTraceback(PyObject* object) {
  return object != nullptr && Py_TYPE(object) == &TraceTracebackType;
}

}  // namespace stator::interpret
