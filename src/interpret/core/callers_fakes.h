// Under a FakeTensorMode that the caller has entered, tensors are fakes of that mode, and results are. A capture takes
// them for tensors of their sizes; the graph runs under the mode, which then sees what it would have seen. Sizes may be
// SymInts of the caller's: a capture knows symbols of its own for them, with the values that they have for now, and the
// program sees neither those nor is anything decided on them but what an operation decides again when the graph runs.
#pragma once

#include "interpret/core/flow.h"
#include "sources/source.h"
#include "tensor/tensor_guard.h"

namespace stator::interpret {

class Tracer;

bool isCallersFake(const Tracer& tracer, PyObject* tensor);
// Whether the tensor may be an input: under such a mode, only its fakes.
Flow checkFake(Tracer& tracer, PyObject* tensor);
// Of one whose sizes are SymInts: torch's own fields, which `guard` has read, do not say what they are.
void noteFakeSizes(Tracer& tracer, PyObject* tensor, tensor::TensorGuard& guard);
// Guards what is a fake's own. False: the guard on torch's fields is no use.
bool guardFake(Tracer& tracer, PyObject* tensor, const sources::Source* source,
               const tensor::TensorGuard& guard);
// The class of an operation's result.
PyTypeObject* resultType(const Tracer& tracer);

}  // namespace stator::interpret
