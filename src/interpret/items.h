// What subscripts and iteration share.
#pragma once

#include "base/python.h"

namespace stator::interpret {

class Tracer;

// A list, tuple, dict, set or deque whose `method` is C's own.
bool isNativeContainer(Tracer& tracer, PyObject* object, PyObject* method);
bool isTextLike(PyObject* object);
// What an outside bytearray holds, once it is looked at.
void guardBytes(Tracer& tracer, PyObject* object);

}  // namespace stator::interpret
