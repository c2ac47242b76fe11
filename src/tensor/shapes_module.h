// Method table of shape inference for stator._core.
#pragma once

#include "base/python.h"

namespace stator::tensor {

extern PyMethodDef shapes_methods[];

}  // namespace stator::tensor
