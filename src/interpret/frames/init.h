// What is set up once for each process, before the first capture.
#pragma once

#include "base/python.h"

namespace stator::interpret {

// Known types, names and the table of calls; what belongs to modules that have been loaded since the last call. False
// with an error set.
bool initTracer();

extern PyMethodDef tracer_methods[];

}  // namespace stator::interpret
