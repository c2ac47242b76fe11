// In-place operations that would raise when they run.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// an in-place operation that would raise when it runs; its first tensor is what it writes to.
bool writeMayFail(Tracer& tracer, PyObject* target, const std::vector<PyObject*>& arguments,
                  const std::vector<PyObject*>& tensors, std::string& why);

}  // namespace stator::interpret
