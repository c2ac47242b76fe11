// The type stator._core.Specimen: what the debugging tools in Python do with graphs.
#pragma once

#include "base/python.h"
#include "base/ref.h"

namespace stator::debug {

bool addSpecimenType(PyObject* module);

}  // namespace stator::debug
