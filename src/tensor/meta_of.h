// The facts of a real tensor, read from its TensorImpl.
#pragma once

#include "base/python.h"
#include "shapes/tensor_meta.h"

#include <cstdint>

namespace stator::tensor {

// storage_id stays 0: who collects several tensors numbers their storages, told apart by storageOf.
shapes::TensorMeta metaOf(PyObject* tensor);
bool hasPlainFacts(PyObject* object);   // it has sizes: no nested tensor of C++
uintptr_t storageOf(PyObject* tensor);  // equal for tensors that share a storage; 0 if it has none

}  // namespace stator::tensor
