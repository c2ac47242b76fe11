#include "runtime/hook.h"

#include "base/check.h"

namespace stator::runtime {
namespace {

// Every Python call of the process passes here while the hook is installed, so the lookup has to be one load.
__attribute__((tls_model("initial-exec"))) thread_local HookState hook_state;

PyObject* driveGuarded(Cache& cache, StatorFrame* frame, int throwflag) {
  try {
    return drive(cache, frame, throwflag);
  } catch (const InternalError& error) {
    PyErr_Format(PyExc_SystemError, "stator: internal error: %s", error.what());
  } catch (const PythonError&) {
  } catch (const std::exception& error) {
    PyErr_Format(PyExc_SystemError, "stator: %s", error.what());
  }
  return nullptr;
}

}  // namespace

HookState& hookState() { return hook_state; }

PyObject* evaluateFrame(StatorFrame* frame, int throwflag) {
  HookState& state = hook_state;
  if ((state.handover || state.primed) && !throwflag && !stator_frame_is_generator(frame)) {
    PyObject* function = reinterpret_cast<PyObject*>(stator_frame_function(frame));
    if (state.handover && state.handover->function() == function) {
      std::exchange(state.handover, nullptr)->release();
    } else if (state.primed && state.primed->frames[state.primed->index].function.object() == function) {
      return takeOver(*std::exchange(state.primed, nullptr), frame);
    }
  }
  if (!state.cache || state.disabled) return stator_frame_eval_fresh(frame, throwflag);
  return driveGuarded(*state.cache, frame, throwflag);
}

Handover::Handover(concrete::Machine& caller, PyObject* callable, int operands) : caller_(caller), operands_(operands) {
  if (Py_TYPE(callable) != &PyFunction_Type) return;
  if (reinterpret_cast<PyFunctionObject*>(callable)->vectorcall != _PyFunction_Vectorcall) return;
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
