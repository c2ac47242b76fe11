// The facts of a real tensor, for capture.
#pragma once

#include "base/python.h"
#include "shapes/tensor_meta.h"

namespace stator::tensor {

// `tensor` is a torch.Tensor or a subclass with sizes of its own (no SymInts). storage_id is left at 0: ids belong to a trace.
shapes::TensorMeta metaOf(PyObject* tensor);
// The address of the tensor's storage, as an identity: equal for tensors that share one, null if it has none.
const void* storageOf(PyObject* tensor);

}  // namespace stator::tensor
