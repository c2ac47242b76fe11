// What an object answers to len(), to bool() and to `is`.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

Out length(Tracer& tracer, PyObject* container);
// Py_True / Py_False
Out truth(Tracer& tracer, PyObject* value);
// `is`
Out same(Tracer& tracer, PyObject* left, PyObject* right);

}  // namespace stator::interpret
