// What the ways to serve a call from an entry share: with the frame there (entry.cpp) and without one (direct_call.cpp).
#pragma once

#include "runtime/cache.h"

#include <vector>

namespace stator::runtime {

// Something for the time of one run, in memory that the next one uses again.
template <class T>
class Spare {
 public:
  Spare() {
    if (spare.empty()) return;
    value_ = std::move(spare.back());
    spare.pop_back();
  }
  ~Spare() {
    value_.clear();  // may run code
    if (spare.size() < kMost) spare.push_back(std::move(value_));
  }
  Spare(const Spare&) = delete;
  Spare& operator=(const Spare&) = delete;
  T& operator*() { return value_; }

 private:
  static constexpr size_t kMost = 16;
  static inline std::vector<T> spare;
  T value_;
};
using References = Spare<std::vector<Ref<>>>;

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

// The graph's inputs without references of their own: for a callable that takes its own at once.
struct BorrowedInputs {
  std::vector<PyObject*> values;
  std::vector<Ref<>> made;
  bool found(Entry& entry, const sources::Roots& roots) {
    made.clear();
    return (entry.guards->check(roots, values, made) ||
            (entry.same_modules != nullptr && entry.same_modules->check(roots, values, made))) &&
           (entry.memory == nullptr || entry.memory->holds(values));
  }
  // For a callable that does not.
  void hold() {
    for (PyObject* value : values) made.push_back(newRef(value));
  }
  void clear() {
    values.clear();
    made.clear();
  }
};

}  // namespace stator::runtime
