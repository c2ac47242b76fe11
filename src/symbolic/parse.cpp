// Reads the language that text() writes: Python's operators over integers, s<n>, min(), max(), True and False.
#include "symbolic/expr.h"

#include <cctype>
#include <charconv>

namespace stator::symbolic {

namespace {

struct Failed : std::exception {};

// One function for each level of Python's grammar. Failed ends the whole.
class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  const Expr* all() {
    const Expr* result = disjunction();
    skip();
    if (!rest_.empty()) throw Failed();
    return result;
  }

 private:
  void skip() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }

  bool take(std::string_view token) {
    skip();
    if (!rest_.starts_with(token)) return false;
    const bool word = std::isalpha(static_cast<unsigned char>(token.front())) != 0;
    if (word && rest_.size() > token.size() &&
        std::isalnum(static_cast<unsigned char>(rest_[token.size()])) != 0)
      return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  void expect(std::string_view token) {
    if (!take(token)) throw Failed();
  }

  static const Expr* number(const Expr* expr) {
    if (expr->isTruth()) throw Failed();
    return expr;
  }
  static const Expr* truthful(const Expr* expr) {
    if (!expr->isTruth()) throw Failed();
    return expr;
  }

  const Expr* disjunction() {
    const Expr* left = conjunction();
    while (take("or")) left = logicalOr(truthful(left), truthful(conjunction()));
    return left;
  }

  const Expr* conjunction() {
    const Expr* left = negation();
    while (take("and")) left = logicalAnd(truthful(left), truthful(negation()));
    return left;
  }

  const Expr* negation() {
    if (take("not")) return logicalNot(truthful(negation()));
    return comparison();
  }

  const Expr* comparison() {
    const Expr* left = sum();
    if (take("==")) return equal(number(left), number(sum()));
    if (take("!=")) return logicalNot(equal(number(left), number(sum())));
    if (take("<=")) return lessOrEqual(number(left), number(sum()));
    if (take(">=")) return lessOrEqual(number(sum()), number(left));
    if (take("<")) return lessThan(number(left), number(sum()));
    if (take(">")) return lessThan(number(sum()), number(left));
    return left;
  }

  const Expr* sum() {
    const Expr* left = product();
    for (;;) {
      if (take("+")) {
        left = add(number(left), number(product()));
      } else if (take("-")) {
        left = subtract(number(left), number(product()));
      } else {
        return left;
      }
    }
  }

  const Expr* product() {
    const Expr* left = signedTerm();
    for (;;) {
      skip();
      if (rest_.starts_with("**")) return left;
      if (take("*")) {
        left = multiply(number(left), number(signedTerm()));
      } else if (take("//")) {
        left = floorDiv(number(left), number(signedTerm()));
      } else if (take("%")) {
        left = mod(number(left), number(signedTerm()));
      } else {
        return left;
      }
    }
  }

  const Expr* signedTerm() {
    if (take("-")) return multiply(integer(-1), number(signedTerm()));
    const Expr* base = atom();
    if (take("**")) return power(number(base), number(signedTerm()));
    return base;
  }

  const Expr* extreme(const Expr* (*combine)(const Expr*, const Expr*)) {
    expect("(");
    const Expr* result = number(disjunction());
    while (take(",")) result = combine(result, number(disjunction()));
    expect(")");
    return result;
  }

  int64_t digits() {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error == std::errc::result_out_of_range) throw Overflow();
    if (error != std::errc()) throw Failed();
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }

  const Expr* atom() {
    skip();
    if (take("(")) {
      const Expr* inner = disjunction();
      expect(")");
      return inner;
    }
    if (take("True")) return truth(true);
    if (take("False")) return truth(false);
    if (take("min")) return extreme(least);
    if (take("max")) return extreme(greatest);
    if (rest_.empty()) throw Failed();
    if (rest_.front() == 's') {
      rest_.remove_prefix(1);
      return symbol(digits());
    }
    return integer(digits());
  }

  std::string_view rest_;
};

}  // namespace

const Expr* parse(std::string_view text) {
  try {
    return Parser(text).all();
  } catch (const Failed&) {
    return nullptr;
  }
}

}  // namespace stator::symbolic
