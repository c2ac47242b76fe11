#include "shapes/infer.h"

#include "base/check.h"
#include "shapes/autocast.h"
#include "shapes/call.h"
#include "shapes/fallback.h"
#include "shapes/memo.h"
#include "shapes/registry.h"
#include "symbolic/environment.h"

#include <optional>

namespace stator::shapes {

namespace {

struct Engine {
  Memo memo;
  // Calls with symbols: what these mean differs from capture to capture. Within one, a second run would decide nothing
  // that the first has not decided already.
  Memo symbolic;
  NonzeroCounts nonzeros;    // of tensors that nothing was written to since
  uint64_t environment = 0;  // whose they are
  Counts counts;
  Inferred last;  // the answer to a call that may not be remembered
};

// Never destroyed: it holds references to Python objects.
Engine& engine() {
  static auto* instance = new Engine();
  return *instance;
}

bool inferByRules(PyObject* target, Workspace& workspace, const State& state, Inferred& out) {
  Rules* rules = rulesOf(target);
  if (rules == nullptr || !takesCall(target, *rules, workspace)) return false;
  if (state.autocast_cpu || state.autocast_cuda) {
    const Cast cast = castOf(target, *rules->rows.front().row, workspace, state);
    if (cast == Cast::kUnknown) return false;
    if (cast == Cast::kLower && !workspace.lower(state)) return false;
  }
  for (const ResolvedRule& rule : rules->rows) {
    Call call(workspace, state, out);
    if (call.bind(*rule.signature, rule.row->detail, rule.mode, rule.keywords_allowed) &&
        rule.row->rule(call)) {
      out.random = out.random || (rule.row->detail & kRandomOp) != 0;
      return true;
    }
    out = Inferred();
  }
  return false;
}

}  // namespace

Answer infer(const Request& request, Tiers tiers) {
  Engine& self = engine();
  Answer answer;
  PyObject* target = resolveTarget(request.target);
  Workspace workspace(request);
  if (target == nullptr || !workspace.read()) {
    ++self.counts.failed;
    answer.status = Status::kUnsupported;
    answer.why = target == nullptr ? "torch.Tensor has no such attribute" : "an argument is opaque";
    return answer;
  }
  bool remember =
      tiers == Tiers::kAll && request.remember && !request.wrapped && workspace.memoisable();
  Memo& memo = workspace.symbolic() ? self.symbolic : self.memo;
  const symbolic::Environment* environment = symbolic::Environment::current();
  if (environment != nullptr && self.environment != environment->number()) {
    self.symbolic.clear();
    self.nonzeros.clear();
    self.environment = environment->number();
  }
  if (!request.remember) self.nonzeros.clear();  // it may have effects of which nothing is known
  std::optional<MemoKey> key;
  if (remember) {
    key.emplace(target, workspace, *request.state);
    if (const Inferred* known = memo.find(*key)) {
      if (known->mutates) self.nonzeros.clear();
      ++self.counts.by_tier[static_cast<size_t>(Tier::kMemo)];
      answer.inferred = known;
      return answer;
    }
  }
  Inferred inferred;
  const size_t symbols = environment != nullptr ? environment->symbolCount() : 0;
  if (tiers != Tiers::kFakeOnly && !request.wrapped &&
      inferByRules(target, workspace, *request.state, inferred)) {
    answer.tier = Tier::kRule;
  } else if (tiers == Tiers::kRulesOnly) {
    answer.status = Status::kUnsupported;
    answer.why = "no rule";
    return answer;
  } else {
    Request resolved = request;
    resolved.target = target;
    FallbackAnswer fallback = inferWithFake(resolved, self.nonzeros);
    answer.tier = Tier::kFake;
    if (fallback.status != Status::kOk) {
      ++self.counts.failed;
      answer.status = fallback.status;
      answer.error = std::move(fallback.error);
      answer.why = std::move(fallback.why);
      return answer;
    }
    inferred = std::move(fallback.inferred);
    if (fallback.of_these_tensors) remember = false;
  }
  ++self.counts.by_tier[static_cast<size_t>(answer.tier)];
  if (inferred.mutates) self.nonzeros.clear();
  // A size that depends on data is another for each call.
  if (environment != nullptr && environment->symbolCount() > symbols) remember = false;
  if (remember) {
    answer.inferred = memo.add(*key, target, std::move(inferred));
  } else {
    self.last = std::move(inferred);
    answer.inferred = &self.last;
  }
  return answer;
}

bool hasRule(PyObject* target) {
  PyObject* resolved = resolveTarget(target);
  return resolved != nullptr && rulesOf(resolved) != nullptr;
}

Counts counts() {
  Counts counts = engine().counts;
  counts.entries = engine().memo.size();
  return counts;
}

void clearMemo() {
  engine().memo.clear();
  engine().symbolic.clear();
  engine().nonzeros.clear();
  engine().counts = Counts();
  engine().last = Inferred();
}

bool initShapes() { return initTorchTypes() && initRegistry(); }

}  // namespace stator::shapes
