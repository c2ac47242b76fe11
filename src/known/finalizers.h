// Objects whose end a program notices: finalizers, callbacks of weak references, generators that have a rest to run.
#pragma once

#include "base/python.h"

namespace stator::known {

bool endIsNoticed(PyObject* object);
// The same for what a list, tuple, dict or exception holds.
bool endOfContentsIsNoticed(PyObject* container);
// Letting go of a reference that a real frame holds runs user code, unless others hold the object too.
bool lastReferenceRunsCode(PyObject* value);

}  // namespace stator::known
