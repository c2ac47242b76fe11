// Objects of the program's own classes that operators take (torch._library.opaque_object): those that are values.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// As the graph keeps it: an equal object of its own, made of attributes that are guarded. Ok with a null Ref: it is
// none.
Out opaqueValue(Tracer& tracer, PyObject* object, int depth);

}  // namespace stator::interpret
