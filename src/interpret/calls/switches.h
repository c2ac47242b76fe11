// What a program has said about its own functions: stator.allow_in_graph, disable and their relatives, and the marks
// that torch's functions of the same names leave behind.
#pragma once

#include "base/python.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"

#include <string>

namespace stator::interpret {

// Rules of the user's, by identity; they come before the tables' rows. Null: none.
const CallRow* findUserRule(PyObject* callable);

// Handlers of functions of modules that are loaded late, by "module.qualname"; asked before such a function is refused.
FunctionHandler findLate(PyObject* function);

void registerSwitches();
extern PyMethodDef switch_methods[];

// Whether a break is an error at this moment on this thread; stator.error_on_graph_break sets it.
bool errorOnBreak();

// functions that the program has said something about
Out callByRule(Tracer& tracer, const CallRow& row, PyObject* callable, const Args& args,
               Continuation then);
Out callCompiled(Tracer& tracer, PyObject* compiled, const Args& args, Continuation then);
Out constantResult(Tracer& tracer, PyObject* callable, const Args& args);

}  // namespace stator::interpret
