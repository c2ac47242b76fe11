#include "interpret/core/frame_stack.h"

#include "bytecode/opcodes.h"

namespace stator::interpret {

// The instruction that raises or returns on behalf of a call unit is its CALL.
int callIndex(const SymbolicFrame& frame) {
  int index = frame.index;
  const auto& instrs = frame.code->instrs();
  int opcode = instrs[static_cast<size_t>(index)].opcode;
  if (opcode != KW_NAMES && opcode != PRECALL) return index;
  while (instrs[static_cast<size_t>(index)].opcode != CALL) ++index;
  return index;
}

PyObject* unreadMarker() {
  static PyObject* marker = PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type));
  return marker;
}

}  // namespace stator::interpret
