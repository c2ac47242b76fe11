// Which calls may raise although the facts of their tensors are right.
#pragma once

#include "graph/graph.h"

namespace stator::graph {

// Whether a call may raise for the data of its tensors, whatever their facts are. `target`: as a node has it; `result`:
// the facts of what comes out, null if that is not one tensor; `second`: the second argument (a divisor, an index), or
// null.
bool mayRaiseOnData(Op op, PyObject* target, const shapes::TensorMeta* result, PyObject* second);
bool mayRaiseOnData(const Node& node);

}  // namespace stator::graph
