// A captured graph on its way through the backend: whole, or its regions one by one.
#pragma once

#include "graph/fx.h"
#include "regions/find.h"

#include <functional>
#include <memory>

namespace stator::runtime {

// What the module of each graph is given before a backend sees it.
using PrepareModule = std::function<void(PyObject*)>;

class BackendCall {
 public:
  // Finds the regions, unless the graph stays `whole`; what is wanted is asked of `settings`, the cache's backend.
  BackendCall(std::shared_ptr<graph::Graph> graph, BorrowedRef<PyCodeObject> code,
              bool grad_enabled, BorrowedRef<> settings, bool whole, PrepareModule prepare);
  // The callable is null and an error is set if the backend fails.
  graph::Compiled compile(BorrowedRef<> backend);
  // One line for each region; empty: the graph is whole.
  std::string regionsText() const { return cut_.text(); }

 private:
  graph::Compiled compileWhole(BorrowedRef<> backend);

  std::shared_ptr<graph::Graph> graph_;
  BorrowedRef<PyCodeObject> code_;
  bool grad_enabled_;
  BorrowedRef<> settings_;
  PrepareModule prepare_;
  regions::Cut cut_;
  bool shown_only_ = false, may_fail_ = false;
  Ref<> module_;  // of the whole graph
};

}  // namespace stator::runtime
