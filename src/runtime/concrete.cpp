#include "runtime/concrete.h"

#include <array>

namespace stator::runtime::concrete {
namespace {

using Handler = Step (*)(Machine&, int);

Step unknownOpcode(Machine&, int) {
  PyErr_SetString(PyExc_SystemError, "unknown opcode");
  return Step::kRaise;
}

std::array<Handler, 256> makeHandlers() {
  std::array<Handler, 256> handlers;
  handlers.fill(unknownOpcode);
#define OPCODE(name, since, until, pops, pushes, effects, handler) \
  if (bytecode::inThisVersion(bytecode::kPy##since, bytecode::kPy##until)) handlers[name] = handler;
#include "bytecode/opcodes.def"
#undef OPCODE
  return handlers;
}

const std::array<Handler, 256> handlers = makeHandlers();

}  // namespace

Machine::Machine(StatorFrame* running, const bytecode::CodeInfo* known)
    : frame(running), info(known), code(known->code()), instr(nullptr) {
  StatorFrameView view = stator_frame_view(frame);
  slots = view.slots;
  top = view.top;
}

Step step(Machine& machine) {
  return handlers[machine.instr->opcode](machine, machine.instr->oparg);
}

}  // namespace stator::runtime::concrete
