#include "symbolic/environment.h"

#include "base/check.h"

#include <algorithm>

namespace stator::symbolic {

namespace {

thread_local Environment* current_environment = nullptr;

int64_t clamp(__int128 value) {
  if (value > kUnbounded) return kUnbounded;
  if (value < -kUnbounded) return -kUnbounded;
  return static_cast<int64_t>(value);
}

bool isBound(int64_t value) { return value > -kUnbounded && value < kUnbounded; }

Range plus(Range left, Range right) {
  Range sum;
  if (isBound(left.low) && isBound(right.low))
    sum.low = clamp(static_cast<__int128>(left.low) + right.low);
  if (isBound(left.high) && isBound(right.high))
    sum.high = clamp(static_cast<__int128>(left.high) + right.high);
  return sum;
}

// An end that is unbounded times 0 is 0.
Range times(Range left, Range right) {
  Range result{kUnbounded, -kUnbounded};
  for (int64_t a : {left.low, left.high}) {
    for (int64_t b : {right.low, right.high}) {
      const int64_t value = clamp(static_cast<__int128>(a) * b);
      result.low = std::min(result.low, value);
      result.high = std::max(result.high, value);
    }
  }
  return result;
}

Range meet(Range left, Range right) {
  return {std::max(left.low, right.low), std::min(left.high, right.high)};
}

int64_t floorQuotient(int64_t left, int64_t right) {
  const int64_t quotient = left / right;
  return left % right != 0 && ((left < 0) != (right < 0)) ? quotient - 1 : quotient;
}

// The sum without its constant, with a positive first coefficient; `flipped` tells whether the sign was turned.
const Expr* formOf(const Expr* expr, int64_t& constant, bool& flipped) {
  constant = 0;
  flipped = false;
  if (expr->kind != Kind::kSum) return expr;
  constant = expr->number;
  const Expr* form = subtract(expr, integer(constant));
  if (form->kind == Kind::kSum && form->parts[0].number < 0) {
    flipped = true;
    form = multiply(integer(-1), form);
  }
  return form;
}

Range negated(Range range) { return {-range.high, -range.low}; }

}  // namespace

Environment::Environment() {
  static uint64_t made = 0;  // under the GIL
  number_ = ++made;
}

Environment* Environment::current() { return current_environment; }

Environment::Scope::Scope(Environment* environment) : outer_(current_environment) {
  current_environment = environment;
}
Environment::Scope::~Scope() { current_environment = outer_; }

const Expr* Environment::addSymbol(int64_t hint, Range range) {
  const auto number = static_cast<int64_t>(hints_.size());
  hints_.push_back(hint);
  ranges_.push_back(range);
  replacements_.push_back(nullptr);
  is_unbacked_.push_back(false);
  return symbol(number);
}

const Expr* Environment::addUnbacked(Range range, int64_t example) {
  const Expr* made = addSymbol(example, range);
  is_unbacked_.back() = true;
  unbacked_ |= made->symbols;
  return made;
}

bool Environment::hasUnbacked(const Expr* expr) const {
  if ((expr->symbols & unbacked_) == 0) return false;
  for (int64_t number : symbolsIn(expr)) {
    if (is_unbacked_[static_cast<size_t>(number)]) return true;
  }
  return false;
}

bool Environment::expect(const Expr* condition) {
  condition = simplify(condition);
  if (!hasUnbacked(condition)) return decide(condition);
  if (const std::optional<bool> settled = known(condition)) return *settled;
  // Not solved for a symbol: whoever raises if it does not hold has to be given what the program gave it.
  facts_.insert(condition);
  return true;
}

bool Environment::decideSize(const Expr* condition) {
  condition = simplify(condition);
  if (!hasUnbacked(condition)) return decide(condition);
  try {
    if (const std::optional<bool> settled = known(condition)) return *settled;
    const std::vector<Range> ranges = ranges_;
    for (size_t i = 0; i < ranges_.size(); ++i) {
      if (is_unbacked_[i] && ranges_[i].high >= 2)
        ranges_[i].low = std::max<int64_t>(ranges_[i].low, 2);
    }
    const std::optional<bool> settled = known(condition);
    ranges_ = ranges;
    if (settled) return *settled;
  } catch (const Overflow&) {  // NOLINT(bugprone-empty-catch): then nothing is known
  }
  throw Undecided(condition);
}

Range Environment::structuralRange(const Expr* expr) const {
  switch (expr->kind) {
    case Kind::kInt:
      return {expr->number, expr->number};
    case Kind::kSymbol:
      return static_cast<size_t>(expr->number) < ranges_.size()
                 ? ranges_[static_cast<size_t>(expr->number)]
                 : Range{};
    case Kind::kSum: {
      Range total{expr->number, expr->number};
      for (const Part& part : expr->parts)
        total = plus(total, times({part.number, part.number}, rangeOf(part.expr)));
      return total;
    }
    case Kind::kProduct: {
      Range total{1, 1};
      for (const Part& part : expr->parts) {
        const Range factor = rangeOf(part.expr);
        Range raised{1, 1};
        for (int64_t i = 0; i < std::min<int64_t>(part.number, 64); ++i)
          raised = times(raised, factor);
        if (part.number > 64) raised = Range{};
        if (part.number % 2 == 0) raised.low = std::max<int64_t>(raised.low, 0);
        total = times(total, raised);
      }
      return total;
    }
    case Kind::kFloorDiv: {
      const Range dividend = rangeOf(expr->parts[0].expr), divisor = rangeOf(expr->parts[1].expr);
      if (divisor.low <= 0) return {};
      Range result{kUnbounded, -kUnbounded};
      for (int64_t a : {dividend.low, dividend.high}) {
        for (int64_t b : {divisor.low, divisor.high}) {
          const int64_t value = isBound(a) ? floorQuotient(a, b) : a;
          result.low = std::min(result.low, value);
          result.high = std::max(result.high, value);
        }
      }
      return result;
    }
    case Kind::kMod: {
      const Range dividend = rangeOf(expr->parts[0].expr), divisor = rangeOf(expr->parts[1].expr);
      if (divisor.low <= 0) return {};
      if (dividend.low >= 0 && dividend.high < divisor.low) return dividend;
      Range result{0, isBound(divisor.high) ? divisor.high - 1 : kUnbounded};
      if (dividend.low >= 0) result.high = std::min(result.high, dividend.high);
      return result;
    }
    case Kind::kPow:
      return rangeOf(expr->parts[0].expr).low >= 0 ? Range{0, kUnbounded} : Range{};
    case Kind::kMin:
    case Kind::kMax: {
      Range total = rangeOf(expr->parts[0].expr);
      for (const Part& part : expr->parts) {
        const Range range = rangeOf(part.expr);
        total.low = expr->kind == Kind::kMin ? std::min(total.low, range.low)
                                             : std::max(total.low, range.low);
        total.high = expr->kind == Kind::kMin ? std::min(total.high, range.high)
                                              : std::max(total.high, range.high);
      }
      return total;
    }
    default:
      return {0, 1};
  }
}

Range Environment::rangeOf(const Expr* expr) const {
  Range range = structuralRange(expr);
  if (forms_.empty() || expr->isInt() || expr->isTruth()) return range;
  int64_t constant = 0;
  bool flipped = false;
  const Expr* form = formOf(expr, constant, flipped);
  if (auto known = forms_.find(form); known != forms_.end()) {
    range =
        meet(range, plus(flipped ? negated(known->second) : known->second, {constant, constant}));
  }
  return range;
}

// What the terms of a sum do to one another shows when a symbol is put outside of brackets: s1 - s0*s1 is s1*(1 - s0),
// which is negative for sizes of at least two, while the range of each term by itself says nothing. One symbol at a
// time.
Range Environment::factoredRange(const Expr* sum) const {
  Range best;
  if (sum->kind != Kind::kSum || sum->parts.size() < 2) return best;
  for (int64_t number : symbolsIn(sum)) {
    const Expr* factor = symbol(number);
    const Expr *inside = integer(0), *outside = integer(sum->number);
    size_t together = 0;
    for (const Part& term : sum->parts) {
      const Expr* rest = nullptr;
      if (term.expr == factor) {
        rest = integer(1);
      } else if (term.expr->kind == Kind::kProduct) {
        const auto has_factor = [&](const Part& part) { return part.expr == factor; };
        if (std::any_of(term.expr->parts.begin(), term.expr->parts.end(), has_factor)) {
          rest = integer(1);
          for (const Part& part : term.expr->parts) {
            for (int64_t i = part.expr == factor ? 1 : 0; i < part.number; ++i)
              rest = multiply(rest, part.expr);
          }
        }
      }
      const Expr* coefficient = integer(term.number);
      if (rest != nullptr) {
        inside = add(inside, multiply(coefficient, rest));
        ++together;
      } else {
        outside = add(outside, multiply(coefficient, term.expr));
      }
    }
    if (together < 2) continue;
    best = meet(best, plus(times(rangeOf(factor), rangeOf(inside)), rangeOf(outside)));
  }
  return best;
}

const Expr* Environment::simplify(const Expr* expr) const {
  if ((expr->symbols & replaced_) == 0) return expr;
  try {
    return substitute(expr,
                      [&](int64_t number) { return replacements_[static_cast<size_t>(number)]; });
  } catch (const Overflow&) {
    return expr;
  }
}

std::optional<bool> Environment::known(const Expr* condition) const {
  switch (condition->kind) {
    case Kind::kBool:
      return condition->number != 0;
    case Kind::kEq: {
      if (facts_.count(condition) != 0) return true;
      const Range range = rangeOf(condition->parts[0].expr);
      if (range.low > 0 || range.high < 0) return false;
      if (range.low == 0 && range.high == 0) return true;
      if (facts_.count(logicalNot(condition)) != 0) return false;
      const Range factored = factoredRange(condition->parts[0].expr);
      if (factored.low > 0 || factored.high < 0) return false;
      return std::nullopt;
    }
    case Kind::kLe: {
      const Range range = rangeOf(condition->parts[0].expr);
      if (range.high <= 0) return true;
      if (range.low > 0) return false;
      const Range factored = factoredRange(condition->parts[0].expr);
      if (factored.high <= 0) return true;
      if (factored.low > 0) return false;
      return std::nullopt;
    }
    case Kind::kNot: {
      const std::optional<bool> inner = known(condition->parts[0].expr);
      return inner ? std::optional<bool>(!*inner) : std::nullopt;
    }
    case Kind::kAnd:
    case Kind::kOr: {
      const bool decisive = condition->kind == Kind::kOr;
      bool open = false;
      for (const Part& part : condition->parts) {
        const std::optional<bool> inner = known(part.expr);
        if (inner && *inner == decisive) return decisive;
        open |= !inner;
      }
      return open ? std::nullopt : std::optional<bool>(!decisive);
    }
    default:
      return std::nullopt;
  }
}

std::optional<int64_t> Environment::hintOf(const Expr* expr) const {
  if (hasUnbacked(expr)) return std::nullopt;
  return evaluate(expr, hints_.data(), hints_.size());
}

bool Environment::decide(const Expr* condition) {
  condition = simplify(condition);
  try {
    if (const std::optional<bool> settled = known(condition)) return *settled;
    if (hasUnbacked(condition)) throw Undecided(condition);
    std::optional<int64_t> value = hintOf(condition);
    if (!value) {
      // Too large, or undefined: with plain numbers the question can be put.
      fix(condition);
      condition = simplify(condition);
      STATOR_CHECK(condition->kind == Kind::kBool,
                   "a condition on sizes has no truth value: " + text(condition));
      return condition->number != 0;
    }
    const Expr* held = *value != 0 ? condition : logicalNot(condition);
    decisions_.push_back({held, where_ != nullptr ? where_(where_context_) : nullptr});
    learn(held);
    return *value != 0;
  } catch (const Overflow&) {
    const std::optional<int64_t> value = hintOf(condition);
    STATOR_CHECK(value.has_value(), "a condition on sizes overflows");
    fix(condition);
    return *value != 0;
  }
}

std::optional<int64_t> Environment::specialise(const Expr* expr) {
  expr = simplify(expr);
  if (hasUnbacked(expr)) throw Undecided(expr);
  const std::optional<int64_t> value = hintOf(expr);
  if (!value || expr->isInt()) return value;
  try {
    decide(equal(expr, integer(*value)));
  } catch (const Overflow&) {
    fix(expr);
  }
  return value;
}

// What is too heavy to be compared holds for good once all that it is made of is fixed.
void Environment::fix(const Expr* expr) {
  for (int64_t number : symbolsIn(expr)) specialise(symbol(number));
}

void Environment::assume(const Expr* condition) {
  condition = simplify(condition);
  if (known(condition)) return;
  decisions_.push_back({condition, where_ != nullptr ? where_(where_context_) : nullptr});
  learn(condition);
}

void Environment::bound(const Expr* form, Range range) {
  if (form->kind == Kind::kSymbol) {
    Range& own = ranges_[static_cast<size_t>(form->number)];
    own = meet(own, range);
    return;
  }
  auto [at, is_new] = forms_.try_emplace(form, range);
  if (!is_new) at->second = meet(at->second, range);
}

void Environment::learn(const Expr* condition) {
  switch (condition->kind) {
    case Kind::kAnd:
      for (const Part& part : condition->parts) learn(part.expr);
      return;
    case Kind::kEq:
      facts_.insert(condition);
      solve(condition->parts[0].expr);
      return;
    case Kind::kLe: {
      int64_t constant = 0;
      bool flipped = false;
      const Expr* form = formOf(condition->parts[0].expr, constant, flipped);
      bound(form, flipped ? Range{constant, kUnbounded} : Range{-kUnbounded, -constant});
      return;
    }
    case Kind::kNot: {
      facts_.insert(condition);
      // Next to a bound, it moves the bound.
      int64_t constant = 0;
      bool flipped = false;
      const Expr* form = formOf(condition->parts[0].expr->parts[0].expr, constant, flipped);
      const int64_t excluded = flipped ? constant : -constant;
      const Range range = rangeOf(form);
      if (range.low == excluded) bound(form, {excluded + 1, kUnbounded});
      if (range.high == excluded) bound(form, {-kUnbounded, excluded - 1});
      return;
    }
    default:
      facts_.insert(condition);
  }
}

bool Environment::solve(const Expr* sum) {
  const std::vector<Part> terms =
      sum->kind == Kind::kSum ? sum->parts : std::vector<Part>{{1, sum}};
  // The youngest symbol goes: what was there first keeps its name.
  const Part* chosen = nullptr;
  for (const Part& term : terms) {
    if (term.expr->kind != Kind::kSymbol || (term.number != 1 && term.number != -1)) continue;
    bool elsewhere = false;
    for (const Part& other : terms) {
      if (&other == &term) continue;
      const std::vector<int64_t> inside = symbolsIn(other.expr);
      elsewhere |= std::find(inside.begin(), inside.end(), term.expr->number) != inside.end();
    }
    if (!elsewhere && (chosen == nullptr || term.expr->number > chosen->expr->number))
      chosen = &term;
  }
  if (chosen == nullptr) return false;
  const int64_t number = chosen->expr->number;
  const Expr* rest = subtract(sum, multiply(integer(chosen->number), chosen->expr));
  const Expr* value = chosen->number == 1 ? multiply(integer(-1), rest) : rest;
  auto put = [&](const Expr* expr) {
    return substitute(expr, [&](int64_t n) { return n == number ? value : nullptr; });
  };
  replacements_[static_cast<size_t>(number)] = value;
  replaced_ |= symbol(number)->symbols;
  for (const Expr*& other : replacements_) {
    if (other != nullptr) other = put(other);
  }
  // What was known of the symbol is now known of its value.
  std::map<const Expr*, Range> forms = std::move(forms_);
  forms_.clear();
  const Range own = ranges_[static_cast<size_t>(number)];
  int64_t constant = 0;
  bool flipped = false;
  const Expr* form = formOf(value, constant, flipped);
  if (!form->isInt()) {
    Range range = plus(own, {-constant, -constant});
    bound(form, flipped ? negated(range) : range);
  }
  for (const auto& [known_form, range] : forms) {
    const Expr* now = formOf(put(known_form), constant, flipped);
    if (now->isInt()) continue;
    const Range moved = plus(range, {-constant, -constant});
    bound(now, flipped ? negated(moved) : moved);
  }
  std::unordered_set<const Expr*> facts = std::move(facts_);
  facts_.clear();
  // from one set into another
  for (const Expr* fact : facts) {  // NOLINT(bugprone-nondeterministic-pointer-iteration-order)
    const Expr* now = put(fact);
    if (now->kind != Kind::kBool) facts_.insert(now);
  }
  return true;
}

}  // namespace stator::symbolic
