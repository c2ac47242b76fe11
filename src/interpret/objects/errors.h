// Errors that CPython itself would raise, with its own words.
#pragma once

#include "interpret/core/tracer.h"

#include <vector>

namespace stator::interpret {

// makes the built-in raise its own error; a break as before if it does not
Out raiseNatively(Tracer& tracer, PyObject* callable, const Args& args);
// arguments do not fit a Python function
Flow raiseBinding(Tracer& tracer, PyObject* function, const Args& args);
// `del object.name` where the object has a dict, and no such name in it
Flow raiseNotThere(Tracer& tracer, PyObject* object, PyObject* name);
// `object.name = value` where the object has neither such an attribute nor a dict
Flow raiseNoDict(Tracer& tracer, PyObject* object, PyObject* name);
Flow raiseAttributeError(Tracer& tracer, PyObject* object, PyObject* name);
// one %U
Flow raiseNameError(Tracer& tracer, PyObject* type, const char* format, PyObject* name);

// The error that the operation raises for these arguments, where some frame of the trace handles it; ok with null: none
// does.
Out tensorError(Tracer& t, PyObject* target, const Args& args, const std::vector<PyObject*>& now);

}  // namespace stator::interpret
