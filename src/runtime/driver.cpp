#include "runtime/driver.h"

#include "base/check.h"
#include "base/error_aside.h"
#include "base/stack_room.h"
#include "bytecode/code_info.h"
#include "python/evaluator.h"
#include "runtime/active.h"
#include "runtime/concrete.h"
#include "runtime/driver_policy.h"
#include "runtime/driver_test.h"
#include "runtime/hook.h"

namespace stator::runtime {
namespace {

using bytecode::CodeInfo;
using bytecode::Instr;
using concrete::Step;

bool jumpsIfTrue(int opcode) {
  return opcode == JUMP_IF_TRUE_OR_POP || opcode == POP_JUMP_FORWARD_IF_TRUE ||
         opcode == POP_JUMP_BACKWARD_IF_TRUE;
}

// The truth of what __bool__, __len__ or __contains__ returned, with the checks of the C slots that call them; -1 with
// an error set.
int truthOf(const PendingFrame& callee, PyObject* value) {
  PyObject* name = callee.function->func_name;
  if (PyUnicode_CompareWithASCIIString(name, "__bool__") == 0 && !PyBool_Check(value)) {
    PyErr_Format(PyExc_TypeError, "__bool__ should return bool, returned %s",
                 Py_TYPE(value)->tp_name);
    return -1;
  }
  if (PyUnicode_CompareWithASCIIString(name, "__len__") != 0) return PyObject_IsTrue(value);
  Ref<> length = stealRef(PyNumber_Index(value));
  if (!length) return -1;
  if (_PyLong_Sign(length.get()) < 0) {
    PyErr_SetString(PyExc_ValueError, "__len__() should return >= 0");
    return -1;
  }
  return PyObject_IsTrue(length.get());
}

// What CPython's look-up does with an AttributeError on its way out: it says whose attribute was missing, for
// suggestions.
void nameMissing(PyObject* owner, PyObject* name) {
  if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return;
  ErrorKept error;
  if (!PyErr_GivenExceptionMatches(error.instance(), PyExc_AttributeError)) return;
  auto* missing = reinterpret_cast<PyAttributeErrorObject*>(error.instance());
  if (missing->name == nullptr && missing->obj == nullptr) {
    missing->name = newRef(name).release();
    missing->obj = newRef(owner).release();
  }
}

DriverCounters counters;

// A frame being driven: linked while it lives.
class FrameRun {
 public:
  FrameRun(Cache& cache, StatorFrame* frame, CodeInfo* info)
      : cache_(cache),
        frame_(frame),
        info_(info),
        machine_(frame, info),
        captures_(&cache != &concreteCache()) {}
  ~FrameRun() { end(); }

  // False with RecursionError set.
  bool enter(int throwflag) {
    if (stator_frame_link(frame_, &link_, throwflag) < 0) return false;
    linked_ = true;
    return true;
  }
  void standAt(int offset) {
    instr_ = &info_->at(offset);
    stator_frame_set_offset(frame_, instr_->opcode_offset);
  }

  PyObject* run();
  // nn.Module._call_impl, of which only the call of forward is left to do.
  PyObject* callForward(ModuleCall call);
  // The frame begins with the current Python error, raised where it stands.
  PyObject* runRaising() {
    return raise(Step::kRaise, stator_frame_throw_offset(frame_)) ? run() : nullptr;
  }
  // The frame begins with a call of frames[index], made at the instruction where it stands.
  PyObject* runInlined(std::vector<PendingFrame>& frames, size_t index) {
    return callPending(frames, index) ? run() : nullptr;
  }

 private:
  // The three ways to leave a linked frame (frame.h).
  void leave(void (*how)(StatorFrame*, StatorLink*)) {
    countSteps();
    if (linked_) how(frame_, &link_);
    linked_ = false;
  }
  void end() { leave(stator_frame_end); }
  PyObject* finish(Ref<> value) {
    stator_frame_truncate(frame_, 0);
    end();
    return value.release();
  }
  PyObject* finishNatively();
  bool jumpsByComparison();
  // Deals with the current Python error; false: the frame does not handle it.
  bool raise(Step how, int lookup_offset);
  void passEdge();
  bool callPending(std::vector<PendingFrame>& frames, size_t index);
  bool continueWith(const PendingFrame& callee, Ref<> value);
  // Moves on, looking at signals and other threads on the way.
  bool moveOn(const Instr* done, int offset, bool checked);
  void countSteps() {
    counters.steps += steps_;
    counters.counted_steps += counted_steps_;
    steps_ = counted_steps_ = 0;
  }
  void locate() { instr_ = &info_->at(stator_frame_offset(frame_)); }

  Cache& cache_;
  StatorFrame* frame_;
  CodeInfo* info_;
  concrete::Machine machine_;
  StatorLink link_;
  const Instr* instr_ = nullptr;  // to be executed next
  const bool captures_;
  bool linked_ = false;
  long long steps_ = 0;          // call units count once
  long long counted_steps_ = 0;  // as CPython counts them
};

PyObject* FrameRun::run() {
  for (;;) {
    // A trace function that the program has set in the middle is not to see how we look for entries, and has to see
    // what runs from here on.
    if (instr_->legal_exit && stator_link_traced(&link_)) return finishNatively();
    if (captures_ && instr_->legal_exit) {
      stator_frame_set_offset(frame_, instr_->offset);
      Exit exit = runCaptured(cache_, frame_, *info_);
      locate();
      switch (exit.outcome) {
        case Outcome::kStep:
          break;
        case Outcome::kReturn:
          return finish(std::move(exit.value));
        case Outcome::kRaise:
          instr_ = bytecode::callOf(instr_);
          stator_frame_set_offset(frame_, instr_->opcode_offset);
          passEdge();
          if (!raise(Step::kRaise, instr_->opcode_offset)) return nullptr;
          continue;
        case Outcome::kInlined:
          if (!callPending(*exit.pending, 0)) return nullptr;
          continue;
        case Outcome::kNative:
          return finishNatively();
        case Outcome::kOverLimit: {
          EntriesOnlyScope scope;
          return finishNatively();
        }
        case Outcome::kContinue:
          continue;
      }
    }
    if (instr_->legal_exit && testWantsNative(steps_)) return finishNatively();

    if (driverTest().check_depth && stator_frame_depth(frame_) != info_->depth(instr_->offset))
      counters.depth_errors++;
    steps_++;
    if (info_->counted) counted_steps_ += static_cast<long long>(bytecode::countedUnits(*instr_));
    stator_frame_set_offset(frame_, instr_->opcode_offset);
    machine_.instr = instr_;
    Step step = concrete::step(machine_);
    const Instr* done = machine_.instr;
    switch (step) {
      case Step::kNext:
        instr_ = done + 1;
        break;
      case Step::kJump:
        instr_ = &info_->at(done->target);
        break;
      case Step::kNextChecked:
        if (!moveOn(done, done->next_offset, true)) return nullptr;
        break;
      case Step::kJumpChecked:
        if (!moveOn(done, done->target, true)) return nullptr;
        break;
      case Step::kRaise:
      case Step::kReraise:
        if (!raise(step, done->opcode_offset)) return nullptr;
        break;
      case Step::kReturn:
      case Step::kYield:
        if (step == Step::kReturn) return finish(std::move(machine_.value));
        leave(stator_frame_suspend);
        return machine_.value.release();
    }
  }
}

PyObject* FrameRun::callForward(ModuleCall call) {
  PyObject* args = machine_.slots[1];
  PyObject* kwargs = machine_.slots[2];
  // self, args and kwargs become cells, which hold them from then on; so does the variable that holds forward.
  for (; instr_->opcode == MAKE_CELL; ++instr_) {
    machine_.instr = instr_;
    concrete::step(machine_);
  }
  if (PyObject* cell = machine_.slots[call.forward_slot]; cell != nullptr && PyCell_Check(cell))
    PyCell_Set(cell, call.forward.get());
  else
    stator_frame_set_slot(frame_, call.forward_slot, call.forward.get());
  stator_frame_set_offset(frame_, call.call_offset);
  Ref<> result = stealRef(PyObject_Call(call.forward.get(), args, kwargs));
  call.forward.reset();
  if (result) return finish(std::move(result));
  stator_frame_add_traceback(frame_);
  end();
  return nullptr;
}

// A comparison that CPython makes a bool of in the same instruction (3.13) ends a capture as what it gave: a tensor,
// say. CPython's own jump knows True and False alone.
bool FrameRun::jumpsByComparison() {
  return instr_ != info_->instrs().data() && instr_[-1].opcode == COMPARE_OP_TO_BOOL &&
         !PyBool_Check(machine_.peek(1));
}

PyObject* FrameRun::finishNatively() {
  if (jumpsByComparison()) {
    stator_frame_set_offset(frame_, instr_->opcode_offset);
    machine_.instr = instr_;
    const Step step = concrete::step(machine_);
    if (step == Step::kRaise) return raise(step, instr_->opcode_offset) ? run() : nullptr;
    instr_ = step == Step::kNext ? instr_ + 1 : &info_->at(instr_->target);
  }
  counters.native_frames++;
  stator_frame_set_offset(frame_, instr_->offset);
  leave(stator_frame_unlink);
  return stator_frame_eval_default(frame_, 0);
}

// CPython checks after it has moved its instruction pointer but before it has moved the frame's, so that an interrupt's
// traceback names the instruction behind it, while its handler is that of the place before the one it goes on with. (A
// jump that looks first has not moved yet.)
bool FrameRun::moveOn(const Instr* done, int offset, bool checked) {
  if (checked && stator_thread_interrupted() && stator_thread_interrupts() < 0) {
    stator_frame_set_offset(frame_, done->opcode_offset);
    return raise(Step::kRaise, (kChecksBeforeJump ? done->next_offset : offset) - 2);
  }
  instr_ = &info_->at(offset);
  return true;
}

// An error of a capture that began at the edge of a handler. CPython raises none at these instructions, and handlers
// around them find the outer exception where they have put it.
void FrameRun::passEdge() {
  auto at_edge = [&] {
    const int opcode = instr_->opcode;
    return opcode == PUSH_EXC_INFO || opcode == POP_EXCEPT || opcode == COPY || opcode == SWAP ||
           opcode == POP_TOP || opcode == NOP;
  };
  const ErrorKept error;
  while (at_edge()) {
    machine_.instr = instr_;
    concrete::step(machine_);
    ++instr_;
    stator_frame_set_offset(frame_, instr_->opcode_offset);
  }
}

bool FrameRun::raise(Step how, int lookup_offset) {
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "error return without exception set");
  // What our functions stand for has no frame in eager.
  if (how == Step::kRaise && !standsForNative(stator_frame_code(frame_)))
    stator_frame_add_traceback(frame_);
  std::optional<bytecode::Handler> handler = info_->findHandler(lookup_offset);
  stator_frame_truncate(frame_, handler ? handler->depth : 0);
  if (!handler) {
    end();
    return false;
  }
  if (handler->lasti) machine_.push(stealRef(PyLong_FromLong(stator_frame_offset(frame_) / 2)));
  ErrorAside error;
  PyObject* instance = error.instance();  // first: making it may give the error another traceback
  PyException_SetTraceback(instance, error.traceback ? error.traceback.get() : Py_None);
  machine_.push(std::move(error.value));
  instr_ = &info_->at(handler->target);
  return true;
}

bool FrameRun::callPending(std::vector<PendingFrame>& frames, size_t index) {
  instr_ = bytecode::callOf(instr_);
  stator_frame_set_offset(frame_, instr_->opcode_offset);
  // Of a frame that an attribute access has entered: (object, name).
  Ref<> access =
      frames[index].continuation != Continuation::kPushInstance ? frames[index].instance : Ref<>();
  Ref<> value = enterPending(cache_, frames, index);
  if (!value && access)
    nameMissing(PyTuple_GET_ITEM(access.get(), 0), PyTuple_GET_ITEM(access.get(), 1));
  if (value && continueWith(frames[index], std::move(value))) {
    // CPython does not look at signals behind a call that it has inlined: the callee's RESUME did.
    return true;
  }
  if (instr_->opcode == FOR_ITER && PyErr_ExceptionMatches(PyExc_StopIteration)) {
    PyErr_Clear();
    machine_.pop();
    return moveOn(instr_, instr_->target, false);
  }
  return raise(Step::kRaise, instr_->opcode_offset);
}

// Applies the callee's continuation and moves on; false with an error set.
bool FrameRun::continueWith(const PendingFrame& callee, Ref<> value) {
  int next = instr_->next_offset;
  switch (callee.continuation) {
    case Continuation::kPush:
      machine_.push(std::move(value));
      break;
    case Continuation::kDiscard:
      break;
    case Continuation::kPushInstance:
      if (value.get() != Py_None) {
        PyErr_Format(PyExc_TypeError, "__init__() should return None, not '%.200s'",
                     Py_TYPE(value.get())->tp_name);
        return false;
      }
      machine_.push(callee.instance);
      break;
    case Continuation::kPushTruth:
    case Continuation::kPushNotTruth: {
      int truth = truthOf(callee, value.get());
      if (truth < 0) return false;
      bool pushed = (truth != 0) == (callee.continuation == Continuation::kPushTruth);
      machine_.push(newRef(pushed ? Py_True : Py_False));
      break;
    }
    case Continuation::kBranch: {
      int truth = truthOf(callee, value.get());
      if (truth < 0) return false;
      const bool or_pop =
          instr_->opcode == JUMP_IF_FALSE_OR_POP || instr_->opcode == JUMP_IF_TRUE_OR_POP;
      if ((truth != 0) == jumpsIfTrue(instr_->opcode)) {
        next = instr_->target;
      } else if (or_pop) {
        machine_.pop();
      }
      break;
    }
  }
  instr_ = &info_->at(next);
  return true;
}

bool makesGenerator(StatorFrame* frame) {
  return stator_frame_code(frame)->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR) &&
         !stator_frame_is_generator(frame);
}

}  // namespace

DriverCounters& driverCounters() { return counters; }

Cache& concreteCache() {
  // Only its address means something.
  static char place;
  return reinterpret_cast<Cache&>(place);
}

PyObject* drive(Cache& cache, StatorFrame* frame, int throwflag) {
  // A generator function's own frame only makes the generator; the frame inside that one comes here when it is resumed.
  if (makesGenerator(frame)) return stator_frame_eval_fresh(frame, throwflag);
  // With an exception under way nothing may fail that has not before: the code of a resumed generator has been decoded
  // already or is decoded with the exception put aside.
  std::optional<ErrorKept> kept;
  if (throwflag) kept.emplace();
  CodeInfo* info = CodeInfo::of(stator_frame_code(frame));
  if (!info) PyErr_Clear();
  kept.reset();
  if (info && info->skip && !throwflag && !stator_frame_traced(frame) && !stackIsShort()) {
    if (ModuleCall call = plainModuleCall(frame); call.forward) {
      counters.frames++;
      FrameRun run(cache, frame, info);
      if (!run.enter(throwflag)) return nullptr;
      run.standAt(stator_frame_offset(frame));
      return run.callForward(std::move(call));
    }
  }
  if (!info || info->skip || stator_frame_traced(frame)) {
    counters.native_frames++;
    std::optional<ActiveScope> off;
    if (!throwflag && importsModule(stator_frame_code(frame))) off.emplace(nullptr);
    return stator_frame_eval_fresh(frame, throwflag);
  }
  if (!throwflag && isMarkedNative(stator_frame_function(frame))) {
    // All that it calls runs natively too.
    ActiveScope off(nullptr);
    return stator_frame_eval_fresh(frame, throwflag);
  }
  if (stackIsShort()) {
    counters.deep_frames++;
    HookRemovedScope native;
    return stator_frame_eval_fresh(frame, throwflag);
  }
  if (!testWantsDriven()) {
    counters.native_frames++;
    return stator_frame_eval_fresh(frame, throwflag);
  }
  counters.frames++;
  FrameRun run(cache, frame, info);
  if (!run.enter(throwflag)) return nullptr;
  if (throwflag) return run.runRaising();
  run.standAt(stator_frame_offset(frame));
  return run.run();
}

// --- Inlined frames become real

namespace {

// Calls the function with None for every parameter that takes one value: binding such arguments runs no code of the
// user's.
Ref<> callWithNothing(PyFunctionObject* function) {
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  const int keyword_only = code->co_kwonlyargcount;
  Ref<> names;
  if (keyword_only) {
    PyObject* all = stator_code_slot_names(code);
    names = stealRef(PyTuple_GetSlice(all, code->co_argcount, code->co_argcount + keyword_only));
    if (!names) return nullptr;
  }
  std::vector<PyObject*> arguments(code->co_argcount + keyword_only, Py_None);
  return stealRef(stator_function_vectorcall()(reinterpret_cast<PyObject*>(function),
                                               arguments.data(), code->co_argcount, names.get()));
}

void fillFrame(const PendingFrame& state, StatorFrame* frame) {
  const int count = stator_frame_slot_count(frame);
  STATOR_CHECK(static_cast<int>(state.slots.size()) == count, "slots of a pending frame");
  for (int i = 0; i < count; i++) stator_frame_set_slot(frame, i, state.slots[i].get());
  stator_frame_truncate(frame, 0);
  for (const Ref<>& value : state.stack) stator_frame_push(frame, value.get());
}

}  // namespace

Ref<> enterPending(Cache& cache, std::vector<PendingFrame>& frames, size_t index) {
  counters.materialised++;
  Primed primed{cache, frames, index, stator_evaluator_force(evaluateFrame), PyGC_Disable()};
  // No collection until the frame arrives: a finaliser could call the same function.
  hookState().primed = &primed;
  Ref<> value = callWithNothing(frames[index].function.get());
  if (hookState().primed == &primed) {
    // The frame never came: no memory for it.
    hookState().primed = nullptr;
    stator_evaluator_restore(primed.outer_evaluator);
    if (primed.gc_was_enabled) PyGC_Enable();
  }
  return value;
}

PyObject* takeOver(const Primed& primed, StatorFrame* frame) {
  stator_evaluator_restore(primed.outer_evaluator);
  if (primed.gc_was_enabled) PyGC_Enable();
  const size_t index = primed.index;
  PendingFrame& state = primed.frames[index];
  CodeInfo* info = CodeInfo::of(stator_frame_code(frame));
  if (!info) {
    stator_frame_abandon(frame);
    return nullptr;
  }
  fillFrame(state, frame);
  if (state.handled) stator_set_handled_exception(state.handled.get());
  // The frame owns what it needs; holding on to it here would keep objects alive that the callee drops.
  state.slots.clear();
  state.stack.clear();
  state.handled.reset();

  FrameRun run(primed.cache, frame, info);
  if (!run.enter(0)) return nullptr;
  counters.frames++;
  run.standAt(state.offset);
  return index + 1 < primed.frames.size() ? run.runInlined(primed.frames, index + 1) : run.run();
}

Ref<> runPending(Cache& cache, std::vector<PendingFrame>& pending) {
  return enterPending(cache, pending, 0);
}

Ref<> makeGenerator(PyFunctionObject* function) {
  HookDisabledScope native;
  return callWithNothing(function);
}

// A generator of ours that no code of the user's has seen yet.
void suspendGenerator(PyObject* generator, const PendingFrame& state) {
  StatorFrame* frame = stator_generator_frame(generator);
  CodeInfo* info = frame ? CodeInfo::of(stator_frame_code(frame)) : nullptr;
  STATOR_CHECK(info, "a generator function makes a generator");
  fillFrame(state, frame);
  if (info->at(state.offset).opcode == YIELD_VALUE) {
    stator_generator_set_suspended(generator, info->at(state.offset).opcode_offset,
                                   state.handled.get());
  }
}

Ref<> makeSuspendedGenerator(const PendingFrame& state) {
  Ref<> generator = makeGenerator(state.function.get());
  if (generator) suspendGenerator(generator.get(), state);
  return generator;
}

}  // namespace stator::runtime
