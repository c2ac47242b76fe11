// Values as arguments of the graph, and writes to its inputs.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// as the graph keeps it: containers are copied, since the program may change them later
Out graphArgument(Tracer& tracer, PyObject* value, int depth = 0);
// inputs that share its memory are written to
void noteWritten(Tracer& tracer, PyObject* stand_in);

bool anyStandIn(Tracer& tracer, const Args& args);
const shapes::TensorMeta* metaOfStandIn(PyObject* object);  // null: it stands for no tensor
// Tensor arguments in the order in which shapes/ numbers them.
void collectTensors(PyObject* value, std::vector<PyObject*>& out);

}  // namespace stator::interpret
