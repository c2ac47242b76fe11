// What a run of a graph does beside computing its outputs, and whether a run that failed may be repeated.
#include "runtime/graph_effects.h"

#include "graph/fx_record.h"
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
  graph::forEachUsed(node, look);
  return found;
}

// Whether a call runs functions that graphs call, all of which only compute.
bool onlyComputes(const graph::Node& node) {
  bool any = false, all = true;
  auto look = [&](PyObject* leaf) {
    const std::shared_ptr<graph::Graph> body = graph::bodyOf(leaf);
    if (!body) return;
    any = true;
    for (const graph::Node& inner : body->nodes()) {
      const bool computes = !inner.mutates || inner.check || inner.sets_mode;
      if (inner.op != graph::Op::kInput && !computes) all &= onlyComputes(inner);
    }
  };
  graph::forEachLeaf(node.args.get(), look);
  graph::forEachLeaf(node.kwargs.get(), look);
  return any && all;
}

// The memory that a call writes to, as far as its first argument says; empty: it does not.
std::vector<uint32_t> writtenBy(const graph::Node& node) {
  std::vector<uint32_t> storages;
  PyObject* args = node.args.get();
  if (!node.mutates || args == nullptr || !PyTuple_Check(args) || PyTuple_GET_SIZE(args) == 0)
    return storages;
  graph::forEachStandIn(PyTuple_GET_ITEM(args, 0), [&](graph::StandIn* used) {
    if (used->meta == nullptr) return;
    const uint32_t storage = used->meta->storage_id;
    const bool fills = node.meta != nullptr && node.meta->storage_id == storage;
    if (!node.random || fills) storages.push_back(storage);
  });
  return storages;
}

// Calls that may raise or draw random numbers, and that nothing needs, become outputs: a backend drops what leads to
// none. What is written where another call writes later leads to nothing, for all that is known. Whether there are
// calls that may raise.
bool keepRaising(graph::Graph& graph) {
  std::unordered_set<const graph::Node*> needed(graph.outputs().begin(), graph.outputs().end());
  // as outputs: their values are those of inputs at the end
  std::unordered_set<const graph::Node*> of_no_use;
  std::unordered_set<uint32_t> of_inputs, written_later;
  for (const graph::Node* input : graph.inputs()) {
    if (input->meta != nullptr) of_inputs.insert(input->meta->storage_id);
  }
  std::vector<graph::Node*> raising, drawing, all;
  for (graph::Node& node : graph.nodes()) all.push_back(&node);
  for (size_t i = all.size(); i-- > 0;) {
    graph::Node& node = *all[i];
    if (graph::mayRaiseOnData(node)) raising.push_back(&node);
    if (node.random) drawing.push_back(&node);
    const std::vector<uint32_t> storages = writtenBy(node);
    // Functions that graphs call go where nobody uses their results, whatever is inside of them.
    bool stays = node.mutates && storages.empty() && (node.sets_mode || node.check);
    for (uint32_t storage : storages) {
      stays |= written_later.insert(storage).second;
      if (of_inputs.count(storage) != 0) of_no_use.insert(&node);
    }
    if (!stays && needed.count(&node) == 0) continue;
    auto use = [&](graph::StandIn* used) { needed.insert(used->node); };
    graph::forEachUsed(node, use);
  }
  auto keep = [&](const std::vector<graph::Node*>& nodes) {
    for (graph::Node* node : nodes) {
      if (node->meta == nullptr || of_no_use.count(node) != 0) continue;
      if (needed.insert(node).second) graph.addOutput(node);
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
    const bool repeatable = node.repeatable || (node.mutates && onlyComputes(node));
    entry.has_effects |= node.written || (node.mutates && !repeatable && !undone);
    entry.unseen_effects |= node.mutates && !repeatable && !node.random && !node.sets_mode &&
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
