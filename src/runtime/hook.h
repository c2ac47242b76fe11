// What the evaluator hook knows about its thread, and the two ways in which the driver prepares it for the next frame:
// Handover (the operands of a call move into the callee's frame) and Primed (the next frame of a function is not to
// start, but to go on somewhere).
#pragma once

#include "runtime/concrete.h"
#include "runtime/driver.h"

#include <vector>

namespace stator::runtime {

class Cache;

// A call of a Python function whose operands still lie on the caller's stack. CPython 3.11 moves them into the callee's
// frame, so that `del argument` in the callee can free the object; an evaluator gets a frame with references of its
// own, and so the caller's are dropped when that frame arrives. If none does (the arguments do not fit, the callable is
// no Python function), `finish` drops them.
class Handover {
 public:
  Handover(concrete::Machine& caller, PyObject* callable, int operands);
  ~Handover();
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;
  PyObject* function() const { return function_; }
  void release();
  void finish() {
    if (!released_) release();
  }

 private:
  concrete::Machine& caller_;
  PyObject* function_ = nullptr;  // borrowed; null if no handover is possible
  int operands_;
  bool released_ = false;
};

// The next frame of frames[index].function takes over that state instead of starting.
struct Primed {
  Cache& cache;
  std::vector<PendingFrame>& frames;
  size_t index;
  void* outer_evaluator;
  int gc_was_enabled;
};
PyObject* takeOver(const Primed& primed, StatorFrame* frame);

struct HookState {
  Cache* cache = nullptr;
  const void* root = nullptr;  // code of the compiled function under way, as a name
  // code whose next frame a compiled object's call makes: its arguments lie on nobody's stack
  const void* entering = nullptr;
  int disabled = 0;
  // the compiled call under way is to end natively (ranks diverged); counted in `disabled` too
  bool eager_call = false;
  // a frame under way is over its limit of captures: nothing that it calls is captured anew
  int entries_only = 0;
  Handover* handover = nullptr;
  const Primed* primed = nullptr;
};
HookState& hookState();

PyObject* evaluateFrame(StatorFrame* frame, int throwflag);

}  // namespace stator::runtime
