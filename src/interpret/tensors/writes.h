// In-place operations that would raise when they run.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// Autograd lets nobody write to one of several views that one call gave. A backend that traces would fail in other
// words: the program goes on before that call. `tensors`: of the operation that writes.
Flow writeToOneOfViews(Tracer& tracer, PyObject* stand_in, const std::vector<PyObject*>& tensors);
// The memory is that of an input whose elements lie in one place (an expanded tensor): AOTAutograd cannot write to it.
bool isOfExpandedInput(Tracer& tracer, uint32_t storage);
// an in-place operation that would raise when it runs; its first tensor is what it writes to.
bool writeMayFail(Tracer& tracer, PyObject* target, const std::vector<PyObject*>& arguments,
                  const std::vector<PyObject*>& tensors, std::string& why);

}  // namespace stator::interpret
