// Attributes of tensors, read and written.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

Out tensorAttr(Tracer& tracer, PyObject* stand_in, PyObject* name);
// ok with null: not there
Out instanceTensorAttr(Tracer& tracer, PyObject* stand_in, PyObject* name);
// null: delete
Flow setTensorAttr(Tracer& tracer, PyObject* stand_in, PyObject* name, PyObject* value);
// Before an operation writes to `stand_in`, for backends that trace: if that is a tensor's `data`, the write is none
// that autograd counts.
Flow writeToData(Tracer& tracer, PyObject* stand_in);

// A grad_fn of which nothing is known but that it is there.
bool isSomeGradFn(PyObject* object);
// of a hook that is registered when the graph has run
bool isHookHandle(PyObject* object);

}  // namespace stator::interpret
