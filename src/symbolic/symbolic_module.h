// Doors for tests: expressions from text, their canonical text, values and settled conditions.
#pragma once

#include "base/python.h"

namespace stator::symbolic {

extern PyMethodDef symbolic_methods[];  // ends with an empty entry

}  // namespace stator::symbolic
