// What the driver asks about frames that it is to run. Answered by the captured side; the driver itself knows nothing
// of it, and so can be built and tested without torch (tests/frames).
#pragma once

#include "base/ref.h"
#include "runtime/module_call.h"

namespace stator::runtime {

class Cache;

// The function is marked to run natively, with all that it calls.
bool isMarkedNative(PyFunctionObject* function);
// The code with which importlib loads a module: all that the module's body calls runs natively.
bool importsModule(PyCodeObject* code);
// A function of ours that stands for one in C: it has no frame in eager, and so no line in tracebacks.
bool standsForNative(PyCodeObject* code);

// The cache inside a _core.Cache object; null for None. Anything else: null with a TypeError set.
Cache* cacheOf(PyObject* object);

}  // namespace stator::runtime
