#include "regions/compile.h"

#include "base/boundary.h"
#include "base/imports.h"
#include "regions/apart.h"
#include "regions/plan.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace stator::regions {

using graph::BackendGuard;
using graph::Compiled;
using graph::Graph;
using graph::Node;
using graph::Op;

std::optional<Wish> wishOf(PyObject* backend) {
  Ref<> asked = stealRef(PyObject_GetAttrString(backend, "regions"));
  if (!asked) PyErr_Clear();  // a callable as it is
  if (!asked || !PyTuple_Check(asked.get())) return std::nullopt;
  Wish wish;
  std::vector<size_t> numbers;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(asked.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(asked.get(), i);
    if (PyType_Check(item)) wish.classes.push_back(newRef(item));
    if (PyLong_Check(item)) numbers.push_back(PyLong_AsSize_t(item));
  }
  if (wish.classes.empty() && numbers.size() >= 2) {
    wish.least_repeats = std::max<size_t>(2, numbers[0]);
    wish.least_calls = std::max<size_t>(1, numbers[1]);
    wish.may_fail = numbers.size() > 2;
  }
  wish.marked_only = wish.classes.empty() && numbers.empty();
  wish.may_fail |= wish.marked_only;
  Ref<> seeds = stealRef(PyObject_GetAttrString(backend, "draws_seeds"));
  if (!seeds) PyErr_Clear();
  wish.draws_seeds = seeds.get() == Py_True;
  return wish;
}

namespace {

// A piece of inference to which wrappers around compiled code add nothing: it writes to no input, and no result shares
// memory with an input or another result.
bool isPlain(const Piece& piece, bool grad_enabled) {
  std::unordered_set<uint32_t> storages;
  for (const Node* input : piece.inputs) {
    if (input->meta == nullptr) continue;
    if (input->written || (grad_enabled && input->meta->requires_grad)) return false;
    storages.insert(input->meta->storage_id);
  }
  for (const Node* node : piece.calls) {
    if (grad_enabled && node->meta != nullptr && node->meta->requires_grad) return false;
    if (node->sets_mode) return false;
  }
  for (const Node* output : piece.outputs) {
    if (output->meta == nullptr || output->meta->storage_id == 0 ||
        !storages.insert(output->meta->storage_id).second)
      return false;
  }
  return true;
}

// The code that a backend's callable comes down to; null: it is not to be had.
Ref<> innermost(const Ref<>& compiled, size_t outputs) {
  Ref<> module = orThrow(importModule("stator._regions"));
  Ref<> found = orThrow(PyObject_CallMethod(module.get(), "innermost", "(On)", compiled.get(),
                                            static_cast<Py_ssize_t>(outputs)));
  return found.get() == Py_None ? Ref<>() : found;
}

struct Region {
  Compiled compiled;
  Ref<> direct;  // the innermost callable, which takes a list; or null
};

class Compiler {
 public:
  Compiler(const std::shared_ptr<Graph>& graph, const Cut& cut, const CompileGraph& compile)
      : graph_(graph), cut_(cut), compile_(compile) {
    for (size_t i = 0; i < graph->inputs().size(); ++i) input_at_[graph->inputs()[i]] = i;
  }

  CompiledRegions run(bool grad_enabled) {
    CompiledRegions result;
    std::vector<Region> regions(cut_.distinct);
    std::vector<bool> done(cut_.distinct, false);
    for (size_t i = 0; i < cut_.pieces.size(); ++i) {
      const size_t which = cut_.regions[i];
      if (!done[which] && !compileOne(cut_.pieces[i], grad_enabled, regions[which]))
        return result;  // the error is set
      done[which] = true;
      if (!takeGuards(regions[which].compiled, cut_.pieces[i], result.compiled)) {
        result.to_be_whole = true;
        return result;
      }
    }
    result.compiled.number = regions[0].compiled.number;
    result.compiled.callable = makePlan(plan(regions, grad_enabled));
    graph_->dropExamples();
    return result;
  }

 private:
  bool compileOne(const Piece& piece, bool grad_enabled, Region& region) {
    // Those who count graphs and calls get all with the first part.
    region.compiled = compile_(graphOf(graph_, piece), piece.begin == 0 ? graph_->callCount() : 0);
    if (!region.compiled.callable) return false;
    if (isPlain(piece, grad_enabled))
      region.direct = innermost(region.compiled.callable, piece.outputs.size());
    return true;
  }

  // What the backend asks for, in terms of the whole graph's inputs. False: it is about a value that is none.
  bool takeGuards(const Compiled& of, const Piece& piece, Compiled& into) {
    auto whole = [&](int position, int& found) {
      auto at = input_at_.find(piece.inputs[static_cast<size_t>(position)]);
      if (at == input_at_.end()) return false;
      found = static_cast<int>(at->second);
      return true;
    };
    for (BackendGuard guard : of.guards) {
      for (int& position : guard.inputs) {
        if (!whole(position, position)) return false;
      }
      for (int& position : guard.others) {
        if (!whole(position, position)) return false;
      }
      into.guards.push_back(std::move(guard));
    }
    for (std::string text : of.conditions) {
      if (text.rfind("input ", 0) == 0) {
        int position = 0;
        size_t digits = 0;
        if (!whole(std::stoi(text.substr(6), &digits), position)) return false;
        text = "input " + std::to_string(position) + text.substr(6 + digits);
      }
      if (std::find(into.conditions.begin(), into.conditions.end(), text) == into.conditions.end())
        into.conditions.push_back(std::move(text));
    }
    return true;
  }

  Plan plan(const std::vector<Region>& regions, bool grad_enabled) {
    Plan plan;
    plan.inputs = graph_->inputs().size();
    // By value: the slot that it lies in, and the last piece that needs it.
    std::unordered_map<const Node*, size_t> last;
    for (size_t i = 0; i < cut_.pieces.size(); ++i) {
      for (const Node* input : cut_.pieces[i].inputs) last[input] = i;
    }
    for (const Node* output : graph_->outputs()) last[output] = cut_.pieces.size();
    std::unordered_map<const Node*, uint32_t> slot;
    std::vector<uint32_t> free;
    for (size_t i = 0; i < cut_.pieces.size(); ++i) {
      const Piece& piece = cut_.pieces[i];
      const Region& region = regions[cut_.regions[i]];
      Step step;
      step.takes_list = static_cast<bool>(region.direct);
      step.callable = region.direct ? region.direct : region.compiled.callable;
      step.name = "region " + std::to_string(cut_.regions[i]) + ", call " + std::to_string(i);
      std::vector<uint32_t> dead;
      const std::vector<bool> apart = grad_enabled ? withoutGradients(piece.inputs, piece.calls)
                                                   : std::vector<bool>(piece.inputs.size(), false);
      for (size_t position = 0; position < piece.inputs.size(); ++position) {
        const Node* input = piece.inputs[position];
        if (auto at = input_at_.find(input); at != input_at_.end()) {
          step.arguments.push_back(
              {true, static_cast<uint32_t>(at->second), false, apart[position]});
          continue;
        }
        const bool dies = last.at(input) == i;
        step.arguments.push_back({false, slot.at(input), dies, apart[position]});
        if (dies) dead.push_back(slot.at(input));
      }
      free.insert(free.end(), dead.begin(), dead.end());
      for (const Node* output : piece.outputs) {
        if (free.empty()) free.push_back(static_cast<uint32_t>(plan.slots++));
        slot[output] = free.back();
        step.results.push_back(free.back());
        free.pop_back();
      }
      plan.steps.push_back(std::move(step));
    }
    for (const Node* output : graph_->outputs()) {
      auto at = input_at_.find(output);
      if (at != input_at_.end()) {
        plan.outputs.push_back({true, static_cast<uint32_t>(at->second), false});
      } else {
        plan.outputs.push_back({false, slot.at(output), false});
      }
    }
    return plan;
  }

  const std::shared_ptr<Graph>& graph_;
  const Cut& cut_;
  const CompileGraph& compile_;
  std::unordered_map<const Node*, size_t> input_at_;
};

}  // namespace

Ref<> keepingApart(const Graph& graph, Ref<> compiled) {
  std::vector<const Node*> inputs(graph.inputs().begin(), graph.inputs().end()), calls;
  for (const Node& node : graph.nodes()) calls.push_back(&node);
  const std::vector<bool> apart = withoutGradients(inputs, calls);
  if (std::find(apart.begin(), apart.end(), true) == apart.end()) return compiled;
  Plan plan;
  plan.inputs = inputs.size();
  Step step;
  step.callable = std::move(compiled);
  step.name = "graph";
  for (uint32_t i = 0; i < apart.size(); ++i) step.arguments.push_back({true, i, false, apart[i]});
  for (uint32_t i = 0; i < graph.outputs().size(); ++i) {
    step.results.push_back(i);
    plan.outputs.push_back({false, i});
  }
  plan.slots = graph.outputs().size();
  plan.steps.push_back(std::move(step));
  return makePlan(std::move(plan));
}

CompiledRegions compileRegions(const std::shared_ptr<Graph>& graph, const Cut& cut,
                               bool grad_enabled, const CompileGraph& compile) {
  return Compiler(graph, cut, compile).run(grad_enabled);
}

}  // namespace stator::regions
