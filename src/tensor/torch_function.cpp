#include "tensor/torch_function.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/autograd/python_variable.h>

namespace stator::tensor {

namespace {

at::impl::TorchFunctionDisabledState stateOf(TorchFunction state) {
  switch (state) {
    case TorchFunction::kEnabled:
      return at::impl::TorchFunctionDisabledState::ENABLED;
    case TorchFunction::kSubclassesOff:
      return at::impl::TorchFunctionDisabledState::SUBCLASSES_DISABLED;
    case TorchFunction::kOff:
      break;
  }
  return at::impl::TorchFunctionDisabledState::ALL_DISABLED;
}

}  // namespace

TorchFunction torchFunctionState() {
  switch (at::impl::PythonTorchFunctionTLS::get_disabled_state()) {
    case at::impl::TorchFunctionDisabledState::ENABLED:
      return TorchFunction::kEnabled;
    case at::impl::TorchFunctionDisabledState::SUBCLASSES_DISABLED:
      return TorchFunction::kSubclassesOff;
    default:
      return TorchFunction::kOff;
  }
}

TorchFunctionPause::TorchFunctionPause(bool pause)
    : paused_(pause), before_(TorchFunction::kEnabled) {
  if (!paused_) return;
  before_ = torchFunctionState();
  at::impl::PythonTorchFunctionTLS::set_disabled_state(stateOf(TorchFunction::kOff));
}

TorchFunctionPause::~TorchFunctionPause() {
  if (paused_) at::impl::PythonTorchFunctionTLS::set_disabled_state(stateOf(before_));
}

Ref<> asSubclass(PyObject* tensor, PyObject* type) {
  TorchFunctionPause pause(true);
  static PyObject* const name = PyUnicode_InternFromString("as_subclass");
  return stealRef(PyObject_CallMethodOneArg(tensor, name, type));
}

Ref<> asPlainInput(PyObject* tensor) {
  at::AutoGradMode differentiable(true);
  return asSubclass(tensor, THPVariableClass);
}

Ref<> detached(PyObject* tensor) {
  if (!THPVariable_CheckExact(tensor)) return newRef(tensor);
  TorchFunctionPause pause(true);
  static PyObject* const name = PyUnicode_InternFromString("detach");
  return stealRef(PyObject_CallMethodNoArgs(tensor, name));
}

int64_t functionModes() { return at::impl::PythonTorchFunctionTLS::stack_len(); }

PyObject* functionMode(int64_t index) {
  if (index >= functionModes()) return nullptr;
  return at::impl::PythonTorchFunctionTLS::get_stack_at(index)->ptr(getPyInterpreter());
}

struct TorchFunctionAnew::State {
  at::impl::PythonTorchFunctionTLS held;
};

TorchFunctionAnew::TorchFunctionAnew() {
  if (functionModes() == 0 && torchFunctionState() == TorchFunction::kEnabled) return;
  before_ = std::make_unique<State>(State{at::impl::PythonTorchFunctionTLS::get_state()});
  at::impl::PythonTorchFunctionTLS::set_state(at::impl::PythonTorchFunctionTLS());
}

TorchFunctionAnew::~TorchFunctionAnew() {
  if (before_) at::impl::PythonTorchFunctionTLS::set_state(before_->held);
}

}  // namespace stator::tensor
