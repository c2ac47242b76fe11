// What captures learned: which sizes and ints of a function turned dynamic, kept from process to process by the
// function's content (docs/CACHE.md), so that a later process captures it so at once.
#pragma once

#include "base/python.h"
#include "guards/guard.h"
#include "runtime/cache.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace stator::runtime {

// Of one code object.
struct Learned {
  struct Item {
    std::string dims;  // of a tensor: '1' for each dynamic dim, '0' for others; "n": a number
    std::string name;  // for people
    bool operator==(const Item&) const = default;
  };
  // by offset and source
  using Items = std::map<std::pair<int, uint64_t>, Item>;
  // One line for each; what is no such line is left out.
  static Items parse(std::string_view text);
  static std::string text(const Items& items);
  // What is dynamic in one of the two is so in both.
  static void merge(Items& into, const Items& from);

  Items items;
  std::string folder;  // empty: not kept on the disk
  std::string key;     // of the file there
};

// What a code object is, whichever process it is in: its instructions, names and constants, not its file or line.
std::string contentOf(PyCodeObject* code);

// Before a place's first capture: what is known of it, from the disk or from the file that the backend came with
// (stator.load).
void recall(Cache& cache, PyCodeObject* code, int offset);
bool isAutomatic(const Cache& cache);  // sizes and numbers that changed are dynamic
// Behind a later capture: what turned dynamic there is kept, on the disk too.
void remember(Cache& cache, PyCodeObject* code, int offset, const guards::Relations& relations);

}  // namespace stator::runtime
