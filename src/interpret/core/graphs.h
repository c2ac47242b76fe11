// The graph that operations go to: the trace's own, or that of a function that a graph calls, with those around it.
#pragma once

#include "graph/graph.h"

#include <memory>
#include <utility>
#include <vector>

namespace stator::interpret {

class Graphs {
 public:
  Graphs() : current_(std::make_shared<graph::Graph>()) {}

  graph::Graph& current() const { return *current_; }
  graph::Graph& root() const { return outer_.empty() ? *current_ : *outer_.front(); }
  std::shared_ptr<graph::Graph> shared() const { return current_; }
  bool nested() const { return !outer_.empty(); }
  bool hadSubgraphs() const { return had_subgraphs_; }
  // Nodes of the graph under way, or of one around it, may be used.
  bool reachable(const graph::Node* node) const;

  // Operations go to `inner` while the scope lives.
  class Inside {
   public:
    Inside(Graphs& graphs, std::shared_ptr<graph::Graph> inner) : graphs_(graphs) {
      graphs_.outer_.push_back(std::exchange(graphs_.current_, std::move(inner)));
      graphs_.had_subgraphs_ = true;
    }
    ~Inside() {
      graphs_.current_ = std::move(graphs_.outer_.back());
      graphs_.outer_.pop_back();
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    Graphs& graphs_;
  };

 private:
  std::shared_ptr<graph::Graph> current_;
  std::vector<std::shared_ptr<graph::Graph>> outer_;  // the trace's own first
  bool had_subgraphs_ = false;
};

inline bool Graphs::reachable(const graph::Node* node) const {
  if (node->home == current_.get()) return true;
  for (const auto& outer : outer_) {
    if (node->home == outer.get()) return true;
  }
  return false;
}

}  // namespace stator::interpret
