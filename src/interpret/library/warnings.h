#pragma once

#include "interpret/core/tables.h"

namespace stator::interpret {

// A warning that C gives at the call under way.
Out giveWarning(Tracer& t, PyObject* category, const char* text);

}  // namespace stator::interpret
