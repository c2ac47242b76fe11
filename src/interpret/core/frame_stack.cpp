#include "interpret/core/frame_stack.h"

#include "bytecode/opcodes.h"

namespace stator::interpret {

int callIndex(const SymbolicFrame& frame) {
  const bytecode::Instr* begin = frame.code->instrs().data();
  return static_cast<int>(bytecode::callOf(begin + frame.index) - begin);
}

PyObject* unreadMarker() {
  static PyObject* marker = PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type));
  return marker;
}

}  // namespace stator::interpret
