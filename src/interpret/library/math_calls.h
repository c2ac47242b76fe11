// Numbers that the graph computes, as functions of numbers see them.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// A float that only the run of the graph will tell.
bool isUnknownFloat(PyObject* value);
// One that the program has a value of, which the graph gets.
bool isKnownFloat(PyObject* value);
// floor or ceil of a quotient of two ints, of which the graph computes one at least: an int again. As long as the
// dividend fits into a double, a quotient that is no integer is not rounded to one, so the integers' own division says
// the same. Null: not for this one.
Out roundedQuotient(Tracer& tracer, PyObject* object, bool up);

}  // namespace stator::interpret
