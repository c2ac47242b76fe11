// `in`
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// Py_True / Py_False, or a bool of the graph
Out contains(Tracer& tracer, PyObject* container, PyObject* item);

}  // namespace stator::interpret
