// Which blocks of this library's code have been reached: for the fuzzer that learns, in builds with STATOR_COUNT_BLOCKS
// alone (elsewhere the table is empty, and nothing is counted).
#pragma once

#include "base/python.h"

namespace stator {

// coverage(): numbers of the blocks that were reached for the first time since it was called last.
extern PyMethodDef block_methods[];

}  // namespace stator
