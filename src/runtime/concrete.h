// Executes one instruction on the real frame, with CPython's own meaning: same results, same errors and messages,
// references dropped at the same moment. What the driver does where nothing is captured. One file for each family of
// opcodes (concrete_*.cpp); which function serves which opcode stands in bytecode/opcodes.def.
// Relies on: the frame is linked, and its offset is that of the instruction's opcode.
#pragma once

#include "base/ref.h"
#include "bytecode/code_info.h"
#include "bytecode/opcodes.h"
#include "python/frame.h"

namespace stator::runtime::concrete {

enum class Step : uint8_t {
  kNext,         // go on with the next instruction
  kNextChecked,  // likewise, after a look at signals and at threads that wait for the GIL
  kJump,         // go on at the jump target
  kJumpChecked,
  kRaise,    // a Python error is set; the frame gets its traceback entry for this instruction
  kReraise,  // a Python error is set, traceback entry included
  kReturn,   // `value` is what the frame returns
  kYield,    // `value` is what the generator yields
};

// A frame under execution. `peek(1)` is the top of the stack.
struct Machine {
  StatorFrame* frame;
  const bytecode::CodeInfo* info;
  PyCodeObject* code;
  PyObject** slots;
  int* top;
  const bytecode::Instr* instr;  // under way; the call unit moves it on to its CALL
  Ref<> value;

  Machine(StatorFrame* frame, const bytecode::CodeInfo* info);
  void push(Ref<> pushed) { slots[(*top)++] = pushed.release(); }
  Ref<> pop() { return stealRef(slots[--*top]); }
  PyObject*& peek(int depth) { return slots[*top - depth]; }
  PyObject* name(int index) const { return PyTuple_GET_ITEM(code->co_names, index); }
  PyObject* constant(int index) const { return PyTuple_GET_ITEM(code->co_consts, index); }
  // A callable below the arguments of a call, with self or without (null).
  void pushCallable(Ref<> callable, Ref<> self) {
    const bool null_first = !self && !kNullBehindCallable;
    if (null_first) push(nullptr);
    push(std::move(callable));
    if (!null_first) push(std::move(self));
  }
  // Pushes the result of an operation that may have failed.
  Step finish(Ref<> result) {
    if (!result) return Step::kRaise;
    push(std::move(result));
    return Step::kNext;
  }
  // The result of an operation without value: 0, or -1 with an error set.
  static Step check(int status) { return status < 0 ? Step::kRaise : Step::kNext; }
};

// Executes machine.instr.
Step step(Machine& machine);

#define OPCODE(name, since, until, pops, pushes, effects, handler) \
  Step handler(Machine& m, int oparg);
#include "bytecode/opcodes.def"
#undef OPCODE

// Errors that several families raise, worded as CPython words them. All of them set an error and return kRaise.
Step raiseUndefinedName(PyObject* name);
Step raiseUnboundSlot(const Machine& m, int slot);
// DICT_MERGE and CALL_FUNCTION_EX: what merging keyword arguments into a call failed with becomes a TypeError about the
// call.
void rewordKeywordError(PyObject* function, PyObject* keywords);

}  // namespace stator::runtime::concrete
