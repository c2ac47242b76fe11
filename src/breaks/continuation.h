// What a caller does with the value of a callee that has a frame of its own, in the trace or behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace stator::breaks {

enum class Continuation : uint8_t {
  kPush,          // push it: a plain call, operator or attribute that runs Python code
  kDiscard,       // drop it (STORE_ATTR through __set__, STORE_SUBSCR through __setitem__, ...)
  kPushInstance,  // __init__: check that it is None, push `instance`
  kPushTruth,     // __bool__ and friends, where the instruction pushes a bool: push its truth
  kPushNotTruth,  // UNARY_NOT, `not in`
  // __bool__ or __len__ at a conditional jump: its truth decides (JUMP_IF_X_OR_POP: the operand is still there)
  kBranch,
};

inline constexpr const char* kContinuationNames[] = {
    "push", "discard", "push the instance", "push its truth", "push its untruth", "branch"};

inline const char* nameOf(Continuation continuation) {
  return kContinuationNames[static_cast<size_t>(continuation)];
}
inline std::optional<Continuation> continuationNamed(std::string_view name) {
  for (size_t i = 0; i < std::size(kContinuationNames); ++i) {
    if (name == kContinuationNames[i]) return static_cast<Continuation>(i);
  }
  return std::nullopt;
}

}  // namespace stator::breaks
