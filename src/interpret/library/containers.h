// Methods of lists, dicts, sets and deques.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// list.extend
Out extendList(Tracer& tracer, PyObject* list, PyObject* iterable);

}  // namespace stator::interpret
