// Tensors of one element whose value the trace knows.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// a real tensor of one element, if the trace knows its value; null otherwise
Ref<> knownTensor(Tracer& tracer, PyObject* stand_in);
Ref<> knownSlices(Tracer& tracer, PyObject* index);

}  // namespace stator::interpret
