#include "tensor/saved_tensor.h"

#include "base/ref.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <optional>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>
#include <utility>

namespace stator::tensor {

namespace {

using torch::autograd::AutogradMeta;
using torch::autograd::DifferentiableViewMeta;

// The function that a tensor comes from, and the hooks that a write makes it forget.
class History {
 public:
  explicit History(const at::Tensor& tensor) : tensor_(tensor) {
    const AutogradMeta* meta = torch::autograd::impl::get_autograd_meta(tensor);
    if (meta == nullptr) return;
    function_ = meta->grad_fn_;
    result_ = meta->output_nr_;
    requires_grad_ = meta->requires_grad_;
    hooks_ = meta->cpp_hooks_list_;
    if (const DifferentiableViewMeta* view = backwardView(tensor))
      version_ = view->get_attr_version();
  }
  void putBack() const {
    AutogradMeta* meta = torch::autograd::impl::get_autograd_meta(tensor_);
    if (meta == nullptr) return;
    if (meta->retains_grad_ && function_ && meta->grad_fn_ && meta->grad_fn_ != function_) {
      if (auto hook = meta->grad_fn_->pop_retains_grad_hook(meta->output_nr_))
        function_->add_retains_grad_hook(std::move(hook), result_);
    }
    meta->grad_fn_ = function_;
    meta->output_nr_ = result_;
    meta->requires_grad_ = requires_grad_;
    meta->cpp_hooks_list_ = hooks_;
    if (version_) backwardView(tensor_)->set_attr_version(*version_);
  }
  // Null: it is no view that gradients flow through.
  static DifferentiableViewMeta* backwardView(const at::Tensor& tensor) {
    DifferentiableViewMeta* view = torch::autograd::impl::get_view_autograd_meta(tensor);
    return view != nullptr && view->has_bw_view() ? view : nullptr;
  }

 private:
  at::Tensor tensor_;
  // its kind of pointer differs by version
  decltype(torch::autograd::AutogradMeta::grad_fn_) function_;
  uint32_t result_ = 0;
  bool requires_grad_ = false;
  std::shared_ptr<torch::autograd::hooks_list> hooks_;
  std::optional<uint32_t> version_;
};

Ref<> hooksOf(PyObject* tensor) {
  return newRef(reinterpret_cast<THPVariable*>(tensor)->backward_hooks);
}

}  // namespace

struct SavedTensor::Held {
  explicit Held(PyObject* object, at::Tensor copy)
      : tensor(newRef(object)),
        data(std::move(copy)),
        version(THPVariable_Unpack(object)._version()),
        own(THPVariable_Unpack(object)),
        hooks(hooksOf(object)) {
    if (const auto* view = History::backwardView(THPVariable_Unpack(object)))
      base.emplace(view->get_backward_view().base_);
  }

  Ref<> tensor;
  at::Tensor data;
  int64_t version;
  History own;
  std::optional<History> base;  // a write to a view makes a function for it
  Ref<> hooks;
};

SavedTensor::SavedTensor(std::unique_ptr<Held> held) : held_(std::move(held)) {}
SavedTensor::~SavedTensor() = default;
SavedTensor::SavedTensor(SavedTensor&&) noexcept = default;
SavedTensor& SavedTensor::operator=(SavedTensor&&) noexcept = default;

SavedTensor SavedTensor::of(PyObject* object, int64_t most_bytes) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  const bool its_class_decides = tensor.unsafeGetTensorImpl()->is_python_dispatch();
  if (tensor.layout() != at::kStrided || tensor.is_quantized() || tensor.is_inference() ||
      its_class_decides || static_cast<int64_t>(tensor.nbytes()) > most_bytes)
    return SavedTensor(nullptr);
  at::AutoDispatchBelowADInplaceOrView below;
  return SavedTensor(std::make_unique<Held>(object, tensor.clone()));
}

void SavedTensor::putBack() const {
  const at::Tensor& tensor = THPVariable_Unpack(held_->tensor.get());
  at::AutoDispatchBelowADInplaceOrView below;
  // Of elements that lie in one place (an expanded tensor) torch writes to one only.
  at::Tensor into = tensor, from = held_->data;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (tensor.stride(dim) != 0 || tensor.size(dim) < 2) continue;
    into = into.narrow(dim, 0, 1);
    from = from.narrow(dim, 0, 1);
  }
  into.copy_(from);
  if (held_->base) held_->base->putBack();
  held_->own.putBack();
  PyObject*& hooks = reinterpret_cast<THPVariable*>(held_->tensor.get())->backward_hooks;
  stealRef(std::exchange(hooks, newRef(held_->hooks.get()).release()));
  // shared, not copied
  c10::VariableVersion counter = tensor.unsafeGetTensorImpl()->version_counter();
  counter.set_version(held_->version);
}

}  // namespace stator::tensor
