#include "regions/apart.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

namespace stator::regions {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::StandIn;

namespace {

constexpr size_t kNone = static_cast<size_t>(-1);

bool isInput(const Node& node) { return node.op == Op::kInput || node.op == Op::kAttribute; }

// Which calls hang together in the graph that autograd makes of them. Inputs hold nothing together: what autograd keeps
// of them is theirs.
class Groups {
 public:
  explicit Groups(const Graph& graph) : parent_(graph.nodes().size()) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
    differentiable_.assign(parent_.size(), false);
    for (const Node& node : graph.nodes()) mark(node);
    for (const Node& node : graph.nodes()) {
      if (!isInput(node)) joinUsed(node);
    }
    joinMemory(graph);
  }

  bool isDifferentiable(const Node& node) const { return differentiable_[indexOf(node)]; }
  size_t of(const Node& node) { return root(indexOf(node)); }

 private:
  static size_t indexOf(const Node& node) { return static_cast<size_t>(node.index); }

  size_t root(size_t at) {
    while (parent_[at] != at) at = parent_[at] = parent_[parent_[at]];
    return at;
  }
  void join(const Node& left, const Node& right) {
    parent_[root(indexOf(left))] = root(indexOf(right));
  }

  // A call with several results has facts of none; they have.
  void mark(const Node& node) {
    if (isInput(node)) return;
    if (node.meta != nullptr && node.meta->requires_grad) differentiable_[indexOf(node)] = true;
    graph::forEachUsed(node, [&](StandIn* used) {
      const bool written_since = used->meta != nullptr && used->meta->requires_grad;
      const bool has_parts =
          used->meta == nullptr && !used->node->scalar_type && differentiable_[indexOf(node)];
      if (!isInput(*used->node) && (written_since || has_parts))
        differentiable_[indexOf(*used->node)] = true;
    });
  }

  void joinUsed(const Node& node) {
    if (!differentiable_[indexOf(node)]) return;
    graph::forEachUsed(node, [&](StandIn* used) {
      if (!isInput(*used->node) && differentiable_[indexOf(*used->node)]) join(node, *used->node);
    });
  }

  // What is written to a tensor, the tensor and its views are one history.
  void joinMemory(const Graph& graph) {
    const std::unordered_set<uint32_t> written = writtenMemory(graph);
    std::unordered_map<uint32_t, const Node*> first;
    auto add = [&](const Node& node, const shapes::TensorMeta* meta) {
      if (meta == nullptr || (written.count(meta->storage_id) == 0 && written.count(0) == 0))
        return;
      join(*first.try_emplace(meta->storage_id, &node).first->second, node);
    };
    for (const Node& node : graph.nodes()) {
      if (isInput(node)) continue;
      add(node, node.meta);
      if (node.mutates) graph::forEachUsed(node, [&](StandIn* used) { add(node, used->meta); });
    }
  }

  std::vector<size_t> parent_;
  std::vector<bool> differentiable_;
};

// What the program gets and may differentiate. Views of inputs are made again behind a compiled graph.
std::vector<const Node*> differentiableOutputs(const Graph& graph) {
  std::vector<const Node*> found;
  std::unordered_set<uint32_t> of_inputs;
  for (const Node* output : graph.outputs()) {
    if (isInput(*output) || output->meta == nullptr || !output->meta->requires_grad) continue;
    if (of_inputs.empty()) {
      for (const Node* input : graph.inputs()) {
        if (input->meta != nullptr) of_inputs.insert(input->meta->storage_id);
      }
    }
    if (of_inputs.count(output->meta->storage_id) == 0) found.push_back(output);
  }
  return found;
}

// Where a new piece begins, so that each has calls of one group alone: of the legal places between two groups the one
// where fewest values pass.
std::vector<size_t> boundsOf(const Calls& calls, Groups& groups,
                             const std::unordered_set<size_t>& wanted) {
  std::vector<size_t> bounds;
  size_t group = kNone, last = 0;  // the group of the piece under way, and its last call so far
  for (size_t at = 0; at < calls.size(); ++at) {
    const Node& node = *calls.nodes()[at];
    if (!groups.isDifferentiable(node) || wanted.count(groups.of(node)) == 0) continue;
    if (group != kNone && groups.of(node) != group) {
      size_t best = kNone;
      for (size_t place = last + 1; place <= at; ++place) {
        if (!calls.isLegal(place)) continue;
        if (best == kNone || calls.crossing(place) < calls.crossing(best)) best = place;
      }
      if (best == kNone) return {};
      bounds.push_back(best);
    }
    group = groups.of(node);
    last = at;
  }
  return bounds;
}

}  // namespace

Parting partingOf(Graph& graph, bool grad_enabled) {
  const std::vector<const Node*> outputs = differentiableOutputs(graph);
  if (outputs.size() < 2) return {};
  Groups groups(graph);
  std::unordered_set<size_t> wanted;
  for (const Node* output : outputs) wanted.insert(groups.of(*output));
  if (wanted.size() < 2) return {};
  Parting parting{.needed = true};
  const Calls calls(graph, grad_enabled);
  parting.bounds = boundsOf(calls, groups, wanted);
  // Groups that take turns: each turn would be a graph of its own.
  constexpr size_t kMostTurns = 4;
  if (parting.bounds.size() + 1 > kMostTurns * wanted.size()) parting.bounds.clear();
  if (cutAt(graph, grad_enabled, parting.bounds).pieces.empty()) parting.bounds.clear();
  return parting;
}

std::vector<bool> withoutGradients(const std::vector<const Node*>& inputs,
                                   const std::vector<const Node*>& calls) {
  std::vector<bool> found;
  std::unordered_map<const Node*, size_t> at;
  for (const Node* input : inputs) {
    found.push_back(input->meta != nullptr && input->meta->requires_grad && !input->wrapper);
    if (found.back()) at.emplace(input, found.size() - 1);
  }
  for (const Node* call : calls) {
    if (at.empty()) break;
    if (isInput(*call)) continue;
    const bool has_parts = call->meta == nullptr && !call->scalar_type;
    const bool differentiable = call->meta != nullptr && call->meta->requires_grad;
    if (!has_parts && !differentiable && !call->mutates) continue;
    graph::forEachUsed(*call, [&](StandIn* used) {
      auto which = at.find(used->node);
      if (which == at.end()) return;
      found[which->second] = false;
      at.erase(which);
    });
  }
  return found;
}

}  // namespace stator::regions
