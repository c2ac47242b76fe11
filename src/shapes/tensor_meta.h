// The facts of a tensor that capture works with. Dtypes, layouts and devices by torch's own numbers (torch/headeronly).
#pragma once

#include <cstdint>
#include <string>
#include <torch/headeronly/core/DeviceType.h>
#include <torch/headeronly/core/ScalarType.h>
#include <vector>

namespace stator::shapes {

using DType = c10::ScalarType;
using DeviceType = c10::DeviceType;
using Dim = int64_t;
using Dims = std::vector<Dim>;

struct TensorMeta {
  Dims sizes;
  Dims strides;
  DType dtype = DType::Float;
  DeviceType device = DeviceType::CPU;
  int16_t device_index = -1;
  int8_t layout = 0;  // c10::Layout
  bool requires_grad = false;
  bool is_leaf = true;
  bool is_wrapped_number = false;
  bool is_conj = false;
  bool is_neg = false;
  bool is_inference = false;
  bool is_parameter = false;
  int64_t storage_offset = 0;
  int64_t storage_bytes = 0;
  // tensors that share a storage share the id (within one trace); 0: unknown or own
  uint32_t storage_id = 0;

  bool operator==(const TensorMeta&) const = default;
  int64_t numel() const;
  bool isContiguous() const;
  std::string text() const;  // f32[2, 3]
};

}  // namespace stator::shapes
