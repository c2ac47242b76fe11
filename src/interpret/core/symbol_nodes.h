// Symbolic ints in the graph.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// as an argument of the graph: a stand-in, or a plain int
Ref<> symNode(Tracer& tracer, symbolic::Dim dim);
// a graph argument with stand-ins in place of SymInts
Ref<> lowered(Tracer& tracer, PyObject* argument);
void addMissingSymbolInputs(Tracer& tracer);
// the numbers that the graph has as inputs for the symbols of these tensors' sizes, once each; null facts are passed by
std::vector<Ref<>> symbolNodes(Tracer& tracer, const std::vector<const shapes::TensorMeta*>& metas);

}  // namespace stator::interpret
