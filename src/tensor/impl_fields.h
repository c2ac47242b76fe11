// TensorImpl's fields as they lie in memory, past the accessors that ask subclasses. For this room's sources alone.
#pragma once

#include "base/python.h"
#include "tensor/reveal.h"

#include <cstring>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

namespace stator::tensor {

struct AutogradMetaField {
  using Owner = c10::TensorImpl;
  friend const auto& revealed(AutogradMetaField, const Owner&);
};
template struct Reveal<AutogradMetaField, &c10::TensorImpl::autograd_meta_>;

// Deriving makes the protected fields' addresses nameable; nothing of this type ever exists.
struct ImplFields : c10::TensorImpl {
  static const c10::impl::SizesAndStrides& shape(const c10::TensorImpl& impl) {
    return impl.*(&ImplFields::sizes_and_strides_);
  }

  // Every autograd meta in PyTorch is an AutogradMeta.
  static const torch::autograd::AutogradMeta* autograd(const c10::TensorImpl& impl) {
    return static_cast<const torch::autograd::AutogradMeta*>(
        revealed(AutogradMetaField(), impl).get());
  }

  // dtype, device and the flags behind them lie in one word, in this order; only dtype and device count.
  static constexpr uint64_t kDtypeAndDevice = 0xFF'FFFF'FFFF;
  static uint64_t dtypeAndDevice(const c10::TensorImpl& impl) {
    static_assert(sizeof(caffe2::TypeMeta) == 2 && sizeof(std::optional<c10::Device>) == 3);
    uint64_t word = 0;
    std::memcpy(&word, &(impl.*(&ImplFields::data_type_)), sizeof word);
    return word & kDtypeAndDevice;
  }
  // What TensorImpl::is_inference(), which is not const, looks at.
  static bool isInference(const c10::TensorImpl& impl) {
    return !impl.key_set().has_any(c10::inplace_or_view_ks);
  }
  static uint64_t keys(const c10::TensorImpl& impl) { return impl.key_set().raw_repr(); }
};

inline const c10::TensorImpl& implOf(PyObject* tensor) {
  return *reinterpret_cast<THPVariable*>(tensor)->cdata.unsafeGetTensorImpl();
}

inline bool requiresGrad(const c10::TensorImpl& impl) {
  // A view also answers for its base, which only it knows how to find.
  const torch::autograd::AutogradMeta* meta = ImplFields::autograd(impl);
  if (meta == nullptr) return false;
  if (meta->requires_grad_ || meta->grad_fn_) return true;
  return meta->is_view_ && meta->requires_grad();
}

}  // namespace stator::tensor
