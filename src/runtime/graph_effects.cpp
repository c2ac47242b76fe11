// What a run of a graph does beside computing its outputs, and whether a run that failed may be repeated.
#include "runtime/graph_effects.h"

#include <algorithm>
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

// Whether a call may raise for the data of its tensors, whatever their facts are.
bool mayRaiseOnData(const graph::Node& node) {
  if (node.op == graph::Op::kInput || node.op == graph::Op::kAttribute) return false;
  static const char* const kParts[] = {
      "embedding", "index",    "gather",        "scatter",   "take",
      "one_hot",   "nll_loss", "cross_entropy", "bincount",  "linalg",
      "cholesky",  "inverse",  "solve",         "lu_",       "svd",
      "eig",       "multi",    "normal",        "bernoulli", "repeat_interleave",
      "histc",     "getitem",  "setitem",       "logdet",    "det",
      "pinverse",  "ctc_loss", "poisson",       "assert",    "hardtanh"};
  Ref<> name = node.op == graph::Op::kCallMethod
                   ? node.target
                   : stealRef(PyObject_GetAttrString(node.target.get(), "__name__"));
  if (!name || !PyUnicode_Check(name.get())) {
    PyErr_Clear();
    return true;
  }
  const std::string text = PyUnicode_AsUTF8(name.get());
  if (text == "forward") return true;  // of a layer
  return std::any_of(std::begin(kParts), std::end(kParts),
                     [&](const char* part) { return text.find(part) != std::string::npos; });
}

// Calls that may raise or draw random numbers, and that nothing needs, become outputs: a backend drops what leads to none. Whether there are calls
// that may raise.
bool keepRaising(graph::Graph& graph) {
  std::unordered_set<const graph::Node*> needed(graph.outputs().begin(), graph.outputs().end());
  std::vector<graph::Node*> raising, drawing, all;
  for (graph::Node& node : graph.nodes()) all.push_back(&node);
  for (size_t i = all.size(); i-- > 0;) {
    graph::Node& node = *all[i];
    if (mayRaiseOnData(node)) raising.push_back(&node);
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

}  // namespace

bool describeEffects(graph::Graph& graph, bool as_it_is, Entry& entry) {
  bool has_checks = false, sets_modes = false, draws = false;
  std::unordered_set<uint32_t> storages;
  for (const graph::Node& node : graph.nodes()) has_checks |= node.check;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const graph::Node& input = *graph.inputs()[i];
    if (!input.written || input.meta == nullptr) continue;
    entry.written.push_back(i);
    storages.insert(input.meta->storage_id);
  }
  for (const graph::Node& node : graph.nodes()) {
    draws |= node.random;
    sets_modes |= node.sets_mode;
    entry.has_effects |= node.written || (node.mutates && !node.repeatable &&
                                          !(has_checks && (node.random || node.sets_mode)));
    entry.unseen_effects |= node.mutates && !node.repeatable && !node.random && !node.sets_mode &&
                            !writesToInput(node, storages);
  }
  entry.redraws = draws && (has_checks || !as_it_is);
  entry.unseen_effects |= draws && !entry.redraws;
  if (!as_it_is && keepRaising(graph))
    entry.saves_written = !entry.unseen_effects && !entry.written.empty();
  return sets_modes;
}

}  // namespace stator::runtime
