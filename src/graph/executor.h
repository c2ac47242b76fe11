// Runs a captured graph directly: the call nodes in order, each by vectorcall, intermediate values freed at their last use.
// Self-contained: owns what it needs of the graph (targets, constants, locations), so it outlives the trace.
#pragma once

#include "base/python.h"
#include "base/ref.h"
#include "graph/graph.h"

#include <memory>

namespace stator::graph {

class Executor {
 public:
  explicit Executor(const Graph& graph);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Tuple of the outputs in graph.outputs() order; null with a Python error set. `inputs` are borrowed, in graph.inputs() order.
  // May be entered again while it runs (other threads, recursion): a run keeps its state on its own stack.
  // `failed`: where the raising node came from (owned by the executor), or null if it has no location.
  Ref<> run(PyObject* const* inputs, size_t count, const Location** failed = nullptr) const;
  size_t inputCount() const;
  size_t outputCount() const;

  // For the owner's tp_traverse.
  int traverse(visitproc visit, void* arg) const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

// Adds the user's frames of a failed node to the traceback of the error that is set, innermost first. The outermost frame of the chain
// is the one being driven: CPython adds it itself when the error is raised there, so it is left out unless `with_outermost`.
void addUserFrames(const Location* location, bool with_outermost);

}  // namespace stator::graph
