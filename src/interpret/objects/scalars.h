// Instances of subclasses of str, int, float, complex and bytes, and numbers that stand for addresses.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// what an instance of a subclass of str, int ... holds; ok with null: it is no such instance
Out exactScalar(Tracer& tracer, PyObject* value);
// the same, but null also where the subclass gives an operation another meaning
Out plainScalar(Tracer& tracer, PyObject* value);
// id()
Out addressOf(Tracer& tracer, PyObject* object);
// the same with a number of its own
Out addressOfNumber(Tracer& tracer, PyObject* object, PyObject* number);
PyObject* addressTarget(Tracer& tracer, PyObject* address);
// the real number, for which the object has to be the very one; breaks if the trace made it
Out pinnedAddress(Tracer& tracer, PyObject* address);
// a tuple or frozenset in a code object: the same one at every call
void noteCodeConstant(Tracer& tracer, PyObject* constant);
// the trace relies on what it is not identical with
void noteIdentity(Tracer& tracer, PyObject* object);

}  // namespace stator::interpret
