// A size, stride or offset: a number, or the handle of an expression over the capture's symbols. Arithmetic and
// comparison of numbers are those of int64_t, inline; with a symbol they go through the capture's Environment, where a
// comparison that is open is decided by the hints and recorded. Without a capture (no Environment) there are no
// symbols.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>

namespace stator::symbolic {

struct Expr;

class Dim {
 public:
  constexpr Dim() = default;
  template <std::integral T>
  constexpr Dim(T number) : bits_(static_cast<int64_t>(number)) {}  // NOLINT: a number is a size
  static Dim of(const Expr* expr);  // a constant expression becomes a number

  constexpr bool isStatic() const { return bits_ >= kFirstNumber; }
  const Expr* expr() const;
  // The number; a symbol becomes static: its value now is the only one from here on.
  int64_t value() const { return isStatic() ? bits_ : specialised(); }
  int64_t hint() const { return isStatic() ? bits_ : hintSlow(); }
  // As it is, for keys and for comparing facts: equal expressions have equal bits.
  constexpr int64_t bits() const { return bits_; }
  constexpr bool identical(Dim other) const { return bits_ == other.bits_; }
  std::string text() const;

  friend Dim operator+(Dim a, Dim b) {
    return bothStatic(a, b) ? Dim(a.bits_ + b.bits_) : slow(a, b, '+');
  }
  friend Dim operator-(Dim a, Dim b) {
    return bothStatic(a, b) ? Dim(a.bits_ - b.bits_) : slow(a, b, '-');
  }
  friend Dim operator*(Dim a, Dim b) {
    return bothStatic(a, b) ? Dim(a.bits_ * b.bits_) : slow(a, b, '*');
  }
  Dim operator-() const { return isStatic() ? Dim(-bits_) : slow(Dim(0), *this, '-'); }
  Dim& operator+=(Dim other) { return *this = *this + other; }
  Dim& operator-=(Dim other) { return *this = *this - other; }
  Dim& operator*=(Dim other) { return *this = *this * other; }
  // Python's: rounds down. The divisor may not be 0.
  friend Dim floorDiv(Dim a, Dim b) {
    if (!bothStatic(a, b)) return slow(a, b, '/');
    const int64_t quotient = a.bits_ / b.bits_;
    return Dim((a.bits_ % b.bits_ != 0 && ((a.bits_ < 0) != (b.bits_ < 0))) ? quotient - 1
                                                                            : quotient);
  }
  friend Dim floorMod(Dim a, Dim b) {
    return bothStatic(a, b) ? a - floorDiv(a, b) * b : slow(a, b, '%');
  }

  // Of sizes, which are not negative: down and towards 0 are the same there.
  friend Dim operator/(Dim a, Dim b) {
    return bothStatic(a, b) ? Dim(a.bits_ / b.bits_) : slow(a, b, '/');
  }
  friend Dim operator%(Dim a, Dim b) {
    return bothStatic(a, b) ? Dim(a.bits_ % b.bits_) : slow(a, b, '%');
  }
  Dim& operator/=(Dim other) { return *this = *this / other; }
  Dim& operator++() { return *this = *this + 1; }
  Dim& operator--() { return *this = *this - 1; }

  // a == b, where the operation raises otherwise.
  friend bool expectEqual(Dim a, Dim b) {
    return bothStatic(a, b) ? a.bits_ == b.bits_ : expectSlow(a, b);
  }
  friend bool operator==(Dim a, Dim b) {
    return bothStatic(a, b) ? a.bits_ == b.bits_ : equalSlow(a, b);
  }
  friend bool operator<(Dim a, Dim b) {
    return bothStatic(a, b) ? a.bits_ < b.bits_ : lessSlow(a, b);
  }
  friend bool operator>(Dim a, Dim b) { return b < a; }
  friend bool operator<=(Dim a, Dim b) { return !(b < a); }
  friend bool operator>=(Dim a, Dim b) { return !(a < b); }

 private:
  // The lowest numbers are handles: no size, stride or offset comes near them.
  static constexpr int64_t kFirstNumber = INT64_MIN + (int64_t{1} << 32);
  static bool bothStatic(Dim a, Dim b) { return a.isStatic() && b.isStatic(); }
  static Dim slow(Dim a, Dim b, char operation);
  static bool equalSlow(Dim a, Dim b);
  static bool lessSlow(Dim a, Dim b);
  static bool expectSlow(Dim a, Dim b);
  int64_t specialised() const;
  int64_t hintSlow() const;

  int64_t bits_ = 0;
};

}  // namespace stator::symbolic
