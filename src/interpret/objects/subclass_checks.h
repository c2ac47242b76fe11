// issubclass().
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

Out isSubclass(Tracer& tracer, PyObject* type, PyObject* classinfo);
// What isinstance() (by `hook` "__instancecheck__") and issubclass() say where the second argument is neither class nor
// tuple: what its own class has to say, or that it is none. ok with a null Ref: one of C's own (a union of classes),
// which may be asked.
Out askNoClass(Tracer& tracer, PyObject* asked, PyObject* classinfo, const char* hook);
// Whether a class counts as one of an ABC's may change with each registration.
void guardRegistrations(Tracer& tracer);
// A check that is written in Python (`__instancecheck__`, `__subclasscheck__`) and may be traced.
bool isFollowed(PyObject* hook);
// An entry of a class that is Python code of the program's, a class method too.
bool isProgramsOwn(PyObject* entry);
// The trace has written to the class or to one of its bases: native code would not see that.
bool hasWrittenClass(Tracer& tracer, PyTypeObject* type);
// Native code would run a hook of the program's, or look at a class without what the trace has written to it.
Flow requireNativeCheck(Tracer& tracer, PyTypeObject* type, PyObject* classinfo);

}  // namespace stator::interpret
