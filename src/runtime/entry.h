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

// The graph's inputs, as an entry's guards find them.
struct GraphInputs {
  std::vector<PyObject*> values;
  std::vector<Ref<>> owned;  // what came into being by the asking, and with `hold` all of them
  // Whether the entry serves.
  bool found(Entry& entry, const sources::Roots& roots) {
    return (guardsHold(*entry.guards, roots) ||
            (entry.same_modules != nullptr && guardsHold(*entry.same_modules, roots))) &&
           memoryHolds(entry);
  }
  bool guardsHold(guards::GuardProgram& guards, const sources::Roots& roots) {
    owned.clear();
    return guards.check(roots, values, owned);
  }
  bool memoryHolds(const Entry& entry) const {
    return entry.memory == nullptr || entry.memory->holds(values);
  }
  // Before anything runs that could drop them; a function of Python's takes references of its own at once.
  void hold() {
    owned.reserve(owned.size() + values.size());
    for (PyObject* value : values) owned.push_back(newRef(value));
  }
  void clear() {
    values.clear();
    owned.clear();
  }
};

}  // namespace stator::runtime
