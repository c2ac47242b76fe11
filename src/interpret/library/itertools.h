// DESCRIBE itertools
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// calls/itertools.cpp
Out nextOfItertools(Tracer& tracer, PyObject* iterator);

}  // namespace stator::interpret
