// What a guard asks of a tensor, laid out for the check. For this room's sources alone.
#pragma once

#include "python/objects.h"
#include "tensor/tensor_guard.h"

namespace stator::tensor {

struct TensorFacts {
  PyTypeObject* type;
  uint64_t keys;
  uint64_t dtype_and_device;
  uint64_t marks;
  uint32_t rank;
  uint32_t strides;  // how many strides count: rank, or 0
  bool requires_grad;
  bool any_grad;
  bool dynamic;          // a size or stride of -1 matches anything
  const int64_t* shape;  // sizes, then strides
};

// Whether none of these names is a mark (`mark_dynamic` and its like).
bool keysHaveNoMarks(const StatorKeys* keys);

}  // namespace stator::tensor
