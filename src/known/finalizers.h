// Objects whose end a program notices: finalizers, callbacks of weak references, generators that have a rest to run.
#pragma once

#include "base/python.h"

#include <functional>

namespace stator::known {

bool endIsNoticed(PyObject* object);
// What a trace knows of objects. To those that it touched it keeps references, so that their number does not say who
// else does.
struct KeptByTrace {
  std::function<bool(PyObject*)> touched;
  std::function<bool(PyObject*)> held_elsewhere;  // of one that it touched
};
// The same for what a container, an instance, a bound method, a closure or an exception alone holds, at any level.
bool endOfContentsIsNoticed(PyObject* container, const KeptByTrace& kept);
// Letting go of a reference that a real frame holds runs user code, unless others hold the object too.
bool lastReferenceRunsCode(PyObject* value);

}  // namespace stator::known
