// The C part of compiled modules (stator/_modules.py).
#pragma once

#include "base/ref.h"

namespace stator::runtime {

bool addModuleBase(BorrowedRef<> module);

}  // namespace stator::runtime
