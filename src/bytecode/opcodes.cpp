#include "bytecode/opcodes.h"

#include "base/check.h"

#include <array>

namespace stator::bytecode {
namespace {

std::array<OpcodeRow, 256> makeRows() {
  std::array<OpcodeRow, 256> rows;
#define OPCODE(name, since, until, pops, pushes, effects, handler) \
  if (inThisVersion(kPy##since, kPy##until)) rows[name] = OpcodeRow{#name, name, effects, #handler};
#include "bytecode/opcodes.def"
#undef OPCODE
  return rows;
}

}  // namespace

const OpcodeRow& opcodeRow(int opcode) {
  static const std::array<OpcodeRow, 256> rows = makeRows();
  return rows[opcode & 0xff];
}

int stackPops(int opcode, [[maybe_unused]] int oparg, [[maybe_unused]] bool jump) {
  switch (opcode) {
#define OPCODE(name, since, until, pops, pushes, effects, handler) \
  case name:                                                       \
    return pops;
#include "bytecode/opcodes.def"
#undef OPCODE
  }
  STATOR_CHECK(false, "opcode " + std::to_string(opcode));
}

int stackPushes(int opcode, [[maybe_unused]] int oparg, [[maybe_unused]] bool jump) {
  switch (opcode) {
#define OPCODE(name, since, until, pops, pushes, effects, handler) \
  case name:                                                       \
    return pushes;
#include "bytecode/opcodes.def"
#undef OPCODE
  }
  STATOR_CHECK(false, "opcode " + std::to_string(opcode));
}

}  // namespace stator::bytecode
