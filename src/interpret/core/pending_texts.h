// Texts of tensors that nobody has read yet. An f-string that goes into a check's message, or into a variable that is
// never used, need not be made: what stands for it may be kept in variables, handed to functions that are followed, and
// joined to others. Where it is looked at the trace starts over, and makes the text there and then (for a tensor that
// is a break).
#pragma once

#include "base/ref.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace stator::interpret {

class Tracer;

// What stands for one: the instructions that would have made its parts, by their count.
struct PendingText {
  PyObject_HEAD
  std::vector<uint64_t>* made_at;
};

bool isPendingText(PyObject* object);
Ref<> joinPending(const std::vector<PyObject*>& parts);  // a longer one

class PendingTexts {
 public:
  explicit PendingTexts(std::vector<uint64_t> read) : read_(std::move(read)) {}

  bool any() const { return any_; }
  // Of the instruction with this count; null: an earlier trace has seen it read.
  Ref<> make(uint64_t instruction);
  void noteRead(PyObject* text);
  const std::vector<uint64_t>& read() const { return read_; }

 private:
  bool any_ = false;
  std::vector<uint64_t> read_;
};

}  // namespace stator::interpret
