// The handlers that opcodes.def names, one function each. A handler looks at its operands, decides, and only then moves
// the stack, so a break leaves the frame as it was before the instruction. It moves the frame on itself: to the next
// instruction (advance), or to another one (jumpTo).
#pragma once

#include "bytecode/code_info.h"
#include "bytecode/opcodes.h"
#include "interpret/core/tracer.h"

namespace stator::interpret::handlers {

using bytecode::Instr;
using Handler = Flow (*)(Tracer& tracer, SymbolicFrame& frame, const Instr& instr);

#define OPCODE(name, since, until, pops, pushes, effects, handler) \
  Flow handler(Tracer& tracer, SymbolicFrame& frame, const Instr& instr);
#include "bytecode/opcodes.def"
#undef OPCODE

inline void advance(SymbolicFrame& frame) { frame.index++; }
// A callable below the arguments of a call, without self.
inline void pushCallable(SymbolicFrame& frame, Ref<> callable) {
  if (!kNullBehindCallable) frame.push(Ref<>());
  frame.push(std::move(callable));
  if (kNullBehindCallable) frame.push(Ref<>());
}
inline void jumpTo(SymbolicFrame& frame, int offset) { frame.index = frame.code->indexAt(offset); }

// Pops `operands` values, pushes the result and goes on. An entered callee leaves the operands popped and the caller
// behind the instruction's place: its continuation pushes the value and advances.
inline Flow deliver(Tracer& tracer, SymbolicFrame& frame, Out out, size_t operands) {
  if (out.flow() == Flow::kEntered) {
    frame.drop(operands);
    return Flow::kEntered;
  }
  if (!out.ok()) return out.flow();
  frame.drop(operands);
  frame.push(out.take());
  advance(frame);
  return Flow::kOk;
}

// Pops `operands` values and goes on.
inline Flow done(SymbolicFrame& frame, size_t operands) {
  frame.drop(operands);
  advance(frame);
  return Flow::kOk;
}

}  // namespace stator::interpret::handlers
