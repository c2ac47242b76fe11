// Parameters that the program makes, for backends that differentiate: those compute gradients for inputs of a graph and
// for nothing else. So an empty parameter is made before the graph runs and given to it, and the data that the graph
// computes is copied there. In eager the parameter has data's own memory: a program that could tell (it uses the data
// afterwards, or has it from outside) gets a break where it makes the parameter.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// A leaf of the class with that data.
Out newLeaf(Tracer& t, PyTypeObject* type, PyObject* data);

// Whether the program uses the data of a parameter that it made; then the trace starts over with a break where it made
// it.
bool usesDataOfParameters(Tracer& t);

}  // namespace stator::interpret
