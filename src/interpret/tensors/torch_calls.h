// Tensor operations as nodes of the graph.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// as the graph keeps it: containers are copied, since the program may change them later
Out graphArgument(Tracer& tracer, PyObject* value, int depth = 0);
// remember: what comes out depends on the arguments alone; facts: a callable that tells the facts of the results in the target's place
Out tensorCall(Tracer& tracer, graph::Op op, PyObject* target, const Args& args,
               bool remember = true, PyObject* facts = nullptr);
// inputs that share its memory are written to
void noteWritten(Tracer& tracer, PyObject* stand_in);

bool anyStandIn(Tracer& tracer, const Args& args);

}  // namespace stator::interpret
