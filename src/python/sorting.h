// How list.sort() goes about it, where versions differ: code of the program's that compares sees the order.
#pragma once

#include "base/python.h"

namespace stator {

// The run that a list begins with: up to 3.12 it is falling if the second item is less than the first, and ends at the
// first item that breaks the rule. Since 3.13 a falling run may hold equal items, and a rising end is taken along.
constexpr bool kFallingRunsHoldEqualItems = PY_MINOR_VERSION >= 13;

}  // namespace stator
