// Doors for tests and benchmarks: sources and guards built from Python descriptions, checked against a made-up frame.
#pragma once

#include "base/python.h"

namespace stator::guards {

extern PyMethodDef guards_methods[];  // ends with an empty entry

}  // namespace stator::guards
