// What tells calls apart by their tensors, as one number.
#pragma once

#include "base/python.h"

#include <cstdint>

namespace stator::tensor {

// Of dtype, device and sizes; 0 for what is no tensor. Runs nothing of the program's.
uint64_t shapeHash(PyObject* object);
bool gradMode();

}  // namespace stator::tensor
