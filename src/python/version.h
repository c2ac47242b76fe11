// The CPython version that this build is for; the only place outside the implementation files that asks.
#pragma once

#include "base/python.h"

namespace stator {

constexpr int kPythonMinor = PY_MINOR_VERSION;

}  // namespace stator
