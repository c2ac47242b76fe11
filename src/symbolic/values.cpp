// What an expression is worth, and how it is written.
#include "base/check.h"
#include "symbolic/expr.h"

#include <algorithm>

namespace stator::symbolic {

namespace {

bool multiplyInto(int64_t& value, int64_t by) { return !__builtin_mul_overflow(value, by, &value); }

bool raise(int64_t base, int64_t exponent, int64_t& result) {
  if (exponent < 0) return false;
  result = 1;
  if (base == 0 || base == 1) {
    if (exponent > 0) result = base;
    return true;
  }
  if (base == -1) {
    result = exponent % 2 == 0 ? 1 : -1;
    return true;
  }
  for (; exponent > 0; --exponent) {
    if (!multiplyInto(result, base)) return false;
  }
  return true;
}

struct Evaluation {
  const int64_t* symbols;
  size_t count;

  bool run(const Expr* expr, int64_t& result) const {
    switch (expr->kind) {
      case Kind::kInt:
      case Kind::kBool:
        result = expr->number;
        return true;
      case Kind::kSymbol:
        if (static_cast<size_t>(expr->number) >= count) return false;
        result = symbols[expr->number];
        return true;
      case Kind::kSum: {
        result = expr->number;
        for (const Part& part : expr->parts) {
          int64_t term = 0;
          if (!run(part.expr, term) || !multiplyInto(term, part.number) ||
              __builtin_add_overflow(result, term, &result))
            return false;
        }
        return true;
      }
      case Kind::kProduct: {
        result = 1;
        for (const Part& part : expr->parts) {
          int64_t factor = 0, raised = 0;
          if (!run(part.expr, factor) || !raise(factor, part.number, raised) ||
              !multiplyInto(result, raised))
            return false;
        }
        return true;
      }
      case Kind::kFloorDiv:
      case Kind::kMod: {
        int64_t left = 0, right = 0;
        if (!run(expr->parts[0].expr, left) || !run(expr->parts[1].expr, right) || right == 0 ||
            (left == INT64_MIN && right == -1))
          return false;
        int64_t quotient = left / right, rest = left % right;
        if (rest != 0 && ((rest < 0) != (right < 0))) {
          --quotient;
          rest += right;
        }
        result = expr->kind == Kind::kMod ? rest : quotient;
        return true;
      }
      case Kind::kPow: {
        int64_t base = 0, exponent = 0;
        return run(expr->parts[0].expr, base) && run(expr->parts[1].expr, exponent) &&
               raise(base, exponent, result);
      }
      case Kind::kMin:
      case Kind::kMax:
        for (size_t i = 0; i < expr->parts.size(); ++i) {
          int64_t item = 0;
          if (!run(expr->parts[i].expr, item)) return false;
          result = i == 0                     ? item
                   : expr->kind == Kind::kMin ? std::min(result, item)
                                              : std::max(result, item);
        }
        return true;
      case Kind::kEq:
      case Kind::kLe: {
        int64_t sum = 0;
        if (!run(expr->parts[0].expr, sum)) return false;
        result = expr->kind == Kind::kEq ? sum == 0 : sum <= 0;
        return true;
      }
      case Kind::kAnd:
      case Kind::kOr: {
        result = expr->kind == Kind::kAnd ? 1 : 0;
        for (const Part& part : expr->parts) {
          int64_t item = 0;
          if (!run(part.expr, item)) return false;
          result = expr->kind == Kind::kAnd ? result & item : result | item;
        }
        return true;
      }
      case Kind::kNot:
        if (!run(expr->parts[0].expr, result)) return false;
        result = 1 - result;
        return true;
    }
    return false;
  }
};

// How tightly an operator binds, as Python's grammar has it.
enum Level {
  kLowest,
  kOrLevel,
  kAndLevel,
  kNotLevel,
  kCompare,
  kAddLevel,
  kMulLevel,
  kUnary,
  kPowLevel,
  kAtom
};

struct Printer {
  NameOf name;
  const void* context;

  std::string wrap(const std::string& inner, Level own, Level wanted) const {
    return own < wanted ? "(" + inner + ")" : inner;
  }

  std::string joined(const Expr* expr, const char* separator, Level level) const {
    std::string out;
    for (const Part& part : expr->parts) {
      if (!out.empty()) out += separator;
      out += print(part.expr, level);
    }
    return out;
  }

  std::string term(int64_t coefficient, const Expr* expr) const {
    if (coefficient == 1) return print(expr, kAddLevel);
    return std::to_string(coefficient) + "*" +
           print(expr, expr->kind == Kind::kProduct ? kMulLevel : kUnary);
  }

  // A sum compared with 0, the negative parts on the right.
  std::string comparison(const Expr* sum, const char* sign) const {
    if (sum->kind != Kind::kSum) return print(sum, kAddLevel) + " " + sign + " 0";
    std::string left, right;
    auto put = [&](std::string& side, const std::string& text) {
      side += (side.empty() ? "" : " + ") + text;
    };
    for (const Part& part : sum->parts) {
      if (part.number < 0 && part.number != INT64_MIN) {
        put(right, term(-part.number, part.expr));
      } else {
        put(left, term(part.number, part.expr));
      }
    }
    if (sum->number > 0) put(left, std::to_string(sum->number));
    if (sum->number < 0 && sum->number != INT64_MIN) put(right, std::to_string(-sum->number));
    if (sum->number == INT64_MIN) put(left, std::to_string(sum->number));
    return (left.empty() ? "0" : left) + " " + sign + " " + (right.empty() ? "0" : right);
  }

  std::string print(const Expr* expr, Level wanted) const {
    switch (expr->kind) {
      case Kind::kInt:
        return wrap(std::to_string(expr->number), expr->number < 0 ? kUnary : kAtom, wanted);
      case Kind::kBool:
        return expr->number != 0 ? "True" : "False";
      case Kind::kSymbol:
        return name != nullptr ? name(expr->number, context) : "s" + std::to_string(expr->number);
      case Kind::kSum: {
        std::string out;
        for (const Part& part : expr->parts) {
          if (out.empty()) {
            out = term(part.number, part.expr);
          } else if (part.number < 0 && part.number != INT64_MIN) {
            out += " - " + term(-part.number, part.expr);
          } else {
            out += " + " + term(part.number, part.expr);
          }
        }
        if (expr->number > 0) out += " + " + std::to_string(expr->number);
        if (expr->number < 0)
          out += expr->number == INT64_MIN ? " + " + std::to_string(expr->number)
                                           : " - " + std::to_string(-expr->number);
        const bool plain = expr->parts.size() == 1 && expr->number == 0;
        return wrap(out, plain ? kMulLevel : kAddLevel, wanted);
      }
      case Kind::kProduct: {
        std::string out;
        for (const Part& part : expr->parts) {
          if (!out.empty()) out += '*';
          out += part.number == 1 ? print(part.expr, kUnary)
                                  : print(part.expr, kAtom) + "**" + std::to_string(part.number);
        }
        return wrap(out, kMulLevel, wanted);
      }
      case Kind::kFloorDiv:
        // Never the right operand of an operator of the same level without brackets: 2*(s0//2).
        return wrap(print(expr->parts[0].expr, kUnary) + "//" + print(expr->parts[1].expr, kUnary),
                    kMulLevel, std::max(wanted, wanted == kMulLevel ? kUnary : wanted));
      case Kind::kMod:
        return wrap(print(expr->parts[0].expr, kUnary) + " % " + print(expr->parts[1].expr, kUnary),
                    kMulLevel, std::max(wanted, wanted == kMulLevel ? kUnary : wanted));
      case Kind::kPow:
        return wrap(print(expr->parts[0].expr, kAtom) + "**" + print(expr->parts[1].expr, kAtom),
                    kPowLevel, wanted);
      case Kind::kMin:
        return "min(" + joined(expr, ", ", kLowest) + ")";
      case Kind::kMax:
        return "max(" + joined(expr, ", ", kLowest) + ")";
      case Kind::kEq:
        return wrap(comparison(expr->parts[0].expr, "=="), kCompare, wanted);
      case Kind::kLe:
        return wrap(comparison(expr->parts[0].expr, "<="), kCompare, wanted);
      case Kind::kNot:
        if (expr->parts[0].expr->kind == Kind::kEq)
          return wrap(comparison(expr->parts[0].expr->parts[0].expr, "!="), kCompare, wanted);
        return wrap("not " + print(expr->parts[0].expr, kNotLevel), kNotLevel, wanted);
      case Kind::kAnd:
        return wrap(joined(expr, " and ", kNotLevel), kAndLevel, wanted);
      case Kind::kOr:
        return wrap(joined(expr, " or ", kAndLevel), kOrLevel, wanted);
    }
    return "?";
  }
};

void collect(const Expr* expr, std::vector<int64_t>& out) {
  if (expr->symbols == 0) return;
  if (expr->kind == Kind::kSymbol && std::find(out.begin(), out.end(), expr->number) == out.end())
    out.push_back(expr->number);
  for (const Part& part : expr->parts) collect(part.expr, out);
}

}  // namespace

std::optional<int64_t> evaluate(const Expr* expr, const int64_t* symbols, size_t count) {
  int64_t result = 0;
  if (!Evaluation{symbols, count}.run(expr, result)) return std::nullopt;
  return result;
}

std::string text(const Expr* expr, NameOf name, const void* context) {
  return Printer{name, context}.print(expr, kLowest);
}

std::vector<int64_t> symbolsIn(const Expr* expr) {
  std::vector<int64_t> found;
  collect(expr, found);
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace stator::symbolic
