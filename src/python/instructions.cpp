#include "python/instructions.h"

#include "python/opcode_numbers.h"

namespace stator {
namespace {

Meaning as(int opcode, int oparg) { return {static_cast<uint8_t>(opcode), oparg}; }

}  // namespace

#if PY_MINOR_VERSION < 12

Meaning meaningOf(int opcode, int oparg) { return as(opcode, oparg); }
int skippedAtTarget(int, int) { return 0; }

#else

namespace {

// Of CALL_INTRINSIC_1 and _2, by their numbers in CPython's pycore_intrinsics.h; the others stay what they are.
Meaning intrinsic(int opcode, int oparg) {
  if (opcode == CALL_INTRINSIC_2) return oparg == 1 ? as(PREP_RERAISE_STAR, 0) : as(opcode, oparg);
  switch (oparg) {
    case 4:
      return as(ASYNC_GEN_WRAP, 0);
    case 5:
      return as(UNARY_POSITIVE, 0);
    case 6:
      return as(LIST_TO_TUPLE, 0);
    default:
      return as(opcode, oparg);
  }
}

#if PY_MINOR_VERSION == 12
constexpr int kLoopTail = 1;  // END_FOR
Meaning comparison(int oparg) { return as(COMPARE_OP, oparg >> 4); }
#else
constexpr int kLoopTail = 2;  // END_FOR, POP_TOP
Meaning comparison(int oparg) {
  return as(oparg & 16 ? COMPARE_OP_TO_BOOL : COMPARE_OP, oparg >> 5);
}
#endif

}  // namespace

Meaning meaningOf(int opcode, int oparg) {
  switch (opcode) {
    case LOAD_ATTR:
      return as(oparg & 1 ? LOAD_METHOD : LOAD_ATTR, oparg >> 1);
    case COMPARE_OP:
      return comparison(oparg);
    case POP_JUMP_IF_FALSE:
      return as(POP_JUMP_FORWARD_IF_FALSE, oparg);
    case POP_JUMP_IF_TRUE:
      return as(POP_JUMP_FORWARD_IF_TRUE, oparg);
    case POP_JUMP_IF_NONE:
      return as(POP_JUMP_FORWARD_IF_NONE, oparg);
    case POP_JUMP_IF_NOT_NONE:
      return as(POP_JUMP_FORWARD_IF_NOT_NONE, oparg);
    case CALL_INTRINSIC_1:
    case CALL_INTRINSIC_2:
      return intrinsic(opcode, oparg);
#if PY_MINOR_VERSION >= 13
    case RESUME:
      return as(RESUME, oparg & 3);
    case FORMAT_SIMPLE:
      return as(FORMAT_VALUE, 0);
    case FORMAT_WITH_SPEC:
      return as(FORMAT_VALUE, 4);
#endif
    default:
      return as(opcode, oparg);
  }
}

int skippedAtTarget(int opcode, int at_target) {
  if (opcode == FOR_ITER) return kLoopTail;
  return opcode == SEND && at_target == END_SEND ? 1 : 0;
}

#endif

}  // namespace stator
