// Python callables that the graph refers to: functions of `operator`, and of torch by dotted path. Looked up once, kept
// for good.
#pragma once

#include "base/python.h"

namespace stator::known {

PyObject* operatorFunction(const char* name);  // borrowed
// "torch._C._set_grad_enabled"; borrowed, null (no error) if there is no such thing
PyObject* torchObject(const char* path);
PyObject* builtinFunction(const char* name);

}  // namespace stator::known
