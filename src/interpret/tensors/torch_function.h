// __torch_function__: subclasses, objects and modes.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

Out dispatchTorchFunction(Tracer& tracer, graph::Op op, PyObject* target, const Args& args,
                          bool& handled);
// an argument has a __torch_function__ that torch would ask
bool hasOverloaded(Tracer& tracer, const Args& args);
// the same of an item of a list from outside that nobody has looked at
bool hasUnreadOverloaded(Tracer& tracer, const Args& args);
// the class of a number, name or sequence answers for every attribute, and so for this one
bool answersForAll(Tracer& tracer, PyObject* value);
// as_subclass: another object, the same node
Out castTo(Tracer& tracer, PyObject* stand_in, PyTypeObject* type);
Out newTensorOf(Tracer& tracer, PyTypeObject* type, const Args& args);
Out callMethodWrapper(Tracer& tracer, PyObject* wrapper, const Args& args);

}  // namespace stator::interpret
