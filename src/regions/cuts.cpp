#include "regions/cuts.h"

#include "base/check.h"
#include "base/imports.h"
#include "base/text.h"
#include "regions/bodies.h"
#include "shapes/dtypes.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace stator::regions {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::StandIn;

namespace {

constexpr size_t kNever = static_cast<size_t>(-1);

// Of the target: the method's name, or the function's own.
std::string nameOf(const Node& node) {
  Ref<> name = node.op == Op::kCallMethod
                   ? node.target
                   : Ref<>::steal(PyObject_GetAttrString(node.target.get(), "__name__"));
  const char* text = name && PyUnicode_Check(name.get()) ? utf8OrNull(name.get()) : nullptr;
  if (text == nullptr) PyErr_Clear();
  return text != nullptr ? text : "";
}

enum class Writes : uint8_t { kNothing, kFirst, kStatistics, kAny };

// Which arguments a call that `mutates` writes to.
Writes writesOf(const Node& node) {
  if (!node.mutates || node.sets_mode || node.check) return Writes::kNothing;
  static const std::unordered_set<std::string_view> kOperators = {
      "setitem", "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod",
      "ipow",    "iand", "ior",  "ixor", "ilshift",  "irshift",   "imatmul"};
  const std::string name = nameOf(node);
  if (name == "set_" || name == "swap_tensors" || name.starts_with("resize")) return Writes::kAny;
  if (kOperators.count(name) != 0 || (name.ends_with('_') && !name.ends_with("__")))
    return Writes::kFirst;
  // Running statistics, which are inputs of the graph as a rule: those know that they are written.
  if (name.find("batch_norm") != std::string::npos ||
      name.find("instance_norm") != std::string::npos)
    return Writes::kStatistics;
  if (const Deeds deeds = deedsOf(node); deeds.has_body)
    return deeds.writes ? Writes::kAny : Writes::kNothing;
  // What draws random numbers and writes gives what it wrote: see forEachWritten.
  return node.random ? Writes::kNothing : Writes::kAny;
}

// Calls `visit(storage)` for the memory that a call may write to; 0: it is not known which.
template <class Visit>
void forEachWritten(const Node& node, const std::unordered_set<uint32_t>& written_inputs,
                    Visit&& visit) {
  if (!node.mutates || node.sets_mode || node.check) return;
  auto write = [&](StandIn* used) {
    if (used->meta != nullptr) visit(used->meta->storage_id);
  };
  const Writes writes = writesOf(node);
  if (writes == Writes::kAny) graph::forEachUsed(node, write);
  if (writes == Writes::kFirst && PyTuple_GET_SIZE(node.args.get()) > 0)
    graph::forEachStandIn(PyTuple_GET_ITEM(node.args.get(), 0), write);
  graph::forEachUsed(node, [&](StandIn* used) {
    if (used->meta == nullptr) return;
    const uint32_t storage = used->meta->storage_id;
    const bool given = node.meta != nullptr && node.meta->storage_id == storage;
    // Statistics that the graph has computed itself have one dimension, and what they are of has more.
    const bool made = used->node->op != Op::kInput && used->meta->sizes.size() == 1;
    const bool statistic = made || written_inputs.count(storage) != 0;
    if (given || (writes == Writes::kStatistics && statistic)) visit(storage);
  });
  if (node.kwargs) {
    PyObject* out = PyDict_GetItemString(node.kwargs.get(), "out");
    graph::forEachStandIn(out, write);
  }
}

PyObject* gradSwitch() {
  static PyObject* const found = [] {
    Ref<> home = Ref<>::steal(importModule("torch._C"));
    PyObject* function = home ? PyObject_GetAttrString(home.get(), "_set_grad_enabled") : nullptr;
    if (function == nullptr) throw PythonError();
    return function;
  }();
  return found;
}

bool isCall(const Node& node) { return node.op != Op::kInput && node.op != Op::kAttribute; }

std::unordered_set<uint32_t> writtenInputs(const Graph& graph) {
  std::unordered_set<uint32_t> storages;
  for (const Node* input : graph.inputs()) {
    if (input->written && input->meta != nullptr) storages.insert(input->meta->storage_id);
  }
  return storages;
}

}  // namespace

std::unordered_set<uint32_t> writtenMemory(const Graph& graph) {
  const std::unordered_set<uint32_t> written_inputs = writtenInputs(graph);
  std::unordered_set<uint32_t> written;
  for (const Node& node : graph.nodes()) {
    if (!isCall(node)) continue;
    forEachWritten(node, written_inputs, [&](uint32_t storage) { written.insert(storage); });
  }
  return written;
}

bool writesStatisticsOnly(const Graph& graph) {
  const std::unordered_set<uint32_t> inputs = writtenInputs(graph);
  auto counts = [](const Node& node) {
    return writesOf(node) == Writes::kFirst && node.meta != nullptr && node.meta->sizes.empty() &&
           !shapes::isDifferentiable(node.meta->dtype);
  };
  bool only = true;
  for (const Node& node : graph.nodes()) {
    if (!isCall(node)) continue;
    bool uses = false;
    graph::forEachUsed(node, [&](StandIn* used) {
      uses |= used->meta != nullptr && inputs.count(used->meta->storage_id) != 0;
    });
    if (uses) only &= writesOf(node) == Writes::kStatistics || counts(node);
    forEachWritten(node, inputs, [&](uint32_t storage) { only &= storage != 0; });
  }
  return only;
}

Calls::Calls(Graph& graph, bool grad_enabled) : graph_(graph) {
  const size_t count = graph.nodes().size();
  position_.assign(count, kNever);
  for (Node& node : graph.nodes()) {
    if (!isCall(node)) continue;
    position_[static_cast<size_t>(node.index)] = nodes_.size();
    nodes_.push_back(&node);
  }
  legal_.assign(nodes_.size() + 1, true);
  findUses();
  forbidModes(grad_enabled);
  forbidWrites();
  forbidValues();
  countCrossing();
}

void Calls::findUses() {
  const size_t count = graph_.nodes().size();
  first_use_.assign(count, kNever);
  last_use_.assign(count, 0);
  again_.assign(count, false);
  changes_.assign(count, false);
  for (size_t at = 0; at < nodes_.size(); ++at) {
    const Node& node = *nodes_[at];
    const auto index = static_cast<size_t>(node.index);
    last_use_[index] = std::max(last_use_[index], at);
    bool computable = node.scalar_type && !node.mutates;
    graph::forEachUsed(node, [&](StandIn* used) {
      const Node& value = *used->node;
      const auto which = static_cast<size_t>(value.index);
      if (first_use_[which] == kNever) first_use_[which] = at;
      last_use_[which] = std::max(last_use_[which], at);
      if (used->meta != value.meta &&
          (used->meta == nullptr || value.meta == nullptr || !(*used->meta == *value.meta)))
        changes_[which] = true;
      computable &= graph::isFloatTensor(value) ||
                    (value.scalar_type && (value.op == Op::kInput || again_[which]));
    });
    again_[index] = computable;
  }
}

void Calls::forbid(size_t from, size_t to) {
  for (size_t at = from + 1; at <= to && at < legal_.size(); ++at) legal_[at] = false;
}

void Calls::forbidModes(bool grad_enabled) {
  bool grad = grad_enabled, unknown = false;
  std::vector<PyObject*> open;  // what leaves each context that is open
  for (size_t at = 0; at < nodes_.size(); ++at) {
    if (grad != grad_enabled || unknown || !open.empty()) legal_[at] = false;
    const Node& node = *nodes_[at];
    auto left = std::find(open.rbegin(), open.rend(), node.target.get());
    if (left != open.rend()) {
      open.erase(std::next(left).base());
    } else if (node.leave) {
      open.push_back(node.leave.get());
    } else if (node.sets_mode && node.target.get() == gradSwitch()) {
      grad = PyTuple_GET_ITEM(node.args.get(), 0) == Py_True;
    } else if (node.sets_mode) {
      unknown = true;
    }
  }
}

void Calls::forbidWrites() {
  const std::unordered_set<uint32_t> written_inputs = writtenInputs(graph_);
  std::unordered_map<uint32_t, size_t> first;  // by storage: where it is first made or used
  for (size_t at = 0; at < nodes_.size(); ++at) {
    const Node& node = *nodes_[at];
    auto touch = [&](const shapes::TensorMeta* meta) {
      if (meta != nullptr) first.try_emplace(meta->storage_id, at);
    };
    graph::forEachUsed(node, [&](StandIn* used) { touch(used->meta); });
    touch(node.meta);
  }
  for (size_t at = 0; at < nodes_.size(); ++at) {
    forEachWritten(*nodes_[at], written_inputs, [&](uint32_t storage) {
      if (storage == 0) {
        forbid(0, nodes_.size() - 1);
      } else {
        forbid(first.at(storage), at);
      }
    });
  }
}

// Whether another graph can have the value as an input, known by its facts.
bool Calls::mayCross(const Node& node) const {
  const auto index = static_cast<size_t>(node.index);
  if (changes_[index] || node.wrapper) return false;
  if (node.scalar_type) return again_[index];
  if (node.meta == nullptr) return false;
  const shapes::TensorMeta& meta = *node.meta;
  return meta.layout == 0 && !meta.is_conj && !meta.is_neg && !meta.is_wrapped_number &&
         meta.storage_offset.identical(0);
}

void Calls::forbidValues() {
  for (const Node* node : nodes_) {
    if (!mayCross(*node)) forbid(positionOf(*node), lastUse(*node));
  }
  for (const Node* input : graph_.inputs()) {
    const auto index = static_cast<size_t>(input->index);
    if (changes_[index] && first_use_[index] != kNever) forbid(first_use_[index], last_use_[index]);
  }
}

void Calls::countCrossing() {
  crossing_.assign(nodes_.size() + 1, 0);
  for (const Node* node : nodes_) {
    if (isComputedAgain(*node)) continue;
    for (size_t at = positionOf(*node) + 1; at <= lastUse(*node); ++at) ++crossing_[at];
  }
}

size_t Calls::commonScopes(size_t at) const {
  if (at == 0 || at >= nodes_.size()) return 0;
  std::vector<const graph::ModuleScope*> before, behind;
  for (const auto* s = nodes_[at - 1]->scope; s != nullptr; s = s->outer) before.push_back(s);
  for (const auto* s = nodes_[at]->scope; s != nullptr; s = s->outer) behind.push_back(s);
  size_t common = 0;
  while (common < before.size() && common < behind.size() &&
         before[before.size() - 1 - common] == behind[behind.size() - 1 - common])
    ++common;
  return common;
}

}  // namespace stator::regions
