// isinstance().
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

Out isInstance(Tracer& tracer, PyObject* object, PyObject* classinfo);

}  // namespace stator::interpret
