// stator.comptime, and TorchDynamo's object of that name: functions that run while a program is captured.
#pragma once

#include "interpret/core/arguments.h"
#include "interpret/core/flow.h"

namespace stator::interpret {

class Tracer;

// comptime(f)
Out atCapture(Tracer& t, PyObject* function, const Args& args);
// comptime.print(value), comptime.print_graph() and their like: stator._comptime has the method of the same name.
Out showAtCapture(Tracer& t, PyObject* function, const Args& args);

}  // namespace stator::interpret
