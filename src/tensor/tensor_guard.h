// What a guard knows of a tensor: read straight from TensorImpl, compared field by field. The header needs no torch headers.
#pragma once

#include "base/python.h"
#include "base/ref.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace stator::tensor {

bool isTensor(PyObject* object);       // torch.Tensor or a subclass
bool isExactTensor(PyObject* object);  // torch.Tensor or nn.Parameter itself

struct TensorGuard {
  Ref<PyTypeObject> type;  // exact Python type
  int dtype = 0;           // c10::ScalarType
  int device_type = 0;
  int device_index = -1;
  bool requires_grad = false;
  uint64_t dispatch_keys = 0;  // raw key set, thread's autograd/ADInplaceOrView bits apart
  std::vector<int64_t> sizes;    // -1: dynamic
  std::vector<int64_t> strides;  // -1: dynamic
  bool has_strides = true;       // false for layouts without strides
  bool is_view_of_inference = false;
  uint64_t dynamo_attributes = 0;  // presence of _dynamo_*_indices marks

  static std::shared_ptr<const TensorGuard> of(PyObject* tensor);
  bool check(PyObject* object) const;
  std::string explain(PyObject* object) const;  // "dtype: was float32, is float64"; empty if it matches
  std::string text() const;
};

// Global state that captured code depends on: one snapshot, one compare.
struct GlobalState {
  uint64_t words[8] = {};
  Ref<> modes;  // active torch function / dispatch modes, as a tuple of types; null when there are none
  static GlobalState now();
  bool equals(const GlobalState& other) const;
  std::string difference(const GlobalState& now) const;
};

}  // namespace stator::tensor
