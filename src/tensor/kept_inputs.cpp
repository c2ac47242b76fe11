#include "tensor/kept_inputs.h"

#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <optional>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

namespace stator::tensor {

namespace {

// A tensor without its memory.
struct Outline {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  std::vector<int64_t> sizes, strides;
  int64_t offset;
  at::TensorOptions options;
  torch::autograd::Edge edge;
  c10::VariableVersion version;

  static bool fits(const at::Tensor& tensor) {
    return tensor.layout() == at::kStrided && tensor.has_storage() && !tensor.is_conj() &&
           !tensor.is_neg() && !tensor.is_inference() && !tensor.is_quantized() &&
           !tensor.key_set().has(c10::DispatchKey::Python);
  }
  explicit Outline(const at::Tensor& tensor)
      : storage(tensor.storage().getWeakStorageImpl()),
        sizes(tensor.sizes().vec()),
        strides(tensor.strides().vec()),
        offset(tensor.storage_offset()),
        options(tensor.options()),
        version(torch::autograd::impl::version_counter(tensor)) {
    if (tensor.requires_grad()) edge = torch::autograd::impl::gradient_edge(tensor);
  }
  // Undefined: its memory is gone.
  at::Tensor tensor() const {
    auto held = storage.lock();
    if (!held) return {};
    const torch::autograd::AutoGradMode off(false);
    at::Tensor made = at::empty({0}, options);
    made.set_(c10::Storage(std::move(held)), offset, sizes, strides);
    torch::autograd::impl::set_version_counter(made, version);
    if (edge.function) torch::autograd::impl::set_gradient_edge(made, edge);
    return made;
  }
};

}  // namespace

struct KeptInputs::Kept {
  std::optional<Outline> outline;
  at::Tensor tensor;     // with all its memory, in place of an outline
  int64_t version = -1;  // of an inference tensor none is known
  Ref<> other;           // what is no tensor

  void keep(const at::Tensor& input) {
    // The function of a leaf that gets gradients holds it, and the graph's function that one.
    const bool held = input.is_leaf() && input.requires_grad();
    if (held || !Outline::fits(input)) {
      tensor = input;
    } else {
      outline.emplace(input);
    }
    if (!input.is_inference()) version = static_cast<int64_t>(input._version());
  }
};

KeptInputs::KeptInputs(PyObject* const* inputs, size_t count)
    : kept_(std::make_unique<Kept[]>(count)), count_(count) {
  for (size_t i = 0; i < count; ++i) {
    if (THPVariable_Check(inputs[i])) {
      kept_[i].keep(THPVariable_Unpack(inputs[i]));
    } else {
      kept_[i].other = newRef(inputs[i]);
    }
  }
}

KeptInputs::~KeptInputs() = default;

Ref<> KeptInputs::list() const {
  Ref<> made = stealRef(PyList_New(static_cast<Py_ssize_t>(count_)));
  for (size_t i = 0; made && i < count_; ++i) {
    const Kept& kept = kept_[i];
    const at::Tensor tensor = kept.outline ? kept.outline->tensor() : kept.tensor;
    if (!kept.other && !tensor.defined()) return newRef(Py_None);
    if (kept.version >= 0 && static_cast<int64_t>(tensor._version()) != kept.version) {
      PyErr_Format(PyExc_RuntimeError,
                   "one of the variables needed for gradient computation has been modified by an "
                   "inplace operation: an input of a compiled graph, of %lld dimensions, is at "
                   "version %lld; expected version %lld instead",
                   static_cast<long long>(tensor.dim()), static_cast<long long>(tensor._version()),
                   static_cast<long long>(kept.version));
      return nullptr;
    }
    Ref<> value = kept.other ? kept.other : stealRef(THPVariable_Wrap(tensor));
    if (!value) return nullptr;
    PyList_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), value.release());
  }
  return made;
}

}  // namespace stator::tensor
