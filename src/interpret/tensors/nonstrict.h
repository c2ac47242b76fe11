// Objects of the program's own, as they are, in nodes of graphs.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// A constant, an object from outside (which is guarded to be the very one), or what is made of such: native code may
// have it as it is.
bool isPlainPart(Tracer& tracer, PyObject* object, int depth = 0);

}  // namespace stator::interpret
