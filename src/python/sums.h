// How sum() adds floats, where versions differ.
#pragma once

#include "base/python.h"

namespace stator {

// Since 3.12 what the additions of floats lose to rounding is added at the end.
constexpr bool kSumsCompensate = PY_MINOR_VERSION >= 12;

}  // namespace stator
