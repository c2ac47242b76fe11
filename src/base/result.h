// Result<T>: a rule either answers or does not apply; the caller chooses the fallback.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace stator {

struct NotApplicable {
  std::string why;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(NotApplicable no) : no_(std::move(no)) {}
  explicit operator bool() const { return value_.has_value(); }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  const NotApplicable& failure() const { return no_; }

 private:
  std::optional<T> value_;
  NotApplicable no_;
};

}  // namespace stator

#define STATOR_TRY_CAT2(a, b) a##b
#define STATOR_TRY_CAT(a, b) STATOR_TRY_CAT2(a, b)
#define STATOR_TRY(declaration, expression)                                                   \
  auto STATOR_TRY_CAT(result_, __LINE__) = (expression);                                      \
  if (!STATOR_TRY_CAT(result_, __LINE__)) return STATOR_TRY_CAT(result_, __LINE__).failure(); \
  declaration = std::move(*STATOR_TRY_CAT(result_, __LINE__))
