// One step of an iterator.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// ok with a null Ref: exhausted
Out next(Tracer& tracer, PyObject* iterator);

}  // namespace stator::interpret
