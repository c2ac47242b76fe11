// Numbers in tensors that were there before the trace. Reading them into Python needs no break: a later call reads them
// where the entry begins, as it reads ints and floats of the program's.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// The number that a tensor of one element holds, or that was computed of such ones; ok with null: it may not be read
// there.
Out outsideNumber(Tracer& tracer, PyObject* stand_in);
// The same where the program branches on it; null also of one of several that have been both true and false at captures
// of this place.
Out outsideTruth(Tracer& tracer, PyObject* stand_in);
// What a method without arguments gives that reads a tensor: item(), tolist(), int() and the like; ok with null: the
// same.
Out readOutside(Tracer& tracer, PyObject* method, PyObject* stand_in);
// An argument that is, or holds, tensors of one whole number, with ints in their places, as torch reads sizes and
// bounds; ok with null: there is nothing to replace. `any`: whichever they are, the captured part is the same.
Out outsideSizes(Tracer& tracer, PyObject* argument, bool any = false);

}  // namespace stator::interpret
