// What one capture knows of its symbols: the value each had (its hint), the range it may have, and what was found
// equal. A question that neither settles is answered by the hints; the answer is recorded as a condition that later
// calls have to meet.
#pragma once

#include "symbolic/expr.h"

#include <map>
#include <unordered_set>
#include <vector>

namespace stator::symbolic {

// Beyond this a bound says nothing.
constexpr int64_t kUnbounded = int64_t{1} << 62;

struct Range {
  int64_t low = -kUnbounded;
  int64_t high = kUnbounded;
  bool operator==(const Range&) const = default;
};

// A question about a symbol that has no value yet: nothing can be decided on it while tracing.
class Undecided : public std::exception {
 public:
  explicit Undecided(const Expr* asked) : condition(asked) {}
  const Expr* const condition;
};

struct Decision {
  const Expr* condition;  // true for the hints
  const void* where;      // what `WhereNow` said when it was taken
};

class Environment {
 public:
  Environment();
  // No other environment of this process has had it.
  uint64_t number() const { return number_; }
  // A new symbol. 0 and 1 are no symbols: a size of 1 broadcasts, an empty tensor has no strides worth the name.
  const Expr* addSymbol(int64_t hint, Range range);
  // One whose value is known when the graph runs, not before: no hint, and every question that its range leaves open is
  // Undecided.
  const Expr* addUnbacked(Range range, int64_t example = 0);
  bool hasUnbacked(const Expr* expr) const;
  size_t symbolCount() const { return hints_.size(); }
  const std::vector<int64_t>& hints() const { return hints_; }
  Range rangeOf(const Expr* expr) const;
  // The expression with all that is known to be equal put in. Overflow leaves it as it is.
  const Expr* simplify(const Expr* expr) const;
  // Settled for all values that the decisions so far leave; nothing: it depends.
  std::optional<bool> known(const Expr* condition) const;
  // Settles it by the hints, if need be, and records that.
  bool decide(const Expr* condition);
  // The same for a rule that works on sizes: one without a value counts as neither 0 nor 1, which nobody has to check.
  bool decideSize(const Expr* condition);
  // The same where the operation itself raises if it does not hold: a size without a value is trusted.
  bool expect(const Expr* condition);
  // The value under the hints, which becomes the only one. Nothing: it is too large for 64 bits, or not defined.
  std::optional<int64_t> specialise(const Expr* expr);
  std::optional<int64_t> hintOf(const Expr* expr) const;
  const std::vector<Decision>& decisions() const { return decisions_; }
  // Takes over what another capture, or a backend, decided.
  void assume(const Expr* condition);

  // Where the program is at present, for messages.
  using WhereNow = const void* (*)(void* context);
  void setWhere(WhereNow where, void* context) {
    where_ = where;
    where_context_ = context;
  }

  // Of this thread, while a capture runs.
  static Environment* current();
  class Scope {
   public:
    explicit Scope(Environment* environment);
    ~Scope();
    Scope(const Scope&) = delete;

   private:
    Environment* outer_;
  };

 private:
  void fix(const Expr* expr);
  void learn(const Expr* condition);
  bool solve(const Expr* sum);  // sum == 0: one symbol is expressed by the others
  void bound(const Expr* form, Range range);
  Range structuralRange(const Expr* expr) const;
  Range factoredRange(const Expr* sum) const;

  uint64_t number_;
  std::vector<int64_t> hints_;
  std::vector<Range> ranges_;
  std::vector<const Expr*> replacements_;  // by symbol; null: none
  uint64_t replaced_ = 0;                  // as Expr::symbols
  uint64_t unbacked_ = 0;                  // likewise
  std::vector<bool> is_unbacked_;
  std::map<const Expr*, Range> forms_;  // sums without constant, the first coefficient positive
  std::unordered_set<const Expr*> facts_;
  std::vector<Decision> decisions_;
  WhereNow where_ = nullptr;
  void* where_context_ = nullptr;
};

}  // namespace stator::symbolic
