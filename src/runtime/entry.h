// What the ways to serve a call from an entry share: with the frame there (entry.cpp) and without one (direct_call.cpp).
#pragma once

#include "runtime/cache.h"

#include <vector>

namespace stator::runtime {

// References for the time of one run, in memory that the next one uses again.
class References {
 public:
  References() {
    if (spare.empty()) return;
    values_ = std::move(spare.back());
    spare.pop_back();
  }
  ~References() {
    values_.clear();  // may run code
    if (spare.size() < kSpare) spare.push_back(std::move(values_));
  }
  References(const References&) = delete;
  References& operator=(const References&) = delete;
  std::vector<Ref<>>& operator*() { return values_; }

 private:
  static constexpr size_t kSpare = 16;
  static inline std::vector<std::vector<Ref<>>> spare;
  std::vector<Ref<>> values_;
};

inline std::vector<PyObject*> borrowed(const std::vector<Ref<>>& values) {
  std::vector<PyObject*> out;
  out.reserve(values.size());
  for (const Ref<>& value : values) out.push_back(value.get());
  return out;
}

// `inputs` gets the graph's, as the guards found them.
inline bool guardsHold(Entry& entry, const sources::Roots& roots, std::vector<Ref<>>& inputs) {
  return entry.guards->check(roots, inputs) ||
         (entry.same_modules != nullptr && entry.same_modules->check(roots, inputs));
}

inline bool memoryHolds(Entry& entry, const std::vector<Ref<>>& values) {
  return entry.memory == nullptr || entry.memory->holds(borrowed(values));
}

}  // namespace stator::runtime
