#include "runtime/driver_module.h"

#include "base/check.h"
#include "base/error_aside.h"
#include "base/faults.h"
#include "bytecode/code_info.h"
#include "bytecode/opcodes.h"
#include "python/evaluator.h"
#include "python/instructions.h"
#include "runtime/active.h"
#include "runtime/driver.h"
#include "runtime/driver_policy.h"
#include "runtime/driver_test.h"
#include "runtime/hook.h"

#include <frameobject.h>
#include <utility>

namespace stator::runtime {

namespace {

PyObject* null_marker = nullptr;  // stands for CPython's NULL in lists of slots and stack values

// Sets the test knobs and puts them back.
class KnobScope {
 public:
  KnobScope(int every, long long native_after) : outer_(driverTest()) {
    driverTest() = {every, native_after, 0, every <= 1 && native_after < 0};
  }
  ~KnobScope() { driverTest() = outer_; }

 private:
  DriverTest outer_;
};

PyObject* runConcrete(PyObject*, PyObject* arguments, PyObject* keywords) {
  static const char* names[] = {"fn", "args", "kwargs", "every", "native_after", nullptr};
  PyObject *function, *positional, *named = nullptr;
  int every = 1;
  long long native_after = -1;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OO!|O$iL", const_cast<char**>(names),
                                   &function, &PyTuple_Type, &positional, &named, &every,
                                   &native_after)) {
    return nullptr;
  }
  if (named == Py_None) named = nullptr;
  if (named && !PyDict_Check(named)) {
    PyErr_SetString(PyExc_TypeError, "kwargs must be a dict or None");
    return nullptr;
  }
  KnobScope knobs(every, native_after);
  ActiveScope scope(&concreteCache());
  if (!scope.active()) {
    PyErr_SetString(PyExc_RuntimeError, "the evaluator is taken out for a time");
    return nullptr;
  }
  return PyObject_Call(function, positional, named);
}

bool steps_counted = true;

PyObject* watch(PyObject*, PyObject* args) {
  const char* text = nullptr;
  int steps = 1;
  if (!PyArg_ParseTuple(args, "s|p", &text, &steps)) return nullptr;
  bytecode::countFiles(text);
  steps_counted = steps != 0;
  Py_RETURN_NONE;
}

long long counted_instructions = 0;

int countInstruction(PyObject*, PyFrameObject* frame, int what, PyObject*) {
  if (what == PyTrace_CALL) {
    Ref<PyCodeObject> code = Ref<PyCodeObject>::steal(PyFrame_GetCode(frame));
    PyObject* object = reinterpret_cast<PyObject*>(frame);
    if (bytecode::isCounted(code.get()) &&
        PyObject_SetAttrString(object, "f_trace_opcodes", Py_True) < 0)
      return -1;
    if (PyObject_SetAttrString(object, "f_trace_lines", Py_False) < 0) return -1;
  }
  if (what == PyTrace_OPCODE) counted_instructions++;
  return 0;
}

// Without any hook: the instructions of counted code that a call executes are added to counted_instructions. The
// program may set a trace function of its own, which ends the counting for the rest of the call.
PyObject* countInstructions(PyObject*, PyObject* function) {
  PyEval_SetTrace(countInstruction, nullptr);
  Ref<> result = stealRef(PyObject_CallNoArgs(function));
  ErrorKept kept;
  if (PyThreadState_Get()->c_tracefunc == countInstruction) PyEval_SetTrace(nullptr, nullptr);
  return result.release();
}

PyObject* callUnseen(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count < 1) {
    PyErr_SetString(PyExc_TypeError, "call_unseen: a function is wanted");
    return nullptr;
  }
  PyThreadState* thread = PyThreadState_Get();
  PyThreadState_EnterTracing(thread);
  PyObject* result =
      PyObject_Vectorcall(args[0], args + 1, static_cast<size_t>(count - 1), nullptr);
  PyThreadState_LeaveTracing(thread);
  return result;
}

PyObject* counterDict(PyObject*, PyObject*) {
  const DriverCounters& now = driverCounters();
  return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L}", "counted", counted_instructions,
                       "counted_steps", now.counted_steps, "counted_captured", now.counted_captured,
                       "frames", now.frames, "steps", now.steps, "native_frames", now.native_frames,
                       "inlined_materialised", now.materialised, "deep_frames", now.deep_frames,
                       "depth_errors", now.depth_errors);
}

PyObject* failAtPoint(PyObject*, PyObject* number) {
  const long long n = PyLong_AsLongLong(number);
  if (n == -1 && PyErr_Occurred()) return nullptr;
  const int64_t passed = faultPoints();
  failAt(n);
  return PyLong_FromLongLong(passed);
}

PyObject* resetCounters(PyObject*, PyObject*) {
  driverCounters() = {};
  Py_RETURN_NONE;
}

bool readValues(PyObject* list, std::vector<Ref<>>& out) {
  Ref<> fast = stealRef(PySequence_Fast(list, "a sequence of values"));
  if (!fast) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); i++) {
    PyObject* value = PySequence_Fast_GET_ITEM(fast.get(), i);
    out.push_back(value == null_marker ? Ref<>() : newRef(value));
  }
  return true;
}

// (function, offset, slots, stack, handled or None, continuation name, instance or None)
bool readPending(PyObject* tuple, PendingFrame& out) {
  PyObject *function, *slots, *stack, *handled = Py_None, *instance = Py_None;
  const char* continuation = "push";
  if (!PyArg_ParseTuple(tuple, "O!iOO|OsO", &PyFunction_Type, &function, &out.offset, &slots,
                        &stack, &handled, &continuation, &instance)) {
    return false;
  }
  out.function = Ref<PyFunctionObject>::create(reinterpret_cast<PyFunctionObject*>(function));
  if (!readValues(slots, out.slots) || !readValues(stack, out.stack)) return false;
  auto* code = reinterpret_cast<PyCodeObject*>(out.function->func_code);
  out.slots.resize(PyTuple_GET_SIZE(stator_code_slot_names(code)));
  if (handled != Py_None) out.handled = newRef(handled);
  if (instance != Py_None) out.instance = newRef(instance);
  if (auto named = breaks::continuationNamed(continuation)) {
    out.continuation = *named;
    return true;
  }
  PyErr_Format(PyExc_ValueError, "unknown continuation '%s'", continuation);
  return false;
}

PyObject* runPendingFrames(PyObject*, PyObject* arguments) {
  PyObject *list = nullptr, *settings = Py_None;
  if (!PyArg_ParseTuple(arguments, "O|O", &list, &settings)) return nullptr;
  Cache* cache = settings != Py_None ? cacheOf(settings) : &concreteCache();
  if (cache == nullptr) return nullptr;
  Ref<> fast = stealRef(PySequence_Fast(list, "a sequence of pending frames, outermost first"));
  if (!fast) return nullptr;
  std::vector<PendingFrame> frames(PySequence_Fast_GET_SIZE(fast.get()));
  if (frames.empty()) {
    PyErr_SetString(PyExc_ValueError, "no pending frames");
    return nullptr;
  }
  for (size_t i = 0; i < frames.size(); i++) {
    if (!readPending(PySequence_Fast_GET_ITEM(fast.get(), i), frames[i])) return nullptr;
  }
  fast.reset();
  ActiveScope scope(cache);
  if (!scope.active()) {
    PyErr_SetString(PyExc_RuntimeError, "the evaluator is taken out for a time");
    return nullptr;
  }
  return runPending(*cache, frames).release();
}

PyObject* suspendedGenerator(PyObject*, PyObject* tuple) {
  PendingFrame state;
  if (!readPending(tuple, state)) return nullptr;
  return makeSuspendedGenerator(state).release();
}

PyObject* opcodeTable(PyObject*, PyObject*) {
  Ref<> table = stealRef(PyDict_New());
  for (int opcode = 0; table && opcode < 256; opcode++) {
    const bytecode::OpcodeRow& row = bytecode::opcodeRow(opcode);
    if (!row.name) continue;
    Ref<> entry = stealRef(Py_BuildValue("{s:i,s:i,s:s}", "opcode", row.opcode, "effects",
                                         row.effects, "handler", row.handler));
    if (!entry || PyDict_SetItemString(table.get(), row.name, entry.get()) < 0) return nullptr;
  }
  return table.release();
}

PyObject* opcodeEffect(PyObject*, PyObject* arguments) {
  int opcode, oparg, jump;
  if (!PyArg_ParseTuple(arguments, "iip", &opcode, &oparg, &jump)) return nullptr;
  if (!bytecode::opcodeRow(opcode).name) {
    PyErr_Format(PyExc_ValueError, "no opcode %d", opcode);
    return nullptr;
  }
  return Py_BuildValue("ii", bytecode::stackPops(opcode, oparg, jump),
                       bytecode::stackPushes(opcode, oparg, jump));
}

PyObject* describeInstr(bytecode::CodeInfo& info, const bytecode::Instr& instr) {
  Ref<> live = stealRef(PyList_New(0));
  PyObject* names = stator_code_slot_names(info.code());
  for (int slot = 0; live && slot < info.slotCount(); slot++) {
    if (info.slotLive(instr.offset, slot) &&
        PyList_Append(live.get(), PyTuple_GET_ITEM(names, slot)) < 0)
      return nullptr;
  }
  auto handler = info.findHandler(instr.opcode_offset);
  Ref<> handled =
      handler ? stealRef(Py_BuildValue("iii", handler->target, handler->depth, handler->lasti))
              : newRef(Py_None);
  if (!live || !handled) return nullptr;
  return Py_BuildValue(
      "{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:O,s:O,s:O,s:O}", "opcode", instr.opcode, "oparg",
      instr.oparg, "offset", instr.offset, "opcode_offset", instr.opcode_offset, "next_offset",
      instr.next_offset, "target", instr.target, "line", info.line(instr.opcode_offset), "depth",
      info.depth(instr.offset), "legal", instr.legal_exit ? Py_True : Py_False, "jump_target",
      instr.jump_target ? Py_True : Py_False, "handler", handled.get(), "live", live.get());
}

PyObject* codeInfo(PyObject*, PyObject* code) {
  if (!PyCode_Check(code)) {
    PyErr_SetString(PyExc_TypeError, "a code object");
    return nullptr;
  }
  bytecode::CodeInfo* info = bytecode::CodeInfo::of(reinterpret_cast<PyCodeObject*>(code));
  if (!info) return nullptr;
  Ref<> list = stealRef(PyList_New(0));
  for (const bytecode::Instr& instr : info->instrs()) {
    Ref<> entry = stealRef(describeInstr(*info, instr));
    if (!entry || PyList_Append(list.get(), entry.get()) < 0) return nullptr;
  }
  return list.release();
}

PyObject* opcodeMeaning(PyObject*, PyObject* arguments) {
  int opcode = 0;
  int oparg = 0;
  if (!PyArg_ParseTuple(arguments, "ii", &opcode, &oparg)) return nullptr;
  const Meaning meaning = meaningOf(opcode, oparg);
  return Py_BuildValue("(ii)", static_cast<int>(meaning.opcode), meaning.oparg);
}

PyObject* skipCode(PyObject*, PyObject* code) {
  bytecode::CodeInfo* info =
      PyCode_Check(code) ? bytecode::CodeInfo::of(reinterpret_cast<PyCodeObject*>(code)) : nullptr;
  if (!info) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a code object");
    return nullptr;
  }
  info->skip = true;
  Py_RETURN_NONE;
}

PyObject* hookIsInstalled(PyObject*, PyObject*) {
  return PyBool_FromLong(stator_evaluator_on_top());
}

}  // namespace

bool stepsCounted() { return steps_counted; }

PyMethodDef driver_methods[] = {
    {"run_concrete", reinterpret_cast<PyCFunction>(runConcrete), METH_VARARGS | METH_KEYWORDS,
     "run_concrete(fn, args, kwargs=None, *, every=1, native_after=-1)\n--\n\nCalls fn with every "
     "Python frame executed one instruction "
     "at a time by the driver; every=n drives each n-th frame only, native_after=k gives each "
     "frame to CPython after k instructions."},
    {"call_unseen", reinterpret_cast<PyCFunction>(callUnseen), METH_FASTCALL,
     "call_unseen(function, *args): calls it while the thread's trace and profile functions are "
     "told nothing: what runs at moments of its own is no part of the program."},
    {"driver_counters", counterDict, METH_NOARGS,
     "What the driver has done in this process, as a dict."},
    {"fail_at", failAtPoint, METH_O,
     "Lets the n-th of the counted points of captures fail once; 0: none. How many were passed "
     "since the last call."},
    {"reset_driver_counters", resetCounters, METH_NOARGS,
     "Sets the counters of driver_counters to zero."},
    {"count_files", watch, METH_VARARGS,
     "Code from files whose path begins so is traced wherever it lies, and its instructions are "
     "counted; unless the second argument is false, none of it goes back to CPython's loop."},
    {"count_instructions", countInstructions, METH_O,
     "Calls the function natively; driver_counters()['counted'] has the instructions of counted "
     "code."},
    {"run_pending", runPendingFrames, METH_VARARGS,
     "run_pending(frames[, cache]): runs inlined frames, outermost first: (function, offset, "
     "slots, "
     "stack[, handled[, continuation[, instance]]]); under a cache they are captured."},
    {"make_suspended_generator", suspendedGenerator, METH_O,
     "A generator suspended at an offset; takes one tuple as run_pending does."},
    {"opcode_table", opcodeTable, METH_NOARGS,
     "The opcode table: name -> opcode, effects, handler."},
    {"opcode_effect", opcodeEffect, METH_VARARGS, "(pops, pushes) of (opcode, oparg, jump)."},
    {"opcode_meaning", opcodeMeaning, METH_VARARGS,
     "(opcode, oparg) of the table's row for (opcode, oparg) as they stand in code."},
    {"code_info", codeInfo, METH_O,
     "The decoded instructions of a code object, as a list of dicts."},
    {"skip_code", skipCode, METH_O, "Frames of this code run natively from now on."},
    {"hook_installed", hookIsInstalled, METH_NOARGS,
     "Whether stator's evaluator is in place at this moment."},
    {nullptr, nullptr, 0, nullptr},
};

PyObject* nullMarker() { return null_marker; }

int addDriverObjects(PyObject* module) {
  null_marker = PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type));
  return null_marker ? PyModule_AddObjectRef(module, "NULL", null_marker) : -1;
}

}  // namespace stator::runtime
