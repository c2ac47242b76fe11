// The graph that operations go to: the trace's own, or that of a function that a graph calls, with those around it.
#pragma once

#include "graph/graph.h"
#include "shapes/infer.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
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
  bool hadSubgraphs() const { return !inner_.empty(); }
  // A graph for a function that the present one calls. It lives as long as the trace, whose stand-ins are of its nodes.
  std::shared_ptr<graph::Graph> addInner();
  // A function that one of torch.func's transforms calls is under way.
  bool underTransform() const;
  // Nodes of the graph under way, or of one around it, may be used.
  bool reachable(const graph::Node* node) const;

  // What functions that the graph calls give, where their traces tell.
  void noteResults(PyObject* function, shapes::Inferred results) {
    results_.insert_or_assign(function, std::move(results));
  }
  const shapes::Inferred* resultsOf(PyObject* function) const {
    const auto found = results_.find(function);
    return found == results_.end() ? nullptr : &found->second;
  }

  // Operations go to `inner` while the scope lives.
  class Inside {
   public:
    Inside(Graphs& graphs, std::shared_ptr<graph::Graph> inner) : graphs_(graphs) {
      graphs_.outer_.push_back(std::exchange(graphs_.current_, std::move(inner)));
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
  std::vector<std::shared_ptr<graph::Graph>> inner_;  // all that were made
  std::unordered_map<PyObject*, shapes::Inferred> results_;
};

inline std::shared_ptr<graph::Graph> Graphs::addInner() {
  inner_.push_back(std::make_shared<graph::Graph>());
  graph::Graph& made = *inner_.back();
  made.outer_places = current_->outer_places;
  made.outer_places.push_back(current_->places);
  made.instruction = current_->instruction;
  return inner_.back();
}

inline bool Graphs::reachable(const graph::Node* node) const {
  if (node->home == current_.get()) return true;
  for (const auto& outer : outer_) {
    if (node->home == outer.get()) return true;
  }
  return false;
}

inline bool Graphs::underTransform() const {
  return current_->transformed || std::any_of(outer_.begin(), outer_.end(),
                                              [](const auto& outer) { return outer->transformed; });
}

}  // namespace stator::interpret
