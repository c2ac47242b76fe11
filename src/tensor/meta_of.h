// The facts of a real tensor, read from its TensorImpl.
#pragma once

#include "base/python.h"
#include "base/ref.h"
#include "shapes/tensor_meta.h"

#include <cstdint>

namespace stator::tensor {

// storage_id stays 0: who collects several tensors numbers their storages, told apart by storageOf.
shapes::TensorMeta metaOf(PyObject* tensor);
bool hasPlainFacts(PyObject* object);   // it has sizes, without names: no nested tensor of C++
bool isOfTransform(PyObject* tensor);   // a wrapper of one of torch.func's transforms
uintptr_t storageOf(PyObject* tensor);  // equal for tensors that share a storage; 0 if it has none
bool deviceExists(shapes::DeviceType type, int16_t index);
int64_t versionOf(PyObject* tensor);  // counts in-place writes; -1 if it does not

}  // namespace stator::tensor
