#include "tensor/fake_modes.h"

#include "base/check.h"
#include "base/hot.h"
#include "base/imports.h"

#include <ATen/SavedTensorHooks.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/autograd/python_variable.h>

namespace stator::tensor {

namespace {

using Modes = c10::impl::TorchDispatchModeTLS;

// Null until somebody has imported it: until then nothing is of it.
PyTypeObject* ofFakeTensors(const char* name, PyTypeObject*& known) {
  if (known != nullptr) return known;
  static PyObject* const home = PyUnicode_InternFromString("torch._subclasses.fake_tensor");
  Ref<> module = stealRef(PyImport_GetModule(home));
  Ref<> found = stealRef(module ? PyObject_GetAttrString(module.get(), name) : nullptr);
  if (!found || !PyType_Check(found.get())) {
    PyErr_Clear();
    return nullptr;
  }
  return known = reinterpret_cast<PyTypeObject*>(found.release());
}

std::vector<int64_t> numbers(PyObject* tuple) {
  std::vector<int64_t> values;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    values.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i)));
  if (PyErr_Occurred()) throw PythonError();
  return values;
}

}  // namespace

PyObject* callersFakeMode() {
  if (!at::SavedTensorDefaultHooks::get_tls_state().stack.empty()) return nullptr;
  if (Modes::stack_len() != 1) return nullptr;
  static PyTypeObject* type = nullptr;
  PyObject* mode = Modes::get_stack_at(0)->ptr(getPyInterpreter());
  return Py_TYPE(mode) == ofFakeTensors("FakeTensorMode", type) ? mode : nullptr;
}

bool isFakeTensorType(PyTypeObject* type) {
  static PyTypeObject* known = nullptr;
  return type == ofFakeTensors("FakeTensor", known) && type != nullptr;
}

struct DispatchModesPause::State {
  Modes held;
};

DispatchModesPause::DispatchModesPause() {
  if (Modes::stack_len() == 0) return;
  before_ = std::make_unique<State>(State{Modes::get_state()});
  Modes::set_state(Modes());
}

DispatchModesPause::~DispatchModesPause() {
  if (before_) Modes::set_state(std::move(before_->held));
}

STATOR_HOT bool hasSymbolicSizes(PyObject* tensor) {
  return THPVariable_Unpack(tensor).unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

PyObject* numberForNow(PyObject* tensor, int64_t dim) {
  Ref<> module = stealRef(importModule("stator._callers_fakes"));
  return module ? PyObject_CallMethod(module.get(), "number", "OL", tensor,
                                      static_cast<long long>(dim))
                : nullptr;
}

SizesForNow sizesForNow(PyObject* tensor) {
  Ref<> module = stealRef(importModule("stator._callers_fakes"));
  Ref<> answer =
      stealRef(module ? PyObject_CallMethod(module.get(), "sizes_for_now", "O", tensor) : nullptr);
  if (!answer) throw PythonError();
  SizesForNow now;
  now.sizes = numbers(PyTuple_GET_ITEM(answer.get(), 0));
  now.strides = numbers(PyTuple_GET_ITEM(answer.get(), 1));
  now.offset = PyLong_AsLongLong(PyTuple_GET_ITEM(answer.get(), 2));
  now.storage_bytes = PyLong_AsLongLong(PyTuple_GET_ITEM(answer.get(), 3));
  PyObject* symbolic = PyTuple_GET_ITEM(answer.get(), 4);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(symbolic); ++i)
    now.symbolic.push_back(PyTuple_GET_ITEM(symbolic, i) == Py_True);
  return now;
}

}  // namespace stator::tensor
