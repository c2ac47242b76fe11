// Subscripts.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

Out getItem(Tracer& tracer, PyObject* container, PyObject* key);
Flow setItem(Tracer& tracer, PyObject* container, PyObject* key, PyObject* value);
Flow delItem(Tracer& tracer, PyObject* container, PyObject* key);

}  // namespace stator::interpret
