// Where a graph may be cut into two that run one after the other.
#pragma once

#include "graph/graph.h"

#include <cstdint>
#include <unordered_set>
#include <vector>

namespace stator::regions {

// The memory that the calls of a graph may write to, as the facts of tensors name it; 0 among it: some that is not
// known.
std::unordered_set<uint32_t> writtenMemory(const graph::Graph& graph);
// What the graph writes to among its inputs are statistics of normalisations and counters alone, which none of its
// results depends on.
bool writesStatisticsOnly(const graph::Graph& graph);

// The calls of a graph in program order, and what a cut before each of them means.
class Calls {
 public:
  // `grad_enabled`: the grad mode that the graph is entered with.
  Calls(graph::Graph& graph, bool grad_enabled);

  const std::vector<graph::Node*>& nodes() const { return nodes_; }
  size_t size() const { return nodes_.size(); }
  // The same results, effects, modes and random numbers whether the calls from `at` on are another graph or not.
  bool isLegal(size_t at) const { return legal_[at]; }
  // How many values of earlier calls those from `at` on need.
  size_t crossing(size_t at) const { return crossing_[at]; }
  // How many modules are left or entered there: less of the modules' stack is common to both sides.
  size_t commonScopes(size_t at) const;
  size_t positionOf(const graph::Node& node) const {
    return position_[static_cast<size_t>(node.index)];
  }
  // The last call that uses the value; its own position if none does.
  size_t lastUse(const graph::Node& node) const {
    return last_use_[static_cast<size_t>(node.index)];
  }
  // A number that follows from numbers among the graph's inputs: cheap, and computed again where it is needed.
  bool isComputedAgain(const graph::Node& node) const {
    return again_[static_cast<size_t>(node.index)];
  }

 private:
  void findUses();
  void forbidModes(bool grad_enabled);
  void forbidWrites();
  void forbidValues();
  void countCrossing();
  // No cut behind `from` and up to before `to`.
  void forbid(size_t from, size_t to);
  bool mayCross(const graph::Node& node) const;

  graph::Graph& graph_;
  std::vector<graph::Node*> nodes_;
  std::vector<size_t> position_, first_use_, last_use_;  // by node index
  std::vector<bool> again_, changes_;                    // by node index
  std::vector<bool> legal_;
  std::vector<size_t> crossing_;
};

}  // namespace stator::regions
