// Operators, with the special methods in CPython's order.
#pragma once

#include "interpret/core/tracer.h"
#include "interpret/objects/comparisons.h"

namespace stator::interpret {

Out binary(Tracer& tracer, int operation, PyObject* left, PyObject* right);
// divmod(), where a class defines it in Python. A null value: none does.
Out programmedDivmod(Tracer& tracer, PyObject* left, PyObject* right);
Out unary(Tracer& tracer, int operation, PyObject* operand);

}  // namespace stator::interpret
