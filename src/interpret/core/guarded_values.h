// Values that cannot change, as guards hold them: equal ones, or their parts. The program's own object is not kept
// alive by a guard that asks for its value alone.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// The value is guarded whole.
void guardConstant(Tracer& tracer, PyObject* raw, const sources::Source* source);

// Of Decimals, dates and matches: a callable that tells the parts as a tuple. Equal parts make equal values.
// Borrowed; null: another value.
PyObject* partsReader(PyObject* value);
// Class and arguments by which an equal value is made anew, of those that have such; null: none.
Ref<> makingOf(PyObject* value);

}  // namespace stator::interpret
