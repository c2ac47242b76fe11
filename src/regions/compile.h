// From the regions of a graph to one callable.
#pragma once

#include "graph/fx.h"
#include "regions/find.h"

#include <functional>
#include <optional>

namespace stator::regions {

// What the backend's `regions` says (stator/_backends.py); nothing: graphs stay whole.
std::optional<Wish> wishOf(BorrowedRef<> backend);

struct CompiledRegions {
  graph::Compiled compiled;  // as graph::compile gives it for a whole graph
  // A backend relied on what is no fact about the graph's inputs: the graph has to be compiled whole.
  bool to_be_whole = false;
  size_t tried = 0;  // calls of the backend
};

// Each distinct region once through graph::compile. `prepare` is called with the module of each. The whole graph keeps its examples where
// it has to be compiled whole, or the backend failed.
CompiledRegions compileRegions(const std::shared_ptr<graph::Graph>& graph, const Cut& cut,
                               bool grad_enabled, BorrowedRef<PyCodeObject> code,
                               BorrowedRef<> backend,
                               const std::function<void(PyObject*)>& prepare);

}  // namespace stator::regions
