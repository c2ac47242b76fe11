// What happens when the program lets go of an object. The trace keeps everything alive, so an object whose end would be
// noticed has to be dropped for real.
#pragma once

#include "base/python.h"

namespace stator::interpret {

class Tracer;

// Dropping what may be the last reference to the object runs user code: a finalizer, a weak reference's callback, the
// rest of a generator.
bool dropRunsUserCode(Tracer& tracer, PyObject* value);
// The trace has let go of something from outside, and holds no other reference to the object: whether it still lives is
// not known.
bool mayBeGone(Tracer& tracer, PyObject* object);

}  // namespace stator::interpret
