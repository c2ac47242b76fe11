// What generators do from version to version.
#pragma once

#include "base/python.h"

namespace stator {

// generator.close() gives what the generator returns when it is told, from 3.13 on.
constexpr bool kCloseGivesResult = PY_MINOR_VERSION >= 13;

// What generator.throw(type, value, traceback) says, from 3.12 on.
constexpr const char* kThrowsInParts =
    PY_MINOR_VERSION < 12
        ? nullptr
        : "the (type, exc, tb) signature of throw() is deprecated, use the single-arg signature "
          "instead.";

}  // namespace stator
