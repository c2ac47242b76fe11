// Exceptions made in the trace. They are real objects without a traceback: the frames that eager would show in it do
// not exist. What the program gets for one instead is a TraceTraceback, which can be handed around but not looked into.
#pragma once

#include "base/ref.h"
#include "interpret/core/flow.h"
#include "interpret/core/trace_traceback.h"

namespace stator::interpret {

class Tracer;

// `exception.__traceback__`, of one made in the trace or from outside.
Out tracebackOf(Tracer& tracer, PyObject* exception);
// `exception.__traceback__ = value` of one made in the trace.
Flow setTraceback(Tracer& tracer, PyObject* exception, PyObject* value);
// No state beyond args, cause, context and attributes: the plan can make it anew.
bool isPlainException(PyObject* exception);

}  // namespace stator::interpret
