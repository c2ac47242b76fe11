// What a run of a graph does beside computing its outputs, and whether a run that failed may be repeated.
#include "runtime/graph_effects.h"

#include "graph/raising.h"

#include <algorithm>
#include <set>
#include <unordered_set>

namespace stator::runtime {
namespace {

// Whether a call writes to an input of the graph, as far as its facts say.
bool writesToInput(const graph::Node& node, const std::unordered_set<uint32_t>& written) {
  bool found = false;
  auto look = [&](graph::StandIn* used) {
    found |= used->meta != nullptr && written.count(used->meta->storage_id) != 0;
  };
  graph::forEachStandIn(node.args.get(), look);
  graph::forEachStandIn(node.kwargs.get(), look);
  return found;
}

// Calls that may raise or draw random numbers, and that nothing needs, become outputs: a backend drops what leads to
// none. Whether there are calls that may raise.
bool keepRaising(graph::Graph& graph) {
  std::unordered_set<const graph::Node*> needed(graph.outputs().begin(), graph.outputs().end());
  std::vector<graph::Node*> raising, drawing, all;
  for (graph::Node& node : graph.nodes()) all.push_back(&node);
  for (size_t i = all.size(); i-- > 0;) {
    graph::Node& node = *all[i];
    if (graph::mayRaiseOnData(node)) raising.push_back(&node);
    if (node.random) drawing.push_back(&node);
    if (!node.mutates && needed.count(&node) == 0) continue;
    auto use = [&](graph::StandIn* used) { needed.insert(used->node); };
    graph::forEachStandIn(node.args.get(), use);
    graph::forEachStandIn(node.kwargs.get(), use);
  }
  auto keep = [&](const std::vector<graph::Node*>& nodes) {
    for (graph::Node* node : nodes) {
      if (node->meta != nullptr && needed.insert(node).second) graph.addOutput(node);
    }
  };
  keep(raising);
  keep(drawing);
  return !raising.empty();
}

// From torch's own generators, which can be set back.
bool drawsByDefault(const graph::Node& node) {
  PyObject* given = node.kwargs ? PyDict_GetItemString(node.kwargs.get(), "generator") : nullptr;
  return node.random && (given == nullptr || given == Py_None);
}

// Where it is not known, whichever the graph may draw from.
tensor::Drawn drawnBy(const graph::Graph& graph) {
  std::set<int16_t> cuda, unsure;
  tensor::Drawn drawn;
  bool everywhere = false;
  for (const graph::Node& node : graph.nodes()) {
    const bool known = node.meta != nullptr;
    if (known && node.meta->device == shapes::DeviceType::CUDA)
      (node.random ? cuda : unsure).insert(node.meta->device_index);
    else if (node.random)
      drawn.cpu = true;
    everywhere |= node.random && !known;
  }
  if (everywhere) cuda.merge(unsure);
  drawn.cuda.assign(cuda.begin(), cuda.end());
  return drawn;
}

}  // namespace

bool describeEffects(graph::Graph& graph, bool as_it_is, Entry& entry) {
  bool has_checks = false, sets_modes = false, draws = false;
  std::unordered_set<uint32_t> storages;
  for (const graph::Node& node : graph.nodes()) has_checks |= node.check;
  const bool can_redraw = has_checks || !as_it_is;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const graph::Node& input = *graph.inputs()[i];
    if (!input.written || input.meta == nullptr) continue;
    entry.written.push_back(i);
    storages.insert(input.meta->storage_id);
  }
  for (const graph::Node& node : graph.nodes()) {
    draws |= node.random;
    sets_modes |= node.sets_mode;
    const bool undone = (node.sets_mode && has_checks) || (can_redraw && drawsByDefault(node));
    entry.has_effects |= node.written || (node.mutates && !node.repeatable && !undone);
    entry.unseen_effects |= node.mutates && !node.repeatable && !node.random && !node.sets_mode &&
                            !writesToInput(node, storages);
  }
  if (draws) entry.drawn = drawnBy(graph);
  entry.redraws = draws && can_redraw;
  entry.unseen_effects |= draws && !entry.redraws;
  if (!as_it_is && keepRaising(graph))
    entry.saves_written = !entry.unseen_effects && !entry.written.empty();
  return sets_modes;
}

}  // namespace stator::runtime
