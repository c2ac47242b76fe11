// The C part of compiled modules (stator/_modules.py).
#pragma once

#include "base/ref.h"

namespace stator::runtime {

bool addModuleBase(PyObject* module);

}  // namespace stator::runtime
