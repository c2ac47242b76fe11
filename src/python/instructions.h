// Newer versions of CPython write some actions of older ones in another way: a bit of LOAD_ATTR says that a method is
// meant, small operations share one opcode, flags lie in other places. Decoding undoes that, so that one action has one
// name in all versions: the one in opcodes.def.
#pragma once

#include <cstdint>

namespace stator {

struct Meaning {
  uint8_t opcode;
  int oparg;
};
// `opcode` and `oparg` as they stand in the code, EXTENDED_ARG folded in.
Meaning meaningOf(int opcode, int oparg);

// Arguments of CALL_INTRINSIC_1 that look at the frame.
enum { kIntrinsicPrint = 1, kIntrinsicImportStar = 2, kIntrinsicStopIterationError = 3 };

// How many instructions at its target the jump of `opcode` (a meaning) skips, because it has done their work: a loop
// that ends takes its iterator from the stack itself, and so does a delegation with what it delegated to. `at_target`
// is the opcode that stands there.
int skippedAtTarget(int opcode, int at_target);

}  // namespace stator
