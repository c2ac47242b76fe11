#include "shapes/tensor_meta.h"

#include "shapes/dtypes.h"

namespace stator::shapes {

int64_t TensorMeta::numel() const {
  int64_t count = 1;
  for (Dim size : sizes) count *= size;
  return count;
}

bool TensorMeta::isContiguous() const {
  if (numel() == 0) return true;
  Dim expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= sizes[i];
  }
  return true;
}

std::string TensorMeta::text() const {
  std::string text = shortName(dtype);
  text += '[';
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(sizes[i]);
  }
  text += ']';
  return text;
}

}  // namespace stator::shapes
