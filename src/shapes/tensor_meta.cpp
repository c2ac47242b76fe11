#include "shapes/tensor_meta.h"

#include "shapes/dtypes.h"

namespace stator::shapes {

bool identical(const Dims& left, const Dims& right) {
  if (left.size() != right.size()) return false;
  for (size_t i = 0; i < left.size(); ++i) {
    if (!left[i].identical(right[i])) return false;
  }
  return true;
}

bool TensorMeta::operator==(const TensorMeta& other) const {
  return identical(sizes, other.sizes) && identical(strides, other.strides) &&
         dtype == other.dtype && device == other.device && device_index == other.device_index &&
         layout == other.layout && requires_grad == other.requires_grad &&
         is_leaf == other.is_leaf && is_wrapped_number == other.is_wrapped_number &&
         is_conj == other.is_conj && is_neg == other.is_neg && is_inference == other.is_inference &&
         is_parameter == other.is_parameter && storage_offset.identical(other.storage_offset) &&
         storage_bytes.identical(other.storage_bytes) && storage_id == other.storage_id;
}

bool TensorMeta::isSymbolic() const {
  bool symbolic = !storage_offset.isStatic();
  for (Dim size : sizes) symbolic |= !size.isStatic();
  for (Dim stride : strides) symbolic |= !stride.isStatic();
  return symbolic;
}

Dim TensorMeta::numel() const {
  Dim count = 1;
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
    text += sizes[i].text();
  }
  text += ']';
  return text;
}

}  // namespace stator::shapes
