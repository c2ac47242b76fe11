#include "regions/find.h"

#include "base/boundary.h"
#include "base/text.h"
#include "regions/bodies.h"
#include "regions/marks.h"
#include "regions/repeats.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

namespace stator::regions {

using graph::Graph;
using graph::Node;
using graph::Op;

namespace {

using Stretch = std::pair<size_t, size_t>;  // begin, end

// Whether the nodes are plain enough to be put into another graph: parameters are inputs, and no value is known by an
// instance.
bool canBeCut(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::kAttribute || node.op == Op::kCallModule || node.wrapper) return false;
  }
  return !graph.result;
}

// Whether all random numbers are such as one generator gives one after the other, however many are asked for at once.
bool drawsInOrder(const Graph& graph) {
  // Attention that drops is no kernel of its own on a CPU: inductor has its parts, one of which is a dropout.
  static const std::unordered_set<std::string_view> kBySeed = {
      "dropout", "rand", "randn", "rand_like", "randn_like", "scaled_dot_product_attention"};
  bool draws = false, on_cpu = true;
  for (const Node& node : graph.nodes()) {
    if (node.meta != nullptr) on_cpu &= node.meta->device == shapes::DeviceType::CPU;
    if (node.op == Op::kInput) continue;
    if (deedsOf(node).draws) return false;
    if (!node.random) continue;
    draws = true;
    Ref<> name = node.op == Op::kCallMethod
                     ? node.target
                     : stealRef(PyObject_GetAttrString(node.target.get(), "__name__"));
    if (!name) PyErr_Clear();
    const char* text = name && PyUnicode_Check(name.get()) ? utf8(name.get()) : "";
    if (kBySeed.count(text) == 0) return false;
  }
  return on_cpu || !draws;
}

class Finder {
 public:
  Finder(Graph& graph, const Calls& calls, const Wish& wish)
      : graph_(graph), calls_(calls), wish_(wish) {}

  // In order, without overlap. What the user has marked is a region wherever it repeats, the rest where it is as large
  // as wished.
  std::vector<Stretch> repeated() {
    std::hash<std::string> hash;
    std::vector<uint64_t> all, marked;
    for (const Node* node : calls_.nodes()) {
      all.push_back(hash(outlineOf(*node)));
      weights_.push_back(1 + deedsOf(*node).calls);
      // a number that nothing else has
      marked.push_back(hasMarked() && isMarked(*node) ? all.back() : marked.size());
    }
    if (hasMarked()) search(marked, 0, calls_.size(), 2, 1);
    if (!wish_.marked_only) {
      const std::vector<Stretch> done = found_;
      size_t from = 0;
      for (const Stretch& stretch : done) {
        search(all, from, stretch.first, wish_.least_repeats, wish_.least_calls);
        from = stretch.second;
      }
      search(all, from, calls_.size(), wish_.least_repeats, wish_.least_calls);
    }
    std::sort(found_.begin(), found_.end());
    return found_;
  }

  std::vector<Stretch> ofClasses() {
    size_t from = 0;
    const graph::ModuleScope* scope = nullptr;
    auto end = [&](size_t at) {
      if (scope != nullptr && calls_.isLegal(from) && calls_.isLegal(at))
        found_.emplace_back(from, at);
    };
    for (size_t at = 0; at < calls_.size(); ++at) {
      const graph::ModuleScope* now = wanted(calls_.nodes()[at]->scope);
      if (now == scope) continue;
      end(at);
      scope = now;
      from = at;
    }
    end(calls_.size());
    return found_;
  }

 private:
  // The outermost module of the classes asked for.
  const graph::ModuleScope* wanted(const graph::ModuleScope* scope) const {
    const graph::ModuleScope* found = nullptr;
    for (; scope != nullptr; scope = scope->outer) {
      if (!scope->type || !PyType_Check(scope->type.get())) continue;
      auto* type = reinterpret_cast<PyTypeObject*>(scope->type.get());
      for (const Ref<>& wish : wish_.classes) {
        if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(wish.get())) != 0) found = scope;
      }
    }
    return found;
  }

  void search(const std::vector<uint64_t>& items, size_t begin, size_t end, size_t repeats,
              size_t calls) {
    auto weight = [&](size_t from, size_t to) {
      size_t sum = 0;
      for (size_t at = from; at < to; ++at) sum += weights_[at];
      return sum;
    };
    if (end <= begin || weight(begin, end) < calls * repeats) return;
    // A call with a body counts for all that is in it.
    const size_t heaviest = *std::max_element(weights_.begin(), weights_.end());
    const size_t period = std::max<size_t>(1, calls / heaviest);
    for (const Run& run : findRuns(items, begin, end, period, repeats)) {
      if (weight(run.begin, run.begin + run.period) < calls) continue;
      const std::vector<size_t> bounds = place(run, repeats);
      if (bounds.empty()) continue;
      for (size_t i = 0; i + 1 < bounds.size(); ++i) found_.emplace_back(bounds[i], bounds[i + 1]);
      search(items, begin, bounds.front(), repeats, calls);
      search(items, bounds.back(), end, repeats, calls);
      return;
    }
  }

  // Where a run is cut: of all the places that a period apart are legal, those where least passes.
  std::vector<size_t> place(const Run& run, size_t repeats) const {
    std::vector<size_t> best;
    auto cost = [&](const std::vector<size_t>& bounds) {
      size_t values = 0, scopes = 0;
      for (size_t at : bounds) {
        values = std::max(values, calls_.crossing(at));
        scopes = std::max(scopes, calls_.commonScopes(at));
      }
      return std::tuple(values, run.repeats() - std::min(run.repeats(), bounds.size() - 1), scopes,
                        bounds.front());
    };
    for (size_t first = run.begin; first < std::min(run.begin + run.period, run.end); ++first) {
      std::vector<size_t> bounds, longest;
      for (size_t at = first; at <= run.end; at += run.period) {
        if (!calls_.isLegal(at)) bounds.clear();
        if (calls_.isLegal(at)) bounds.push_back(at);
        if (bounds.size() > longest.size()) longest = bounds;
      }
      if (longest.size() < repeats + 1) continue;
      if (best.empty() || cost(longest) < cost(best)) best = longest;
    }
    return best;
  }

  Graph& graph_;
  const Calls& calls_;
  const Wish& wish_;
  std::vector<Stretch> found_;
  std::vector<size_t> weights_;  // of the calls
};

// All stretches in order: those found, and what is between them.
std::vector<Stretch> filled(const std::vector<Stretch>& found, size_t end) {
  std::vector<Stretch> all;
  size_t at = 0;
  for (const Stretch& stretch : found) {
    if (stretch.first > at) all.emplace_back(at, stretch.first);
    all.push_back(stretch);
    at = stretch.second;
  }
  if (at < end) all.emplace_back(at, end);
  return all;
}

// Numbers the pieces by their signatures.
void number(Cut& cut) {
  std::unordered_map<std::string, size_t> known;
  cut.regions.clear();
  for (const Piece& piece : cut.pieces)
    cut.regions.push_back(known.try_emplace(signatureOf(piece), known.size()).first->second);
  cut.distinct = known.size();
}

std::vector<Piece> piecesOf(const Graph& graph, const Calls& calls,
                            const std::vector<Stretch>& stretches) {
  std::vector<Piece> pieces;
  for (auto [begin, end] : stretches) pieces.push_back(pieceOf(graph, calls, begin, end));
  return pieces;
}

bool bindSymbols(const Cut& cut) {
  return std::all_of(cut.pieces.begin(), cut.pieces.end(), bindsSymbols);
}

}  // namespace

size_t Cut::usesOf(size_t region) const {
  return static_cast<size_t>(std::count(regions.begin(), regions.end(), region));
}

Cut findRegions(Graph& graph, bool grad_enabled, const Wish& wish) {
  if (!canBeCut(graph) || (wish.marked_only && !hasMarked())) return {};
  if (wish.draws_seeds && !drawsInOrder(graph)) return {};
  const Calls calls(graph, grad_enabled);
  Finder finder(graph, calls, wish);
  const std::vector<Stretch> found = wish.classes.empty() ? finder.repeated() : finder.ofClasses();
  if (found.size() < 2) return {};
  Cut cut;
  const std::vector<Stretch> all = filled(found, calls.size());
  cut.pieces = piecesOf(graph, calls, all);
  number(cut);
  // What is used once is better off with its neighbours.
  std::vector<Stretch> merged;
  bool joins = false;
  for (size_t i = 0; i < all.size(); ++i) {
    const bool once = cut.usesOf(cut.regions[i]) < 2;
    if (once && joins) {
      merged.back().second = all[i].second;
    } else {
      merged.push_back(all[i]);
    }
    joins = once;
  }
  if (merged.size() < 2) return {};
  if (merged.size() < all.size()) {
    cut.pieces = piecesOf(graph, calls, merged);
    number(cut);
  }
  return bindSymbols(cut) ? cut : Cut();
}

Cut cutAt(Graph& graph, bool grad_enabled, const std::vector<size_t>& bounds) {
  if (bounds.empty() || !canBeCut(graph)) return {};
  const Calls calls(graph, grad_enabled);
  std::vector<Stretch> stretches;
  for (size_t i = 0; i <= bounds.size(); ++i)
    stretches.emplace_back(i == 0 ? 0 : bounds[i - 1],
                           i < bounds.size() ? bounds[i] : calls.size());
  Cut cut;
  cut.pieces = piecesOf(graph, calls, stretches);
  number(cut);
  return bindSymbols(cut) ? cut : Cut();
}

std::string Cut::text() const {
  std::string text;
  std::vector<bool> shown(distinct, false);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (shown[regions[i]]) continue;
    shown[regions[i]] = true;
    const Piece& piece = pieces[i];
    text += "region " + std::to_string(regions[i]) + ": " + std::to_string(usesOf(regions[i])) +
            " x " + std::to_string(piece.end - piece.begin) + " calls, " +
            std::to_string(piece.inputs.size()) + " inputs, " +
            std::to_string(piece.outputs.size()) + " outputs";
    const graph::ModuleScope* scope = piece.calls.empty() ? nullptr : piece.calls.back()->scope;
    // The innermost module that all of its calls are in.
    auto holds = [&](const Node* node) {
      for (const auto* s = node->scope; s != nullptr; s = s->outer) {
        if (s == scope) return true;
      }
      return false;
    };
    while (scope != nullptr && !std::all_of(piece.calls.begin(), piece.calls.end(), holds))
      scope = scope->outer;
    if (scope != nullptr) text += ", first in " + scope->path;
    text += '\n';
  }
  return text;
}

}  // namespace stator::regions
