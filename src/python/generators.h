// What generators do from version to version.
#pragma once

#include "base/python.h"

namespace stator {

// generator.close() gives what the generator returns when it is told, from 3.13 on.
constexpr bool kCloseGivesResult = PY_MINOR_VERSION >= 13;

}  // namespace stator
