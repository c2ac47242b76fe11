// Effects that the plan carries out beside the writes that the value table knows: caches, calls that are left to a
// library, random draws.
#pragma once

#include "base/ref.h"
#include "breaks/plan.h"

#include <cstdint>
#include <unordered_set>
#include <utility>
#include <vector>

namespace stator::values {
struct Info;
}

namespace stator::interpret {

class Effects {
 public:
  struct LruUse {
    Ref<> cache, key, value;  // value null: a hit
  };
  struct LateCall {
    PyObject* function;  // borrowed: lives as long as the process
    std::vector<Ref<>> arguments;
    bool changes_first = false;  // the first argument, in a way that the trace does not follow
  };

  // Writes so far to objects that are older than the call being folded.
  uint64_t count() const { return count_; }
  void note() { ++count_; }
  // What was there before the trace and is written to, or about to be.
  const std::unordered_set<values::Info*>& written() const { return written_; }
  void write(values::Info* info) { written_.insert(info); }

  const std::vector<LruUse>& lruUses() const { return lru_uses_; }  // in the order of the calls
  void useLru(LruUse use) { lru_uses_.push_back(std::move(use)); }
  // Left to a function of a library, which runs none of the program's code.
  const std::vector<LateCall>& lateCalls() const { return late_calls_; }
  void callLate(LateCall call) { late_calls_.push_back(std::move(call)); }
  bool changesLater(PyObject* object) const {
    for (const LateCall& call : late_calls_) {
      if (call.changes_first && call.arguments[0].get() == object) return true;
    }
    return false;
  }
  // The same before all other effects: what was written before is asked for where one is noted, what is written behind
  // comes behind.
  const std::vector<LateCall>& firstCalls() const { return first_calls_; }
  void callFirst(LateCall call) { first_calls_.push_back(std::move(call)); }

  // The trace has changed facts of a tensor that was there before: sizes, memory, whether it needs gradients. A graph
  // that fails behind that cannot be followed by a second trace, which would see others.
  bool changedFacts() const { return changed_facts_; }
  void noteChangedFacts() { changed_facts_ = true; }

  const std::vector<breaks::Draw>& draws() const { return draws_; }  // in the order of the program
  void draw(breaks::Draw draw) { draws_.push_back(std::move(draw)); }
  std::vector<breaks::Draw> takeDraws() { return std::move(draws_); }
  // Some operation so far draws random numbers.
  bool drewRandom() const { return drew_random_; }
  void noteRandom() { drew_random_ = true; }

 private:
  uint64_t count_ = 0;
  std::unordered_set<values::Info*> written_;
  std::vector<LruUse> lru_uses_;
  std::vector<LateCall> late_calls_, first_calls_;
  std::vector<breaks::Draw> draws_;
  bool drew_random_ = false, changed_facts_ = false;
};

}  // namespace stator::interpret
