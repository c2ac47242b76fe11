#include "tensor/meta_of.h"

#include "base/check.h"
#include "base/imports.h"
#include "python/objects.h"
#include "shapes/fallback.h"
#include "shapes/infer.h"
#include "tensor/fake_modes.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/autograd/python_variable.h>

namespace stator::tensor {

namespace {

bool isMarkedParameter(PyObject* object) {
  static PyObject* const mark = PyUnicode_InternFromString("_is_param");
  PyObject* found = nullptr;
  return stator_object_lookup(object, mark, &found) == STATOR_FOUND && found == Py_True;
}

}  // namespace

int64_t versionOf(PyObject* object) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  return tensor.is_inference() ? -1 : static_cast<int64_t>(tensor._version());
}

shapes::TensorMeta metaOf(PyObject* object) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  shapes::TensorMeta meta;
  meta.dtype = tensor.scalar_type();
  meta.device = tensor.device().type();
  meta.device_index = static_cast<int16_t>(tensor.device().index());
  meta.layout = static_cast<int8_t>(tensor.layout());
  meta.requires_grad = tensor.requires_grad();
  meta.is_leaf = tensor.is_leaf();
  meta.is_wrapped_number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  meta.is_conj = tensor.is_conj();
  meta.is_neg = tensor.is_neg();
  meta.is_inference = tensor.is_inference();
  if (hasSymbolicSizes(object)) {
    const SizesForNow now = sizesForNow(object);
    meta.sizes.assign(now.sizes.begin(), now.sizes.end());
    meta.strides.assign(now.strides.begin(), now.strides.end());
    meta.storage_offset = now.offset;
    meta.storage_bytes = now.storage_bytes;
  } else {
    const auto sizes = tensor.sizes();
    meta.sizes.assign(sizes.begin(), sizes.end());
  }
  if (meta.strides.empty() && tensor.layout() == at::kStrided) {
    const auto strides = tensor.strides();
    meta.strides.assign(strides.begin(), strides.end());
    meta.storage_offset = tensor.storage_offset();
    if (tensor.has_storage()) {
      // A fake of fixed sizes may lie in the memory of one whose sizes are SymInts.
      const std::optional<int64_t> bytes = tensor.storage().sym_nbytes().maybe_as_int();
      meta.storage_bytes = bytes ? *bytes : sizesForNow(object).storage_bytes;
    }
  }
  // nn.Parameter is a subclass of Tensor; a parameter that wraps a tensor subclass carries the mark `_is_param`
  // instead.
  static PyObject* parameter = [] {
    Ref<> module = stealRef(importModule("torch.nn.parameter"));
    PyObject* type = module ? PyObject_GetAttrString(module.get(), "Parameter") : nullptr;
    if (type == nullptr) throw PythonError();
    return type;
  }();
  meta.is_parameter = reinterpret_cast<PyObject*>(Py_TYPE(object)) == parameter ||
                      (isFakeTensorType(Py_TYPE(object)) && isMarkedParameter(object));
  return meta;
}

// Dimensions have names before torch 2.13.
template <class Impl>
static bool hasNames(const Impl* impl) {
  if constexpr (requires { impl->has_named_tensor_meta(); }) return impl->has_named_tensor_meta();
  return false;
}

bool hasPlainFacts(PyObject* object) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  return !tensor.is_nested() && !hasNames(tensor.unsafeGetTensorImpl());
}

bool isOfTransform(PyObject* object) {
  const c10::DispatchKeySet keys = THPVariable_Unpack(object).key_set();
  return keys.has(c10::DispatchKey::FuncTorchGradWrapper) ||
         keys.has(c10::DispatchKey::FuncTorchBatched);
}

uintptr_t storageOf(PyObject* object) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  if (tensor.layout() != at::kStrided || !tensor.has_storage()) return 0;
  return reinterpret_cast<uintptr_t>(tensor.storage().unsafeGetStorageImpl());
}

bool deviceExists(shapes::DeviceType type, int16_t index) {
  if (type == at::kCPU || type == at::kMeta) return true;
  if (!c10::impl::hasDeviceGuardImpl(type)) return false;
  return index < c10::impl::getDeviceGuardImpl(type)->deviceCount();
}

}  // namespace stator::tensor

namespace stator::shapes {

bool readDevice(PyObject* object, DeviceType& type, int16_t& index) {
  if (!THPDevice_Check(object)) return false;
  const at::Device device = reinterpret_cast<THPDevice*>(object)->device;
  type = device.type();
  index = static_cast<int16_t>(device.index());
  return true;
}

Ref<> makeDevice(DeviceType type, int16_t index) {
  Ref<> device = stealRef(THPDevice_New(at::Device(type, static_cast<c10::DeviceIndex>(index))));
  if (!device) throw PythonError();
  return device;
}

State State::now() {
  State state;
  state.grad_enabled = at::GradMode::is_enabled();
  state.inference = c10::InferenceMode::is_enabled();
  state.default_dtype = c10::get_default_dtype_as_scalartype();
  state.autocast_cpu = at::autocast::is_autocast_enabled(at::kCPU);
  state.autocast_cuda = at::autocast::is_autocast_enabled(at::kCUDA);
  if (state.autocast_cpu) state.autocast_cpu_dtype = at::autocast::get_autocast_dtype(at::kCPU);
  if (state.autocast_cuda) state.autocast_cuda_dtype = at::autocast::get_autocast_dtype(at::kCUDA);
  state.deterministic = at::globalContext().deterministicAlgorithms();
  return state;
}

}  // namespace stator::shapes
