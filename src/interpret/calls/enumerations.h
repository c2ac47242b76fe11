// Members of enumerations.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// The member of an enumeration that a call of the class asks for. Its metaclass may be the program's, and its
// `_missing_`, which is asked for a value that no member has.
Out enumMember(Tracer& tracer, PyTypeObject* type, const Args& args);

}  // namespace stator::interpret
