// What subscripts and iteration share.
#pragma once

#include "base/python.h"

namespace stator::interpret {

class Tracer;

// A list, tuple, dict, set or deque whose `method` is C's own.
bool isNativeContainer(Tracer& tracer, PyObject* object, PyObject* method);
bool isTextLike(PyObject* object);

}  // namespace stator::interpret
