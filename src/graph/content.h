// What a graph computes, as bytes that are the same in every process: calls, arguments, constants, outputs, and what is
// known of inputs and symbols. Names, lines and modules are left out: they do not change what a backend makes.
#pragma once

#include "base/result.h"
#include "graph/graph.h"

#include <string>

namespace stator::graph {

// Not applicable: something in it means nothing outside of this process, or its meaning may change between two (a
// function that is not torch's own, say). Facts of the inputs beyond their sizes are the caller's: it has the tensors.
Result<std::string> contentOf(const Graph& graph);

}  // namespace stator::graph
