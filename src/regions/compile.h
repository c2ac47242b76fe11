// From the regions of a graph to one callable.
#pragma once

#include "graph/fx.h"
#include "regions/find.h"

#include <functional>
#include <optional>

namespace stator::regions {

// What the backend's `regions` says (stator/_backends.py); nothing: graphs stay whole.
std::optional<Wish> wishOf(PyObject* backend);

struct CompiledRegions {
  graph::Compiled compiled;  // as graph::compile gives it for a whole graph
  // A backend relied on what is no fact about the graph's inputs: the graph has to be compiled whole.
  bool to_be_whole = false;
};

// Compiles one graph, as graph::compile does, and counts it for so many calls.
using CompileGraph = std::function<graph::Compiled(const std::shared_ptr<graph::Graph>&, size_t)>;

// Each distinct region is compiled once. The whole graph keeps its examples where it has to be compiled whole, or the
// backend failed.
CompiledRegions compileRegions(const std::shared_ptr<graph::Graph>& graph, const Cut& cut,
                               bool grad_enabled, const CompileGraph& compile);

// A whole graph's callable, which gets inputs that it computes no gradients for without their history: a backend that
// differentiates would hand zeros to whatever has made them.
Ref<> keepingApart(const graph::Graph& graph, Ref<> compiled);

}  // namespace stator::regions
