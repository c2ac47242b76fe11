// Operators and comparisons, with the special methods in CPython's order.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

Out binary(Tracer& tracer, int operation, PyObject* left, PyObject* right);
Out unary(Tracer& tracer, int operation, PyObject* operand);
Out compare(Tracer& tracer, int operation, PyObject* left, PyObject* right);

}  // namespace stator::interpret
