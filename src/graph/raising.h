// Which calls may raise although the facts of their tensors are right.
#pragma once

#include "graph/graph.h"

namespace stator::graph {

// Whether a call may raise for the data of its tensors, whatever their facts are. `target`: as a node has it.
bool mayRaiseOnData(Op op, PyObject* target);

}  // namespace stator::graph
