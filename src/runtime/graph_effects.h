// What a run of a graph does beside computing its outputs.
#pragma once

#include "graph/graph.h"
#include "runtime/entry.h"

namespace stator::runtime {

// Fills in what the entry says about effects; calls that have any and that nothing needs become outputs. Whether the
// graph switches modes. as_it_is: the graph runs as it was captured, and can be left in its middle; others are run
// again, from where they began.
bool describeEffects(graph::Graph& graph, bool as_it_is, Entry& entry);

}  // namespace stator::runtime
