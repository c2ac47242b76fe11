// __torch_function__ as this thread has it, and tensors made into instances of subclasses.
#pragma once

#include "base/python.h"
#include "base/ref.h"

#include <memory>

namespace stator::tensor {

enum class TorchFunction { kEnabled = 0, kSubclassesOff = 1, kOff = 2 };
TorchFunction torchFunctionState();

// While it lives, torch's functions see plain tensors in instances of subclasses, and no modes.
class TorchFunctionPause {
 public:
  explicit TorchFunctionPause(bool pause);
  ~TorchFunctionPause();
  TorchFunctionPause(const TorchFunctionPause&) = delete;
  TorchFunctionPause& operator=(const TorchFunctionPause&) = delete;

 private:
  bool paused_;
  TorchFunction before_;
};

Ref<> asSubclass(PyObject* tensor, PyObject* type);  // Tensor.as_subclass; null with an error set
// the same tensor as a plain one, for a graph; null with an error set
Ref<> asPlainInput(PyObject* tensor);
// A plain tensor or parameter without its history, others as they are; null with an error set.
Ref<> detached(PyObject* tensor);
int64_t functionModes();  // how many torch function modes are active
// from the bottom (borrowed); null: there are fewer
PyObject* functionMode(int64_t index);

// While it lives, the thread has no torch function modes and nothing is switched off: for calls of stator's own.
class TorchFunctionAnew {
 public:
  TorchFunctionAnew();
  ~TorchFunctionAnew();
  TorchFunctionAnew(const TorchFunctionAnew&) = delete;
  TorchFunctionAnew& operator=(const TorchFunctionAnew&) = delete;

 private:
  struct State;
  std::unique_ptr<State> before_;  // null: there was nothing
};

}  // namespace stator::tensor
