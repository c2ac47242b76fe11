// What one rank saw at one point where ranks have to agree.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stator::dist {

constexpr size_t kMostValues = 4096;     // sizes and ints that take part in the comparison
constexpr int64_t kDynamic = INT64_MIN;  // in place of a size or int that is no constant any more

// What the ranks agree about.
enum class Topic : uint8_t {
  kCapture,  // a trace has ended
  kBackend,  // the backend has compiled its graph, or failed to
  kGuards,   // entries have been looked up
};

enum class Outcome : uint8_t {
  kGraph,    // calls were captured
  kNoGraph,  // nothing to call: only Python, or nothing at all
  kFailed,   // no capture: an error of the program's or of stator's
  kHit,      // kGuards
  kMiss,
};

// Sizes of a tensor, or the ints of a tuple, or one int.
struct Item {
  std::string source;
  std::vector<int64_t> values;
};

struct Record {
  int64_t rank = 0;
  Topic topic = Topic::kCapture;
  Outcome outcome = Outcome::kNoGraph;
  std::string site;  // where the capture began: file, function, line, offset
  // "returns", or the place and reason of the break; an error's text for kFailed
  std::string exit;
  uint64_t structure = 0;  // of the graph: its calls without numbers, sizes and devices
  uint64_t guards = 0;     // what is guarded, in order, without the values
  int64_t calls = 0;
  std::vector<Item> items;
};

}  // namespace stator::dist
