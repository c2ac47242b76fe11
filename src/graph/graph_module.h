// Doors of the room `graph` in stator._core: for tests and tools. Capture itself uses the C++ interfaces.
#pragma once

#include "base/python.h"

namespace stator::graph {

extern PyMethodDef graph_methods[];
bool initTypes();  // once, at module init

}  // namespace stator::graph
