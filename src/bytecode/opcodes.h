// What the one table, opcodes.def, says about the opcodes of the CPython that this build is for. The numbers are macros
// (LOAD_FAST, CALL, ...), which this header brings along.
#pragma once

#include "base/python.h"
#include "python/opcode_numbers.h"
#include "python/version.h"

#include <cstdint>

namespace stator::bytecode {

enum Effect : uint16_t {
  kPure = 0,
  kReleases = 1 << 0,  // drops a reference, whose destructor may run user code
  kRaises = 1 << 1,    // may raise, without running user code
  kRunsUser = 1 << 2,  // may run any Python code, and may raise
  kJumps = 1 << 3,
  kLeaves = 1 << 4,    // does not go on to the next instruction: returns, raises, yields
  kHandled = 1 << 5,   // changes the exception being handled
  kPrologue = 1 << 6,  // occurs only before the first RESUME
  kCallUnit = 1 << 7,  // goes together with the CALL that follows
  // What it looks at on the stack besides what it pops: the value under that, the one oparg deep under it, or any.
  kLooksAtTop = 1 << 8,
  kLooksAtOparg = 1 << 9,
  kLooksAround = 1 << 10,
};

struct OpcodeRow {
  const char* name = nullptr;  // null: no such opcode
  int opcode = -1;
  uint16_t effects = 0;
  const char* handler = nullptr;
  int (*pops)(int oparg, bool jump) = nullptr;
  int (*pushes)(int oparg, bool jump) = nullptr;
};

const OpcodeRow& opcodeRow(int opcode);
int stackPops(int opcode, int oparg, bool jump);
int stackPushes(int opcode, int oparg, bool jump);
inline int stackEffect(int opcode, int oparg, bool jump) {
  return stackPushes(opcode, oparg, jump) - stackPops(opcode, oparg, jump);
}
inline bool hasEffect(int opcode, Effect effect) { return opcodeRow(opcode).effects & effect; }

// Minor versions, as the columns `since` and `until` write them.
constexpr int kPy3_11 = 11;
constexpr int kPy3_12 = 12;
constexpr int kPy3_13 = 13;
constexpr int kPyLast = 1000;
constexpr bool inThisVersion(int since, int until) {
  return since <= kPythonMinor && kPythonMinor <= until;
}

}  // namespace stator::bytecode
