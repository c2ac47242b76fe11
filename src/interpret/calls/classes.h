// Classes made in the trace.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// type.__new__(meta, name, bases, contents)
Out makeClass(Tracer& tracer, PyTypeObject* meta, const Args& args);

}  // namespace stator::interpret
