#include "symbolic/dim.h"

#include "base/check.h"
#include "symbolic/environment.h"

namespace stator::symbolic {

namespace {

Environment& environment() {
  Environment* current = Environment::current();
  STATOR_CHECK(current != nullptr, "a symbol outside of a capture");
  return *current;
}

}  // namespace

Dim Dim::of(const Expr* expr) {
  Dim dim;
  dim.bits_ = expr->isInt() ? expr->number : INT64_MIN + static_cast<int64_t>(expr->id);
  return dim;
}

const Expr* Dim::expr() const {
  return isStatic() ? integer(bits_) : exprAt(static_cast<uint32_t>(bits_ - INT64_MIN));
}

std::string Dim::text() const {
  return isStatic() ? std::to_string(bits_) : symbolic::text(expr());
}

Dim Dim::slow(Dim a, Dim b, char operation) {
  Environment& known = environment();
  const Expr *left = known.simplify(a.expr()), *right = known.simplify(b.expr());
  try {
    switch (operation) {
      case '+':
        return of(add(left, right));
      case '-':
        return of(subtract(left, right));
      case '*':
        return of(multiply(left, right));
      case '%':
        return of(mod(left, right));
      default:
        return of(symbolic::floorDiv(left, right));
    }
  } catch (const Overflow&) {
    const Dim first = a.value(), second = b.value();
    switch (operation) {
      case '+':
        return first + second;
      case '-':
        return first - second;
      case '*':
        return first * second;
      case '%':
        return floorMod(first, second);
      default:
        return floorDiv(first, second);
    }
  }
}

bool Dim::equalSlow(Dim a, Dim b) {
  if (a.bits_ == b.bits_) return true;
  Environment& known = environment();
  try {
    const Expr* condition =
        known.simplify(equal(known.simplify(a.expr()), known.simplify(b.expr())));
    const bool with_0_or_1 = (b.isStatic() && (b.bits_ == 0 || b.bits_ == 1)) ||
                             (a.isStatic() && (a.bits_ == 0 || a.bits_ == 1));
    // decideSize says this of symbols; here it is said of an expression.
    if (with_0_or_1 && known.hasUnbacked(condition)) return known.known(condition).value_or(false);
    return known.decideSize(condition);
  } catch (const Overflow&) {
    return a.value() == b.value();
  }
}

bool Dim::expectSlow(Dim a, Dim b) {
  if (a.bits_ == b.bits_) return true;
  Environment& known = environment();
  try {
    return known.expect(equal(known.simplify(a.expr()), known.simplify(b.expr())));
  } catch (const Overflow&) {
    return a.value() == b.value();
  }
}

bool Dim::lessSlow(Dim a, Dim b) {
  if (a.bits_ == b.bits_) return false;
  Environment& known = environment();
  try {
    return known.decideSize(lessThan(known.simplify(a.expr()), known.simplify(b.expr())));
  } catch (const Overflow&) {
    return a.value() < b.value();
  }
}

int64_t Dim::specialised() const {
  const std::optional<int64_t> value = environment().specialise(expr());
  STATOR_CHECK(value.has_value(), "a size has no value");
  return *value;
}

int64_t Dim::hintSlow() const {
  if (environment().hasUnbacked(expr())) throw Undecided(expr());
  const std::optional<int64_t> value = environment().hintOf(expr());
  STATOR_CHECK(value.has_value(), "a size has no value");
  return *value;
}

}  // namespace stator::symbolic
