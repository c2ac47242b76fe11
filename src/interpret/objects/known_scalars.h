// Tensors of one element whose value the trace knows.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// a real tensor of one element, if the trace knows its value; null otherwise
Ref<> knownTensor(Tracer& tracer, PyObject* stand_in);
// What a value of the graph is for the inputs of this call, computed for real; null: that would have effects
Ref<> computedNow(Tracer& tracer, PyObject* stand_in);
Ref<> knownSlices(Tracer& tracer, PyObject* index);
// An index whose tensors of one whole number are numbers that the graph reads; ok with null: it has none.
Out readIndex(Tracer& tracer, PyObject* index);
// An argument that is, or holds, tensors of whole numbers that are known, with ints in their places, as torch reads
// sizes; null: there is nothing to replace.
Ref<> knownSizes(Tracer& tracer, PyObject* argument);

}  // namespace stator::interpret
