// How far a trace may go: instructions counted, limits looked at, breaks forced. Only the loop over instructions moves it on.
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
  uint64_t watched() const { return watched_; }     // those of watched code
  void step(const bytecode::CodeInfo& code, const bytecode::Instr& instr);
  // A break was asked for here: at this instruction, or behind it where it lay inside of a function that was run from C++.
  bool breakAsked(const bytecode::Instr& instr) const;
  // A break is to be forced before this instruction; asked once for each.
  bool breakForced(const bytecode::Instr& instr);
  // No instruction may follow. A program that goes on and on without touching a tensor is not worth following; one that does is, for as
  // long as it makes nodes. `slack`: inside of a function run from C++, where the trace cannot end.
  bool spent(const bytecode::Instr& instr, size_t nodes);
  bool spentInside(size_t nodes);
  // Every few thousand instructions: signals and the clock. Throws PythonError if a signal's handler raised.
  void look();

 private:
  bool over(size_t nodes);

  Limits limits_;
  uint64_t break_every_, break_at_;
  bool random_;
  uint64_t random_state_;
  std::chrono::steady_clock::time_point started_;
  uint64_t count_ = 0;
  uint64_t watched_ = 0;
  uint64_t legal_ = 0;
  uint64_t next_check_ = 0;  // the instruction at which limits are looked at next
  size_t nodes_at_check_ = 0;
};

}  // namespace stator::interpret
