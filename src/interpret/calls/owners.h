// Whether a method of a built-in type may be called with what it is called with.
#pragma once

#include "interpret/core/arguments.h"
#include "interpret/core/tracer.h"

namespace stator::interpret {

// bound: the first argument is the self of a method, by which the callable was found.
bool fitsItsOwner(Tracer& tracer, PyObject* callable, const Args& args, bool bound);

}  // namespace stator::interpret
