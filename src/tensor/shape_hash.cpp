#include "tensor/shape_hash.h"

#include "base/hot.h"
#include "tensor/impl_fields.h"
#include "tensor/tensor_guard.h"

#include <ATen/core/grad_mode.h>

namespace stator::tensor {

STATOR_HOT uint64_t shapeHash(PyObject* object) {
  if (!isExactTensor(object) && !isTensor(object)) return 0;
  constexpr uint64_t kFactor = 0x9E37'79B9'7F4A'7C15;
  const c10::TensorImpl& impl = implOf(object);
  const c10::impl::SizesAndStrides& shape = ImplFields::shape(impl);
  uint64_t hash = ImplFields::dtypeAndDevice(impl) + 1;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    hash = (hash ^ static_cast<uint64_t>(shape.sizes_data()[dim])) * kFactor;
  return hash | 1;
}

STATOR_HOT bool gradMode() { return at::GradMode::is_enabled(); }

}  // namespace stator::tensor
