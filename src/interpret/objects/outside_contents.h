// Working copies of containers from outside.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// The items as trace values, in a container of the same kind; guards on the whole. Keys and attributes that were
// written before are in it.
Out outsideContents(Tracer& tracer, values::Info* info);

}  // namespace stator::interpret
