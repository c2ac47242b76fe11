// Drives one frame of compiled code: at each offset it asks for a captured entry, runs it, executes the one instruction
// that could not be captured concretely (or materialises inlined frames), and goes on at the next offset, until the
// frame returns, raises or yields.
#pragma once

#include "base/ref.h"
#include "breaks/continuation.h"
#include "python/frame.h"

#include <memory>
#include <vector>

namespace stator::bytecode {
class CodeInfo;
}

namespace stator::runtime {

using breaks::Continuation;

// A frame that capture had inlined and that now has to become real, in the state in which capture left it.
struct PendingFrame {
  Ref<PyFunctionObject> function;
  std::vector<Ref<>> slots;  // localsplus; null = unbound
  std::vector<Ref<>> stack;  // null = CPython's NULL
  // instruction to go on with; for all but the innermost: the calling instruction, operands popped
  int offset = 0;
  Ref<> handled;                                    // exception being handled there, or null
  Continuation continuation = Continuation::kPush;  // what its caller does with the result
  Ref<> instance;                                   // for kPushInstance
};

// What running the captured side at the frame's present offset led to.
enum class Outcome : uint8_t {
  // nothing captured here, or the entry ended in a break: the frame stands at `offset`; execute that one instruction
  kStep,
  kReturn,  // the frame is done; value
  kRaise,   // a Python error is set, raised by the instruction at the frame's offset
  // the frame stands at its calling instruction with the operands popped; `pending` are the callees, outermost first
  kInlined,
  kNative,     // leave the rest of the frame to CPython
  kOverLimit,  // the same, and what it calls has the entries that there are, and no new ones
  kContinue,   // the frame was moved; look again at its new offset
};

struct Exit {
  Outcome outcome = Outcome::kStep;
  Ref<> value;
  std::unique_ptr<std::vector<PendingFrame>> pending;
};
inline Exit outcome(Outcome what) {
  Exit exit;
  exit.outcome = what;
  return exit;
}

class Cache;

// Implemented by the captured side (runtime/entry.cpp): looks up or makes the entry of (cache, code, offset), runs its
// plan. The frame is linked. Whatever fails inside must come back as kStep or kNative with the frame untouched.
Exit runCaptured(Cache& cache, StatorFrame* frame, bytecode::CodeInfo& info);

// Runs the whole frame, from its present offset on; NULL with a Python error set, as an evaluator does.
PyObject* drive(Cache& cache, StatorFrame* frame, int throwflag);

// The cache that has no entries and never gets any: each frame under it is executed one instruction at a time, without
// runCaptured.
Cache& concreteCache();

// Makes the callees real, outermost first, and runs them to their end: the value that the outermost one returns to its
// caller (before that one's continuation is applied), or null with a Python error set. Under `cache`, the callees'
// frames are driven.
Ref<> runPending(Cache& cache, std::vector<PendingFrame>& pending);
// likewise, from frames[index] inwards
Ref<> enterPending(Cache& cache, std::vector<PendingFrame>& frames, size_t index);

// A generator (coroutine, async generator) that capture had made and advanced becomes a real, suspended one: `offset`
// is that of the YIELD_VALUE where it stands, the yielded value popped. Null with a Python error set.
Ref<> makeSuspendedGenerator(const PendingFrame& state);
// In two steps: one that has not begun, and its state.
Ref<> makeGenerator(PyFunctionObject* function);
void suspendGenerator(PyObject* generator, const PendingFrame& state);

struct DriverCounters {
  long long frames = 0;  // frames (and generator resumptions) that were driven
  long long steps = 0;   // instructions executed concretely
  // Of counted code (bytecode::countFiles): those, and those that ran as part of a captured entry.
  long long counted_steps = 0;
  long long counted_captured = 0;
  long long native_frames = 0;  // frames left to CPython, wholly or from some offset on
  long long materialised = 0;   // inlined callees that became real
  // instructions met with another stack depth than the code says, where tests ask for the check
  long long depth_errors = 0;
  // frames left to CPython with the hook off because the C stack was short
  long long deep_frames = 0;
};
DriverCounters& driverCounters();

}  // namespace stator::runtime
