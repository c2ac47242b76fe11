// The way to what backends made in earlier processes (docs/CACHE.md). Capture is done in every process, so guards are never stale; what is
// found again is the backend's work on a graph of the same content, with inputs of the same facts, in the same state of torch.
#pragma once

#include "base/python.h"
#include "base/ref.h"
#include "graph/fx.h"
#include "graph/graph.h"

#include <string>

namespace stator::runtime {

// Where the work of `backend` on the graph is kept; empty: nowhere. Reads the inputs' examples.
std::string diskKey(const graph::Graph& graph, BorrowedRef<> backend);
// What is kept there; its callable is null, without an error, if there is nothing.
graph::Compiled findOnDisk(const std::string& key);

}  // namespace stator::runtime
