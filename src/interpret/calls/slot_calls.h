// Calls of slot wrappers and method descriptors: owner.name(self, ...).
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

Out callDescriptor(Tracer& tracer, PyObject* descriptor, const Args& args, Continuation then);
// object.__setattr__
Flow setAttrGeneric(Tracer& tracer, PyObject* object, PyObject* name, PyObject* value);

}  // namespace stator::interpret
