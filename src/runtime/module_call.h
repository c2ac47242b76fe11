// nn.Module._call_impl of a module without hooks does nothing but call its forward. That there are none is found out here, without running
// its instructions, which cost more than all else in a call of a small compiled module. The frame is there as always, for tracebacks and
// for those who look at their callers.
#pragma once

#include "base/ref.h"
#include "python/frame.h"

namespace stator::runtime {

struct ModuleCall {
  Ref<> forward;          // what is to be called
  int call_offset = -1;   // of the instruction that calls it
  int forward_slot = -1;  // where the function keeps it meanwhile
};

// For a frame that has not begun. Without `forward`: it is another function's, the module has hooks or is of an unusual class, or torch.jit
// is tracing; then the function's own instructions have to run.
ModuleCall plainModuleCall(StatorFrame* frame);

}  // namespace stator::runtime
