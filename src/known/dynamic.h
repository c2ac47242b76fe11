// Which sizes and ints of one place of a program are symbols: what earlier captures there saw, and what the user asks
// for.
#pragma once

#include "base/python.h"
#include "sources/source.h"

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace stator::known {

enum class DynamicMode : uint8_t {
  kStatic,     // dynamic=False: only what is marked
  kAutomatic,  // what changed since the last capture of the same place
  kAll,        // dynamic=True
};

// What the captures of one place saw, by source. A source keeps its number from capture to capture (sourceKey),
// whatever set it is in.
class DynamicHistory {
 public:
  struct Seen {
    std::vector<int64_t> sizes;
    std::vector<bool> dynamic;  // by dim
    int64_t number = 0;         // of an int, or the hash of a tuple
    bool has_number = false;
    bool number_changed = false;
    bool keeps_value = false;  // a float that the backend could not take as an input
    int64_t pinned = 0;        // the last number that a capture relied on, and how many there were
    int times_pinned = 0;
    bool unsteady = false;  // many entries failed by what they guard of it
  };
  // How often a capture has taken an iterator over before it was found not to serve.
  static constexpr int64_t kMostTakenOver = 4;
  Seen& at(uint64_t key) { return seen_[key]; }
  Seen* find(uint64_t key) {
    auto found = seen_.find(key);
    return found == seen_.end() ? nullptr : &found->second;
  }
  const Seen* find(uint64_t key) const {
    auto found = seen_.find(key);
    return found == seen_.end() ? nullptr : &found->second;
  }
  void clear() { seen_.clear(); }
  // Whether a capture takes this iterator, which has begun outside, over. `repeats`: the capture that made this history
  // is made once more.
  bool takesOver(uint64_t iterator, bool repeats) {
    int64_t& times = at(iterator).number;
    return repeats ? times <= kMostTakenOver : times++ < kMostTakenOver;
  }

 private:
  std::unordered_map<uint64_t, Seen> seen_;
};

uint64_t sourceKey(const sources::Source& source);

// A dim that the user wants dynamic: an error if the program makes it static.
struct DynamicDemand {
  int64_t symbol;
  const sources::Source* source;
  int64_t dim;
};

}  // namespace stator::known
