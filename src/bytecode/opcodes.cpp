#include "bytecode/opcodes.h"

#include "base/check.h"

#include <array>

namespace stator::bytecode {
namespace {

std::array<OpcodeRow, 256> makeRows() {
  std::array<OpcodeRow, 256> rows;
#define OPCODE(name, since, until, pops, pushes, effects, handler)                             \
  if (inThisVersion(kPy##since, kPy##until)) {                                                 \
    rows[name] = OpcodeRow{                                                                    \
        #name,                                                                                 \
        name,                                                                                  \
        effects,                                                                               \
        #handler,                                                                              \
        []([[maybe_unused]] int oparg, [[maybe_unused]] bool jump) -> int { return pops; },    \
        []([[maybe_unused]] int oparg, [[maybe_unused]] bool jump) -> int { return pushes; }}; \
  }
#include "bytecode/opcodes.def"
#undef OPCODE
  return rows;
}

}  // namespace

const OpcodeRow& opcodeRow(int opcode) {
  static const std::array<OpcodeRow, 256> rows = makeRows();
  return rows[opcode & 0xff];
}

int stackPops(int opcode, int oparg, bool jump) {
  const OpcodeRow& row = opcodeRow(opcode);
  STATOR_CHECK(row.pops, "opcode " + std::to_string(opcode));
  return row.pops(oparg, jump);
}

int stackPushes(int opcode, int oparg, bool jump) {
  const OpcodeRow& row = opcodeRow(opcode);
  STATOR_CHECK(row.pushes, "opcode " + std::to_string(opcode));
  return row.pushes(oparg, jump);
}

}  // namespace stator::bytecode
