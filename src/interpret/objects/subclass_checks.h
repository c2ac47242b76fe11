// issubclass().
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

Out isSubclass(Tracer& tracer, PyObject* type, PyObject* classinfo);
// What isinstance() (by `hook` "__instancecheck__") and issubclass() say where the second argument is neither class nor tuple: what its own class
// has to say, or that it is none. ok with a null Ref: one of C's own (a union of classes), which may be asked.
Out askNoClass(Tracer& tracer, PyObject* asked, PyObject* classinfo, const char* hook);
// Whether a class counts as one of an ABC's may change with each registration.
void guardRegistrations(Tracer& tracer);

}  // namespace stator::interpret
