// Tensor operations as nodes of the graph.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// remember: what comes out depends on the arguments alone; facts: a callable that tells the facts of the results in the
// target's place
Out tensorCall(Tracer& tracer, graph::Op op, PyObject* target, const Args& args,
               bool remember = true, PyObject* facts = nullptr);

}  // namespace stator::interpret
