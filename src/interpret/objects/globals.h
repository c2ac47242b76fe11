// Whose globals a frame of the trace has.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// The frame's globals, known to the trace from here on; borrowed.
PyObject* globalsOf(Tracer& tracer, SymbolicFrame& frame);

}  // namespace stator::interpret
