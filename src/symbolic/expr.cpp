// Canonical forms of arithmetic. Truth values are in logic.cpp, values and text in values.cpp.
#include "symbolic/expr.h"

#include "base/check.h"
#include "symbolic/intern.h"

#include <algorithm>
#include <numeric>

namespace stator::symbolic {

namespace {

// A product of two sums is multiplied out up to this many terms; beyond, the factors stay as they are.
constexpr size_t kMaxTerms = 64;
constexpr int64_t kMaxPower = 6;  // of a sum, likewise

int64_t sum(int64_t left, int64_t right) {
  int64_t result = 0;
  if (__builtin_add_overflow(left, right, &result)) throw Overflow();
  return result;
}

int64_t product(int64_t left, int64_t right) {
  int64_t result = 0;
  if (__builtin_mul_overflow(left, right, &result)) throw Overflow();
  return result;
}

// A sum while it is put together: a constant, and terms sorted by `before`.
struct Sum {
  int64_t constant = 0;
  std::vector<Part> terms;

  explicit Sum(const Expr* expr) {
    if (expr->isInt()) {
      constant = expr->number;
    } else if (expr->kind == Kind::kSum) {
      constant = expr->number;
      terms = expr->parts;
    } else {
      terms.push_back({1, expr});
    }
  }
  Sum() = default;

  void add(int64_t coefficient, const Expr* term) {
    auto at = std::lower_bound(
        terms.begin(), terms.end(), term,
        [](const Part& part, const Expr* wanted) { return before(part.expr, wanted); });
    if (at != terms.end() && at->expr == term) {
      at->number = sum(at->number, coefficient);
      if (at->number == 0) terms.erase(at);
    } else if (coefficient != 0) {
      terms.insert(at, {coefficient, term});
    }
  }

  const Expr* make() const {
    if (terms.empty()) return integer(constant);
    if (constant == 0 && terms.size() == 1 && terms[0].number == 1) return terms[0].expr;
    return intern(Kind::kSum, constant, terms);
  }
};

// Product of two terms (symbols, atoms, products): powers of the same factor add up.
const Expr* multiplyTerms(const Expr* left, const Expr* right) {
  std::vector<Part> factors;
  for (const Expr* side : {left, right}) {
    std::vector<Part> own =
        side->kind == Kind::kProduct ? side->parts : std::vector<Part>{{1, side}};
    for (const Part& factor : own) {
      auto at = std::lower_bound(
          factors.begin(), factors.end(), factor.expr,
          [](const Part& part, const Expr* wanted) { return before(part.expr, wanted); });
      if (at != factors.end() && at->expr == factor.expr) {
        at->number = sum(at->number, factor.number);
      } else {
        factors.insert(at, factor);
      }
    }
  }
  if (factors.size() == 1 && factors[0].number == 1) return factors[0].expr;
  return intern(Kind::kProduct, 0, std::move(factors));
}

// term / divisor, both without coefficients; null if it does not come out even.
const Expr* divideTerm(const Expr* term, const Expr* divisor) {
  std::vector<Part> left =
      term->kind == Kind::kProduct ? term->parts : std::vector<Part>{{1, term}};
  std::vector<Part> right =
      divisor->kind == Kind::kProduct ? divisor->parts : std::vector<Part>{{1, divisor}};
  for (const Part& factor : right) {
    auto at = std::find_if(left.begin(), left.end(),
                           [&](const Part& part) { return part.expr == factor.expr; });
    if (at == left.end() || at->number < factor.number) return nullptr;
    at->number -= factor.number;
    if (at->number == 0) left.erase(at);
  }
  if (left.empty()) return integer(1);
  if (left.size() == 1 && left[0].number == 1) return left[0].expr;
  return intern(Kind::kProduct, 0, std::move(left));
}

int64_t floorDivide(int64_t left, int64_t right) {
  if (left == INT64_MIN && right == -1) throw Overflow();
  const int64_t quotient = left / right;
  return left % right != 0 && ((left < 0) != (right < 0)) ? quotient - 1 : quotient;
}

// dividend = quotient * divisor + rest, taking into the quotient the terms that divide evenly. `divisor` has one term.
void splitBy(const Expr* dividend, const Expr* divisor, Sum& quotient, Sum& rest) {
  const Sum from(dividend), by(divisor);
  const int64_t coefficient = by.terms.empty() ? by.constant : by.terms[0].number;
  const Expr* term = by.terms.empty() ? nullptr : by.terms[0].expr;
  for (const Part& part : from.terms) {
    const Expr* divided = part.number % coefficient != 0 ? nullptr
                          : term == nullptr              ? part.expr
                                                         : divideTerm(part.expr, term);
    if (divided == nullptr) {
      rest.add(part.number, part.expr);
    } else if (divided->isInt()) {
      quotient.constant =
          sum(quotient.constant, product(part.number / coefficient, divided->number));
    } else {
      quotient.add(part.number / coefficient, divided);
    }
  }
  if (term == nullptr) {
    const int64_t whole = floorDivide(from.constant, coefficient);
    quotient.constant = sum(quotient.constant, whole);
    rest.constant = from.constant - product(whole, coefficient);
  } else {
    rest.constant = from.constant;
  }
}

int64_t degree(const Expr* term) {
  if (term->kind != Kind::kProduct) return 1;
  int64_t total = 0;
  for (const Part& factor : term->parts) total += factor.number;
  return total;
}

// The quotient if a sum of several terms divides without a rest, by long division from its term of the highest degree;
// null: it does not.
const Expr* divideEvenly(const Expr* dividend, const Expr* divisor) {
  constexpr int kMostSteps = 32;
  if (divisor->kind != Kind::kSum || dividend->symbols == 0) return nullptr;
  const Part* lead = &divisor->parts[0];
  for (const Part& part : divisor->parts) {
    if (degree(part.expr) > degree(lead->expr)) lead = &part;
  }
  const Expr *quotient = integer(0), *rest = dividend;
  for (int step = 0; step < kMostSteps; ++step) {
    if (rest->isInt()) return rest->number == 0 ? quotient : nullptr;
    const Expr* next = nullptr;
    for (const Part& part : Sum(rest).terms) {
      const Expr* divided =
          part.number % lead->number == 0 ? divideTerm(part.expr, lead->expr) : nullptr;
      if (divided == nullptr) continue;
      next = multiply(integer(part.number / lead->number), divided);
      break;
    }
    if (next == nullptr) return nullptr;
    quotient = add(quotient, next);
    rest = subtract(rest, multiply(next, divisor));
  }
  return nullptr;
}

bool hasOneTerm(const Expr* expr) {
  return expr->kind != Kind::kSum || (expr->parts.size() == 1 && expr->number == 0);
}

// Whether one is the other plus a number; then `difference` is left - right.
bool differByNumber(const Expr* left, const Expr* right, int64_t& difference) {
  const Expr* gap = subtract(left, right);
  difference = gap->number;
  return gap->isInt();
}

const Expr* extreme(Kind kind, const Expr* left, const Expr* right) {
  std::vector<const Expr*> items;
  for (const Expr* side : {left, right}) {
    if (side->kind == kind) {
      for (const Part& part : side->parts) items.push_back(part.expr);
    } else {
      items.push_back(side);
    }
  }
  std::vector<Part> kept;
  for (const Expr* item : items) {
    bool needed = true;
    for (Part& other : kept) {
      int64_t gap = 0;
      if (!differByNumber(item, other.expr, gap)) continue;
      if (kind == Kind::kMax ? gap > 0 : gap < 0) other.expr = item;
      needed = false;
      break;
    }
    if (needed) kept.push_back({0, item});
  }
  if (kept.size() == 1) return kept[0].expr;
  std::sort(kept.begin(), kept.end(),
            [](const Part& a, const Part& b) { return before(a.expr, b.expr); });
  return intern(kind, 0, std::move(kept));
}

}  // namespace

const Expr* add(const Expr* left, const Expr* right) {
  if (left->isInt() && right->isInt()) return integer(sum(left->number, right->number));
  Sum total(left);
  const Sum other(right);
  total.constant = sum(total.constant, other.constant);
  for (const Part& part : other.terms) total.add(part.number, part.expr);
  return total.make();
}

const Expr* subtract(const Expr* left, const Expr* right) {
  return add(left, multiply(integer(-1), right));
}

const Expr* multiply(const Expr* left, const Expr* right) {
  const Sum one(left), other(right);
  const size_t terms = (one.terms.size() + 1) * (other.terms.size() + 1);
  if (!one.terms.empty() && !other.terms.empty() && terms > kMaxTerms) {
    // As they are, as factors of one product.
    return multiplyTerms(left, right);
  }
  Sum result;
  result.constant = product(one.constant, other.constant);
  for (const Part& part : one.terms) {
    if (other.constant != 0) result.add(product(part.number, other.constant), part.expr);
  }
  for (const Part& part : other.terms) {
    if (one.constant != 0) result.add(product(part.number, one.constant), part.expr);
  }
  for (const Part& a : one.terms) {
    for (const Part& b : other.terms)
      result.add(product(a.number, b.number), multiplyTerms(a.expr, b.expr));
  }
  return result.make();
}

const Expr* floorDiv(const Expr* left, const Expr* right) {
  if (right->isInt() && right->number != 0) {
    if (left->isInt()) return integer(floorDivide(left->number, right->number));
    if (right->number == 1) return left;
    if (right->number < 0)
      return floorDiv(multiply(integer(-1), left), integer(product(-1, right->number)));
  }
  if (left->isInt() && left->number == 0) return left;
  if (left == right) return integer(1);
  Sum quotient, rest;
  if (hasOneTerm(right) && !(right->isInt() && right->number == 0)) {
    splitBy(left, right, quotient, rest);
  } else {
    if (const Expr* evenly = divideEvenly(left, right)) return evenly;
    rest = Sum(left);
  }
  const Expr* whole = quotient.make();
  const Expr* remaining = rest.make();
  // 0 <= rest < right
  if (remaining->isInt() && (remaining->number == 0 || right->isInt())) return whole;
  if (right->isInt()) {
    // (g*a + c) // (g*k) is (a + c // g) // k.
    int64_t divisor = right->number;
    for (const Part& part : rest.terms) divisor = std::gcd(divisor, part.number);
    if (divisor > 1) {
      Sum reduced;
      reduced.constant = floorDivide(rest.constant, divisor);
      for (const Part& part : rest.terms) reduced.add(part.number / divisor, part.expr);
      return add(whole, floorDiv(reduced.make(), integer(right->number / divisor)));
    }
    // (a // j) // k is a // (j * k) for positive numbers.
    if (rest.constant == 0 && rest.terms.size() == 1 && rest.terms[0].number == 1 &&
        rest.terms[0].expr->kind == Kind::kFloorDiv) {
      const Expr* inner = rest.terms[0].expr;
      const Expr* by = inner->parts[1].expr;
      if (by->isInt() && by->number > 0)
        return add(whole,
                   floorDiv(inner->parts[0].expr, integer(product(by->number, right->number))));
    }
  }
  return add(whole, intern(Kind::kFloorDiv, 0, {{0, remaining}, {0, right}}));
}

const Expr* mod(const Expr* left, const Expr* right) {
  if (right->isInt() && right->number != 0) {
    if (left->isInt())
      return integer(left->number -
                     product(floorDivide(left->number, right->number), right->number));
    if (right->number == 1 || right->number == -1) return integer(0);
    if (right->number > 0) {
      // What is a multiple of the divisor changes nothing.
      const Sum from(left);
      Sum rest;
      auto reduced = [&](int64_t value) {
        return value - floorDivide(value, right->number) * right->number;
      };
      rest.constant = reduced(from.constant);
      for (const Part& part : from.terms) rest.add(reduced(part.number), part.expr);
      const Expr* remaining = rest.make();
      if (remaining->isInt()) return remaining;
      if (remaining->kind == Kind::kMod && remaining->parts[1].expr == right) return remaining;
      return intern(Kind::kMod, 0, {{0, remaining}, {0, right}});
    }
  }
  if (left->isInt() && left->number == 0) return left;
  if (left == right) return integer(0);
  if (hasOneTerm(right) && !right->isInt()) {
    Sum quotient, rest;
    splitBy(left, right, quotient, rest);
    const Expr* remaining = rest.make();
    if (remaining->isInt() && remaining->number == 0) return remaining;
    return intern(Kind::kMod, 0, {{0, remaining}, {0, right}});
  }
  if (divideEvenly(left, right) != nullptr) return integer(0);
  return intern(Kind::kMod, 0, {{0, left}, {0, right}});
}

const Expr* power(const Expr* base, const Expr* exponent) {
  if (exponent->isInt() && exponent->number >= 0) {
    const int64_t n = exponent->number;
    if (n == 0) return integer(1);
    if (base->isInt() && (base->number == 0 || base->number == 1)) return base;
    if (base->kind == Kind::kSymbol && n > 1) return intern(Kind::kProduct, 0, {{n, base}});
    if (n <= kMaxPower || (base->isInt() && n < 64)) {
      const Expr* result = base;
      for (int64_t i = 1; i < n; ++i) result = multiply(result, base);
      return result;
    }
  }
  return intern(Kind::kPow, 0, {{0, base}, {0, exponent}});
}

const Expr* least(const Expr* left, const Expr* right) { return extreme(Kind::kMin, left, right); }
const Expr* greatest(const Expr* left, const Expr* right) {
  return extreme(Kind::kMax, left, right);
}

}  // namespace stator::symbolic
