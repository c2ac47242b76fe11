// The facts of a tensor that capture works with. Dtypes, layouts and devices by torch's own numbers (torch/headeronly).
#pragma once

#include "symbolic/dim.h"

#include <cstdint>
#include <string>
#include <torch/headeronly/core/DeviceType.h>
#include <torch/headeronly/core/ScalarType.h>
#include <vector>

namespace stator::shapes {

using DType = c10::ScalarType;
using DeviceType = c10::DeviceType;
using symbolic::Dim;  // a number, or an expression over the capture's symbols
using Dims = std::vector<Dim>;
bool identical(const Dims& left, const Dims& right);  // as expressions: nothing is decided

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
  Dim storage_offset = 0;
  Dim storage_bytes = 0;
  // tensors that share a storage share the id (within one trace); 0: unknown or own
  uint32_t storage_id = 0;

  bool operator==(const TensorMeta& other) const;  // the same facts: nothing is decided
  Dim numel() const;
  bool isSymbolic() const;
  bool isContiguous() const;
  std::string text() const;  // f32[2, 3]
};

}  // namespace stator::shapes
