// The iterators of itertools.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

Out nextOfItertools(Tracer& tracer, PyObject* iterator);

}  // namespace stator::interpret
