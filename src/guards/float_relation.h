// What a comparison of floats has to give, each side computed from floats of the program, sizes and numbers.
#pragma once

#include "sources/source.h"
#include "symbolic/expr.h"

#include <cstdint>
#include <string>
#include <vector>

namespace stator::guards {

struct FloatTerm {
  enum class Kind : uint8_t {
    kSource,  // a float that is read there
    kNumber,
    kInt,  // of sizes and ints
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kNegative,
  };
  Kind kind;
  const sources::Source* source = nullptr;
  double number = 0;
  const symbolic::Expr* expr = nullptr;
};

struct FloatRelation {
  static constexpr size_t kLongest = 64;
  static constexpr int64_t kExactInt = int64_t{1} << 53;
  std::vector<FloatTerm> terms;  // both sides, operands before their operator
  int operation = 0;             // Py_LT ...
  bool expected = true;

  // `floats`: what was read, in the order of the terms. Not a number is another program: nothing that was decided holds
  // for it. Neither for ints that no double is equal to.
  bool holds(const double* floats, const int64_t* symbols, size_t count) const;
  // `nameOf`, `context`: of symbols, as symbolic::text asks.
  std::string text(symbolic::NameOf nameOf, const void* context, PyCodeObject* code) const;
};

// A float beside a number.
FloatRelation relationOf(const sources::Source* source, int operation, double number,
                         bool expected);

}  // namespace stator::guards
