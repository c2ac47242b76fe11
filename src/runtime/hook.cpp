#include "runtime/hook.h"

#include "base/check.h"
#include "base/hot.h"
#include "bytecode/code_info.h"
#include "python/evaluator.h"
#include "runtime/active.h"

#include <algorithm>

namespace stator::runtime {
namespace {

// Every Python call of the process passes here while the hook is installed, so the lookup has to be one load.
__attribute__((tls_model("initial-exec"))) thread_local HookState hook_state;

PyObject* driveGuarded(Cache& cache, StatorFrame* frame, int throwflag) {
  try {
    return drive(cache, frame, throwflag);
  } catch (const InternalError& error) {
    PyErr_Format(PyExc_SystemError, "stator: internal error: %s", error.what());
  } catch (const PythonError&) {  // NOLINT(bugprone-empty-catch): the error is set
  } catch (const std::exception& error) {
    PyErr_Format(PyExc_SystemError, "stator: %s", error.what());
  }
  return nullptr;
}

// Whether a new frame holds these arguments, the last of them named; false also if it holds them all in *args and
// **kwargs.
bool argumentsArrived(StatorFrame* callee, PyObject* const* arguments, int count, PyObject* names) {
  const PyCodeObject* code = stator_frame_code(callee);
  PyObject* const* slots = stator_frame_slots(callee);
  const int named = names ? static_cast<int>(PyTuple_GET_SIZE(names)) : 0;
  const int positional = std::min(count - named, code->co_argcount);
  if (!std::equal(arguments, arguments + positional, slots)) return false;
  int found = positional;
  PyObject* slot_names = stator_code_slot_names(stator_frame_code(callee));
  for (int i = 0; i < named; i++) {
    for (int slot = code->co_posonlyargcount; slot < code->co_argcount + code->co_kwonlyargcount;
         slot++) {
      if (PyTuple_GET_ITEM(slot_names, slot) != PyTuple_GET_ITEM(names, i)) continue;
      if (slots[slot] != arguments[count - named + i]) return false;
      found++;
    }
  }
  return found > 0;
}

// The keyword names of the call unit that ends at `index`; null if it has none.
PyObject* namesOfUnit(const bytecode::CodeInfo& info, int index) {
  const auto& instrs = info.instrs();
  if (index > 0 && instrs[index - 1].opcode == PRECALL) index--;
  if (index == 0 || instrs[index - 1].opcode != KW_NAMES) return nullptr;
  return PyTuple_GET_ITEM(info.code()->co_consts, instrs[index - 1].oparg);
}

// A frame that CPython's own loop runs has called a Python function. With an evaluator in place that loop keeps the
// arguments on the caller's stack until the call returns, instead of moving them into the callee's frame as it does
// without one. So we take them out of there: None stands in for what CPython drops later. Where they lie follows from
// the code alone, and that it is this call is checked by the arguments themselves.
void takeFromNativeCaller(StatorFrame* callee) {
  StatorFrame* caller = stator_thread_frame();
  if (!caller || !stator_frame_in_default_loop(caller)) return;
  bytecode::CodeInfo* info = bytecode::CodeInfo::of(stator_frame_code(caller));
  if (!info) return PyErr_Clear();
  int index = info->indexAt(stator_frame_offset(caller));
  if (index < 0) return;
  const bytecode::Instr* call = &info->instrs()[index];
  if (call->opcode != CALL && call->opcode != CALL_KW) return;
  const int names_on_top = call->opcode == CALL_KW;
  const int depth = info->depth(call->offset) - names_on_top;
  if (depth < call->oparg + 2) return;
  PyObject** operands = stator_frame_slots(caller) + info->slotCount() + depth - call->oparg - 2;
  PyObject* function = reinterpret_cast<PyObject*>(stator_frame_function(callee));
  const bool with_self = operands[0] == function && operands[1];
  if (!with_self && operands[kNullBehindCallable ? 0 : 1] != function) return;
  if (!with_self && operands[kNullBehindCallable ? 1 : 0]) return;
  PyObject** arguments = operands + (with_self ? 1 : 2);
  const int count = call->oparg + with_self;
  PyObject* names = names_on_top ? operands[2 + call->oparg] : namesOfUnit(*info, index);
  if (!argumentsArrived(callee, arguments, count, names)) return;
  for (int i = 0; i < count; i++) stealRef(std::exchange(arguments[i], newRef(Py_None).release()));
}

}  // namespace

STATOR_HOT HookState& hookState() { return hook_state; }

PyObject* evaluateFrame(StatorFrame* frame, int throwflag) {
  HookState& state = hook_state;
  bool handed_over = false;
  if ((state.handover || state.primed) && !throwflag && !stator_frame_is_generator(frame)) {
    PyObject* function = reinterpret_cast<PyObject*>(stator_frame_function(frame));
    if (state.handover && state.handover->function() == function) {
      std::exchange(state.handover, nullptr)->release();
      handed_over = true;
    } else if (state.primed &&
               state.primed->frames[state.primed->index].function.object() == function) {
      return takeOver(*std::exchange(state.primed, nullptr), frame);
    }
  }
  if (!state.cache) {
    if (hookIsLeftOver()) [[unlikely]]
      stator_evaluator_remove();
    return stator_evaluator_pass(frame, throwflag);
  }
  // Not on top: the frame belongs to who is, and was handed down.
  if (state.disabled || stator_signal_waits() || !stator_evaluator_on_top())
    return stator_frame_eval_fresh(frame, throwflag);
  if (stator_evaluator_in_tool() && state.entering != stator_frame_code(frame)) [[unlikely]]
    return stator_frame_eval_fresh(frame, throwflag);
  if (state.entering != nullptr &&
      std::exchange(state.entering, nullptr) == stator_frame_code(frame))
    handed_over = true;
  if (!handed_over && !throwflag && !stator_frame_is_generator(frame)) takeFromNativeCaller(frame);
  return driveGuarded(*state.cache, frame, throwflag);
}

Handover::Handover(concrete::Machine& caller, PyObject* callable, int operands)
    : caller_(caller), operands_(operands) {
  if (Py_TYPE(callable) != &PyFunction_Type) return;
  if (reinterpret_cast<PyFunctionObject*>(callable)->vectorcall != stator_function_vectorcall())
    return;
  function_ = callable;
  hook_state.handover = this;
}

Handover::~Handover() {
  if (hook_state.handover == this) hook_state.handover = nullptr;
}

// The callable goes first and the arguments follow in order, as CPython drops them.
void Handover::release() {
  released_ = true;
  *caller_.top -= operands_;
  PyObject** first = caller_.slots + *caller_.top;
  for (int i = 0; i < operands_; i++) stealRef(first[i]);
}

}  // namespace stator::runtime
