// Expressions over integers and truth values. Canonical: a sum of products with integer coefficients, whose factors are
// symbols, floor divisions, remainders, powers, minima and maxima; a comparison is `sum == 0` or `sum <= 0`. Interned
// for the life of the process: two expressions are equal when their pointers are. Symbols are numbers; what they mean
// is a capture's business (environment.h). Semantics are Python's (floor division, sign of the remainder). Relies on
// the GIL.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stator::symbolic {

enum class Kind : uint8_t {
  kInt,       // number
  kSymbol,    // number: which
  kSum,       // number: constant; parts: (coefficient, product or atom)
  kProduct,   // parts: (power, atom)
  kFloorDiv,  // parts: dividend, divisor
  kMod,
  kPow,  // parts: base, exponent
  kMin,
  kMax,
  // Truth values.
  kBool,  // number: 0 or 1
  kEq,    // parts: the sum that is 0
  kLe,    // parts: the sum that is at most 0
  kAnd,
  kOr,
  kNot,  // of kEq only: the others are turned around
};

struct Expr;
struct Part {
  int64_t number;
  const Expr* expr;
  bool operator==(const Part&) const = default;
};

struct Expr {
  Kind kind;
  uint32_t id;       // position in the process's table
  uint64_t symbols;  // bit n: symbol n occurs (63: that or a higher one)
  int64_t number;
  std::vector<Part> parts;

  bool isInt() const { return kind == Kind::kInt; }
  bool isTruth() const { return kind >= Kind::kBool; }
};

// A coefficient or a value left the range of 64 bits.
class Overflow : public std::exception {};

const Expr* exprAt(uint32_t id);
const Expr* integer(int64_t value);
const Expr* symbol(int64_t number);
const Expr* truth(bool value);
// These throw Overflow. Division and remainder assume that the divisor is not 0: who builds them from a program's
// values guards that.
const Expr* add(const Expr* left, const Expr* right);
const Expr* subtract(const Expr* left, const Expr* right);
const Expr* multiply(const Expr* left, const Expr* right);
const Expr* floorDiv(const Expr* left, const Expr* right);
const Expr* mod(const Expr* left, const Expr* right);
const Expr* power(const Expr* base, const Expr* exponent);
const Expr* least(const Expr* left, const Expr* right);
const Expr* greatest(const Expr* left, const Expr* right);
const Expr* equal(const Expr* left, const Expr* right);
const Expr* lessOrEqual(const Expr* left, const Expr* right);
const Expr* lessThan(const Expr* left, const Expr* right);
const Expr* logicalNot(const Expr* operand);
const Expr* logicalAnd(const Expr* left, const Expr* right);
const Expr* logicalOr(const Expr* left, const Expr* right);

// The same expression with other arguments: `replace(number)` gives the expression for a symbol, or null to keep it.
// Throws Overflow.
template <class Replace>
const Expr* substitute(const Expr* expr, Replace&& replace);
const Expr* rebuild(const Expr* expr, const std::vector<const Expr*>& parts);  // of the same kind

// The value, given the symbols'; nothing where a value overflows, a divisor is 0 or an exponent negative. Truth values
// are 0 and 1.
std::optional<int64_t> evaluate(const Expr* expr, const int64_t* symbols, size_t count);

// A Python expression: `4*s0 + s1//2`, `s0 % 8 == 0`, `max(s0, 2) <= s1`. `name(number)` names a symbol; null: s0, s1
// ...
using NameOf = std::string (*)(int64_t number, const void* context);
std::string text(const Expr* expr, NameOf name = nullptr, const void* context = nullptr);
// Null: not of this language. Throws Overflow.
const Expr* parse(std::string_view text);

std::vector<int64_t> symbolsIn(const Expr* expr);

template <class Replace>
const Expr* substitute(const Expr* expr, Replace&& replace) {
  if (expr->symbols == 0) return expr;
  if (expr->kind == Kind::kSymbol) {
    const Expr* other = replace(expr->number);
    return other != nullptr ? other : expr;
  }
  std::vector<const Expr*> parts;
  parts.reserve(expr->parts.size());
  bool changed = false;
  for (const Part& part : expr->parts) {
    parts.push_back(substitute(part.expr, replace));
    changed |= parts.back() != part.expr;
  }
  return changed ? rebuild(expr, parts) : expr;
}

}  // namespace stator::symbolic
