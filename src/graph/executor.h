// Runs a captured graph directly: the call nodes in order, each by vectorcall, intermediate values freed at their last
// use. Self-contained: owns what it needs of the graph (targets, constants, locations), so it outlives the trace.
#pragma once

#include "base/python.h"
#include "base/ref.h"
#include "graph/graph.h"

#include <memory>
#include <unordered_map>

namespace stator::graph {

// What a run that failed half way leaves behind, so that the program can go on from there.
struct FailedRun {
  const void* executor = nullptr;
  // where the raising node came from (owned by the executor), or null
  const Location* location = nullptr;
  uint64_t instruction = 0;  // of the program, that the raising node belongs to
  // the last node that ran and wrote in place, drew random numbers or changed a mode; 0: none
  uint32_t effect_serial = 0;
  uint64_t effect_instruction = 0;  // the same for nodes that did more than change a mode
  // of nodes that ran and were still needed, by serial
  std::unordered_map<uint32_t, Ref<>> values;
  std::unordered_map<uint32_t, Ref<>> targets;  // of all nodes that ran
};

class Executor {
 public:
  explicit Executor(const Graph& graph);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Tuple of the outputs in graph.outputs() order; null with a Python error set. `inputs` are borrowed, in
  // graph.inputs() order. May be entered again while it runs (other threads, recursion): a run keeps its state on its
  // own stack. `failed` is filled if a node raises; contexts that the graph had entered are left by then.
  Ref<> run(PyObject* const* inputs, size_t count, FailedRun* failed = nullptr) const;
  size_t inputCount() const;
  size_t outputCount() const;

  // For the owner's tp_traverse.
  int traverse(visitproc visit, void* arg) const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

// Adds the user's frames of a failed node to the traceback of the error that is set, innermost first. The outermost
// frame of the chain is the one being driven: CPython adds it itself when the error is raised there, so it is left out
// unless `with_outermost`.
void addUserFrames(const Location* location, bool with_outermost);

}  // namespace stator::graph
