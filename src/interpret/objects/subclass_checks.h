// issubclass().
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

Out isSubclass(Tracer& tracer, PyObject* type, PyObject* classinfo);
// Whether a class counts as one of an ABC's may change with each registration.
void guardRegistrations(Tracer& tracer);

}  // namespace stator::interpret
