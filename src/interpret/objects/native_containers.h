// Containers and texts that C's own code works on.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// A list, tuple, dict, set or deque whose `method` is C's own.
bool isNativeContainer(Tracer& tracer, PyObject* object, PyObject* method);
// A str, bytes, bytearray or range.
bool isTextLike(PyObject* object);
// What an outside bytearray holds, once it is looked at.
void guardBytes(Tracer& tracer, PyObject* object);

}  // namespace stator::interpret
