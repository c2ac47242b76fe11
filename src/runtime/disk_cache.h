// The way to what backends made in earlier processes (docs/CACHE.md). Capture is done in every process, so guards are
// never stale; what is found again is the backend's work on a graph of the same content, with inputs of the same facts,
// in the same state of torch.
#pragma once

#include "base/python.h"
#include "base/ref.h"
#include "graph/fx.h"
#include "graph/graph.h"

#include <string>

namespace stator::runtime {

struct Kept {
  // where the work of the backend on the graph is kept, or is to be; empty: nowhere
  std::string key;
  graph::Compiled compiled;  // its callable is null, without an error, if there is nothing yet
};

// Reads the inputs' examples.
Kept findKept(const graph::Graph& graph, PyObject* backend);

}  // namespace stator::runtime
