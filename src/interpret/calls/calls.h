// One way for every call: what the callable is decides what is done with it.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

Out call(Tracer& tracer, PyObject* callable, const Args& args,
         Continuation then = Continuation::kPush);
// runs to its end before it returns; a break inside breaks here
Out callNested(Tracer& tracer, PyObject* callable, const Args& args);
Out callNested(Tracer& tracer, PyObject* callable, std::initializer_list<PyObject*> args);
// StopIteration, with a generator's return value
Out raiseStop(Tracer& tracer, PyObject* iterator);
// Runs what was entered to its end and gives its value. A break inside takes the whole trace back to the instruction
// under way.
Out runEntered(Tracer& tracer, Out out);
// Says what becomes of the value, if a frame was entered that will give it.
Out deliverTo(Tracer& tracer, Out out, Continuation then);

}  // namespace stator::interpret
