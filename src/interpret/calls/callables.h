// Objects that are called by way of something that they hold.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// The entry is for this callable alone, where it comes from outside.
void guardIdentity(Tracer& tracer, PyObject* callable);

// functools.partial
Out callPartial(Tracer& tracer, PyObject* callable, const Args& args, Continuation then);
Out callWeakReference(Tracer& tracer, PyObject* callable);
// What torch.library.custom_op makes.
Out callCustomOperator(Tracer& tracer, PyObject* callable, const Args& args);
// What torch.jit.script makes.
Out callScripted(Tracer& tracer, PyObject* callable, const Args& args, Continuation then);
// Functions and bound methods that are written in C and have no row of their own.
Out callBuiltinFunction(Tracer& tracer, PyObject* callable, const Args& args, Continuation then);

}  // namespace stator::interpret
