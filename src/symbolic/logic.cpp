// Comparisons and truth values.
#include "base/check.h"
#include "symbolic/expr.h"
#include "symbolic/intern.h"

#include <algorithm>
#include <numeric>

namespace stator::symbolic {

namespace {

// The greatest common divisor of the coefficients, the constant apart.
int64_t commonFactor(const Expr* sum) {
  if (sum->kind != Kind::kSum) return 1;
  int64_t factor = 0;
  for (const Part& part : sum->parts) {
    if (part.number == INT64_MIN) return 1;
    factor = std::gcd(factor, part.number);
  }
  return factor;
}

int64_t constantOf(const Expr* sum) { return sum->kind == Kind::kSum ? sum->number : 0; }

const Expr* scaled(const Expr* sum, int64_t by, int64_t constant) {
  if (sum->kind != Kind::kSum) return sum;
  const Expr* result = integer(constant);
  for (const Part& part : sum->parts)
    result = add(result, multiply(integer(part.number / by), part.expr));
  return result;
}

const Expr* connect(Kind kind, const Expr* left, const Expr* right) {
  const int64_t neutral = kind == Kind::kAnd ? 1 : 0;
  std::vector<Part> parts;
  for (const Expr* side : {left, right}) {
    STATOR_CHECK(side->isTruth());
    if (side->kind == Kind::kBool) {
      if (side->number != neutral) return side;
      continue;
    }
    std::vector<Part> own = side->kind == kind ? side->parts : std::vector<Part>{{0, side}};
    for (const Part& part : own) {
      if (std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
    }
  }
  if (parts.empty()) return truth(neutral != 0);
  if (parts.size() == 1) return parts[0].expr;
  for (const Part& part : parts) {
    const Expr* opposite = logicalNot(part.expr);
    if (std::find(parts.begin(), parts.end(), Part{0, opposite}) != parts.end())
      return truth(neutral == 0);
  }
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return before(a.expr, b.expr); });
  return intern(kind, 0, std::move(parts));
}

}  // namespace

const Expr* equal(const Expr* left, const Expr* right) {
  if (left == right) return truth(true);
  const Expr* gap = subtract(left, right);
  if (gap->isInt()) return truth(gap->number == 0);
  const int64_t factor = commonFactor(gap);
  if (constantOf(gap) % factor != 0) return truth(false);
  gap = scaled(gap, factor, constantOf(gap) / factor);
  const bool negative = gap->kind == Kind::kSum && gap->parts[0].number < 0;
  if (negative) gap = multiply(integer(-1), gap);
  return intern(Kind::kEq, 0, {{0, gap}});
}

const Expr* lessOrEqual(const Expr* left, const Expr* right) {
  const Expr* gap = subtract(left, right);
  if (gap->isInt()) return truth(gap->number <= 0);
  const int64_t factor = commonFactor(gap), constant = constantOf(gap);
  // The constant rounded up: the sum of the others is a multiple of the factor.
  int64_t rounded = constant / factor;
  if (constant % factor > 0) ++rounded;
  return intern(Kind::kLe, 0, {{0, scaled(gap, factor, rounded)}});
}

const Expr* lessThan(const Expr* left, const Expr* right) {
  return lessOrEqual(add(left, integer(1)), right);
}

const Expr* logicalNot(const Expr* operand) {
  STATOR_CHECK(operand->isTruth());
  switch (operand->kind) {
    case Kind::kBool:
      return truth(operand->number == 0);
    case Kind::kNot:
      return operand->parts[0].expr;
    case Kind::kLe:
      return lessThan(integer(0), operand->parts[0].expr);
    case Kind::kAnd:
    case Kind::kOr: {
      const Expr* result = nullptr;
      for (const Part& part : operand->parts) {
        const Expr* turned = logicalNot(part.expr);
        result = result == nullptr             ? turned
                 : operand->kind == Kind::kAnd ? logicalOr(result, turned)
                                               : logicalAnd(result, turned);
      }
      return result;
    }
    default:
      return intern(Kind::kNot, 0, {{0, operand}});
  }
}

const Expr* logicalAnd(const Expr* left, const Expr* right) {
  return connect(Kind::kAnd, left, right);
}
const Expr* logicalOr(const Expr* left, const Expr* right) {
  return connect(Kind::kOr, left, right);
}

const Expr* rebuild(const Expr* expr, const std::vector<const Expr*>& parts) {
  const Expr* result = nullptr;
  switch (expr->kind) {
    case Kind::kSum:
      result = integer(expr->number);
      for (size_t i = 0; i < parts.size(); ++i)
        result = add(result, multiply(integer(expr->parts[i].number), parts[i]));
      return result;
    case Kind::kProduct:
      result = integer(1);
      for (size_t i = 0; i < parts.size(); ++i)
        result = multiply(result, power(parts[i], integer(expr->parts[i].number)));
      return result;
    case Kind::kFloorDiv:
      return floorDiv(parts[0], parts[1]);
    case Kind::kMod:
      return mod(parts[0], parts[1]);
    case Kind::kPow:
      return power(parts[0], parts[1]);
    case Kind::kEq:
      return equal(parts[0], integer(0));
    case Kind::kLe:
      return lessOrEqual(parts[0], integer(0));
    case Kind::kNot:
      return logicalNot(parts[0]);
    case Kind::kMin:
    case Kind::kMax:
    case Kind::kAnd:
    case Kind::kOr:
      for (const Expr* part : parts) {
        if (result == nullptr) {
          result = part;
        } else {
          switch (expr->kind) {
            case Kind::kMin:
              result = least(result, part);
              break;
            case Kind::kMax:
              result = greatest(result, part);
              break;
            case Kind::kAnd:
              result = logicalAnd(result, part);
              break;
            default:
              result = logicalOr(result, part);
          }
        }
      }
      return result;
    default:
      return expr;
  }
}

}  // namespace stator::symbolic
