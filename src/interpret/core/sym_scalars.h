// Numbers of the graph: symbolic floats, and what is read from tensors.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// ok with null: it stays a constant
Out floatFromOutside(Tracer& tracer, PyObject* raw, const sources::Source* source);
// its stand-in
Ref<> scalarNode(Tracer& tracer, PyObject* scalar);
// null: not for these
Ref<> scalarBinary(Tracer& tracer, int operation, PyObject* left, PyObject* right);
Ref<> scalarUnary(Tracer& tracer, int operation, PyObject* operand);
Ref<> scalarCompare(Tracer& tracer, int operation, PyObject* left, PyObject* right);
// int() of a float that only the run of the graph will tell
Ref<> truncated(Tracer& tracer, PyObject* scalar);
Ref<> concreteScalar(Tracer& tracer, PyObject* scalar);
// whether it can be told what it is now: concreteScalar() gives an answer
bool hasValue(Tracer& tracer, PyObject* scalar);
// item() and its like with config.capture_scalar_outputs; ok with null: not for this tensor
Out readIntoGraph(Tracer& tracer, PyObject* target, PyObject* tensor);
const symbolic::Expr* addUnbacked(Tracer& tracer, Ref<> stand_in, symbolic::Range range);

// What the function says of symbolic numbers (and plain ones beside them), as a float of the graph; null: not for
// these.
Ref<> floatOf(Tracer& t, const std::vector<PyObject*>& numbers, PyObject* function);
inline Ref<> floatOf(Tracer& t, PyObject* number, PyObject* function) {
  return floatOf(t, std::vector<PyObject*>{number}, function);
}

// A bool that the graph computes is checked there, as torch._check does, and relied on from here on.
void checkInGraph(Tracer& tracer, PyObject* condition);

}  // namespace stator::interpret
