// Compiled graphs that are differentiated.
#pragma once

#include "graph/graph.h"

#include <memory>
#include <string>

namespace stator::runtime {

// What an error says of a graph.
struct GraphName {
  std::string place;
  Ref<> backend;
  long number = -1;  // of __compiled_fn_<number>
};

// The callable of a backend, for a graph that is entered in grad mode. Where it comes to be one function of autograd's,
// an error of its backward says which graph it is, and gradients that are to be differentiated again
// (create_graph=True), which such a function does not have, are computed by the graph as it was captured.
Ref<> differentiated(const std::shared_ptr<graph::Graph>& graph, Ref<> compiled, GraphName name);
bool initDifferentiatedTypes();

}  // namespace stator::runtime
