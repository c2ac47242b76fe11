// Symbolic ints in the graph.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// as an argument of the graph: a stand-in, or a plain int
Ref<> symNode(Tracer& tracer, symbolic::Dim dim);
// a graph argument with stand-ins in place of SymInts
Ref<> lowered(Tracer& tracer, PyObject* argument);
void addMissingSymbolInputs(Tracer& tracer);

}  // namespace stator::interpret
