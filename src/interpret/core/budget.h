// How far a trace may go: instructions counted, limits looked at, breaks forced. Only the loop over instructions moves
// it on.
#pragma once

#include "bytecode/code_info.h"
#include "interpret/core/trace_options.h"

#include <chrono>
#include <cstdint>

namespace stator::interpret {

class Budget {
 public:
  explicit Budget(const TraceOptions& options);

  uint64_t instructions() const { return count_; }  // so far
  uint64_t counted() const { return counted_; }     // those of counted code
  void step(const bytecode::CodeInfo& code, const bytecode::Instr& instr) {
    ++count_;
    if (code.counted) [[unlikely]]
      counted_ += bytecode::countedUnits(instr);
  }
  // A break was asked for here: at this instruction, or behind it where it lay inside of a function that was run from
  // C++.
  bool breakAsked(const bytecode::Instr& instr) const {
    return break_at_ != 0 && count_ >= break_at_ && (count_ == break_at_ || instr.legal_exit);
  }
  // A break is to be forced before this instruction; asked once for each.
  bool breakForced(const bytecode::Instr& instr) {
    return break_every_ != 0 && instr.legal_exit && nextBreakForced();
  }
  // No instruction may follow. A program that goes on and on without touching a tensor is not worth following; one that
  // does is, for as long as it makes nodes. Inside of a function run from C++, where the trace cannot end, it may go a
  // little further.
  bool spent(const bytecode::Instr& instr, size_t nodes) {
    if (count_ <= next_check_ && nodes <= limits_.nodes) return false;
    return instr.legal_exit && over(nodes);
  }
  bool spentInside(size_t nodes) {
    constexpr uint64_t kSlack = 100'000;
    return count_ > next_check_ + kSlack && over(nodes);
  }
  // Every few thousand instructions: signals and the clock. Throws PythonError if a signal's handler raised.
  void look() {
    constexpr uint64_t kEvery = 0x1000;
    if (count_ % kEvery == 0) [[unlikely]]
      lookNow();
  }

 private:
  bool nextBreakForced();
  bool over(size_t nodes);
  void lookNow();

  Limits limits_;
  uint64_t break_every_, break_at_;
  bool random_;
  uint64_t random_state_;
  std::chrono::steady_clock::time_point started_;
  uint64_t count_ = 0;
  uint64_t counted_ = 0;
  uint64_t legal_ = 0;
  uint64_t next_check_ = 0;  // the instruction at which limits are looked at next
  size_t nodes_at_check_ = 0;
};

}  // namespace stator::interpret
