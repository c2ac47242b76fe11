// nn.Module._call_impl of a module without hooks does nothing but call its forward. That there are none is found out
// here, without running its instructions, which cost more than all else in a call of a small compiled module. The frame
// is there as always, for tracebacks and for those who look at their callers.
#pragma once

#include "base/ref.h"
#include "python/frame.h"

#include <array>
#include <cstdint>

namespace stator::runtime {

struct ModuleCall {
  Ref<> forward;          // what is to be called
  int call_offset = -1;   // of the instruction that calls it
  int forward_slot = -1;  // where the function keeps it meanwhile
};

// The same question without a frame, about one module again and again. What was found holds as long as the dicts in
// which it was found have not changed; that the hooks' dicts are still empty is looked at each time.
class PlainModule {
 public:
  // The function of its class that a call of the module comes to (borrowed); null: the instructions have to run.
  // `globals`: _call_impl's.
  PyObject* forwardOf(PyObject* module, PyObject* globals);

 private:
  PyTypeObject* type_ = nullptr;
  PyObject* forward_ = nullptr;
  uint64_t type_version_ = 0, own_version_ = 0, global_version_ = 0;
  std::array<PyObject*, 8> hooks_ = {};
};

// For a frame that has not begun. Without `forward`: it is another function's, the module has hooks or is of an unusual
// class, or torch.jit is tracing; then the function's own instructions have to run.
ModuleCall plainModuleCall(StatorFrame* frame);

}  // namespace stator::runtime
