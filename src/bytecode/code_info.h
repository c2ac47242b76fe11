// A code object, decoded once: instructions with their EXTENDED_ARG prefixes folded in, jump targets, exception table,
// the offsets at which a frame may be entered, and which slots are still needed where. Cached in the code object's
// extra slot and freed with the code. Relies on the un-specialised form of the code: CPython rewrites instructions in
// place while it runs them, but not their meaning.
#pragma once

#include "base/python.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace stator::bytecode {

struct Instr {
  uint8_t opcode = 0;
  bool legal_exit = false;
  bool jump_target = false;
  int oparg = 0;   // as opcodes.def understands it, whatever the version: see python/instructions.h
  int offset = 0;  // where it begins, EXTENDED_ARG included: the place to enter at
  int opcode_offset = 0;  // of the opcode proper: what tracebacks and the exception table go by
  int next_offset = 0;    // of the instruction behind it and its inline caches
  int target = -1;        // jump target, or -1
};

struct Handler {
  int target = 0;
  int depth = 0;       // the stack is cut to this depth
  bool lasti = false;  // then the raising instruction's index is pushed, and then the exception
};

class CodeInfo {
 public:
  // Decoded at the first call. Null with a Python error set if there is no memory.
  static CodeInfo* of(PyCodeObject* code);
  explicit CodeInfo(PyCodeObject* code);

  const std::vector<Instr>& instrs() const { return instrs_; }
  // Index of the instruction that the offset belongs to (its start, its opcode, its EXTENDED_ARG prefixes); -1 for
  // anything else.
  int indexAt(int offset) const {
    unsigned unit = static_cast<unsigned>(offset) / 2;
    return unit < index_.size() ? index_[unit] : -1;
  }
  const Instr& at(int offset) const { return instrs_[index_[static_cast<unsigned>(offset) / 2]]; }

  // The handler for an exception raised by the instruction whose opcode stands at `opcode_offset`.
  std::optional<Handler> findHandler(int opcode_offset) const;

  // Whether a frame may be entered at this offset. Not inside EXTENDED_ARG; KW_NAMES, PRECALL and CALL (as far as the
  // version has them) are one unit, entered at its first instruction; not in the prologue, where cells and generators
  // are made.
  bool legalExit(int offset) const;
  bool isJumpTarget(int offset) const;
  // Offset of the first instruction behind the prologue's RESUME: the first legal one.
  int firstLegal() const { return first_legal_; }

  // Whether the slot (fast local, cell or free variable) may still be read before it is overwritten, when the
  // instruction at `offset` is the next to run; exception handlers counted. Frames also show their locals to locals(),
  // debuggers and sys._getframe: see readsLocalsDynamically, and decide.
  bool slotLive(int offset, int slot);
  // The code names something that looks at its frame from outside: locals, vars, dir, eval, exec, _getframe,
  // currentframe, stack.
  bool readsLocalsDynamically() const { return reads_locals_dynamically_; }

  // Depth of the value stack when the instruction at `offset` is the next to run; -1 if nothing leads there.
  int depth(int offset);
  // The instruction that has put there what lies in a slot of the value stack then, as the code is written: the last
  // one before. Null if none did (a handler's exception).
  const Instr* pushedBy(int offset, int stack_slot);

  int line(int opcode_offset);  // -1: none
  PyCodeObject* code() const { return code_; }
  int slotCount() const { return slot_count_; }

  bool skip = false;   // frames of this code run natively
  const bool counted;  // comes from the files that countFiles named
  // for runtime/: what it knows about this code; freed by `free_captured`
  void* captured = nullptr;
  void (*free_captured)(void*) = nullptr;
  ~CodeInfo();
  CodeInfo(const CodeInfo&) = delete;
  CodeInfo& operator=(const CodeInfo&) = delete;

 private:
  struct Range {
    int start;
    int end;
    Handler handler;
  };
  void decode();
  void parseExceptionTable();
  void markLegal();
  void computeLiveness();
  void computeDepths();
  void readLines();

  PyCodeObject* code_;  // borrowed: the code owns this object
  int slot_count_;
  int first_legal_ = 0;
  bool reads_locals_dynamically_ = false;
  bool uses_super_ = false;
  std::vector<Instr> instrs_;
  std::vector<int> index_;  // by code unit
  std::vector<Range> ranges_;
  std::vector<int> depths_;  // by instruction; empty until asked for
  // where each line's code begins, and the line; of long codes, empty until asked for
  std::vector<std::pair<int, int>> lines_;
  std::vector<uint64_t> live_;  // bit rows, one for each instruction; empty until asked for
};

// For measurements: code from files whose path begins so is traced whatever the policy for its place is, and its
// instructions are counted. Code that was decoded before is not affected.
void countFiles(const char* prefix);
bool isCounted(PyCodeObject* code);

// The CALL of a call unit (KW_NAMES and PRECALL come before it), which is where the call happens and what tracebacks
// name; any other instruction itself.
const Instr* callOf(const Instr* instr);

// How many instructions a trace function of CPython's sees here: none in the prologue, two or three at a call.
uint64_t countedUnits(const Instr& instr);

}  // namespace stator::bytecode
