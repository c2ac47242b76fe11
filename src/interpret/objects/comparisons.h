// Comparisons, along CPython's do_richcompare.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

Out compare(Tracer& tracer, int operation, PyObject* left, PyObject* right);
// What `owner.__eq__(self, other)` and its like give for a class written in C: NotImplemented, where it knows nothing
// of the other.
Out compareSlot(Tracer& tracer, PyTypeObject* owner, int operation, PyObject* self,
                PyObject* other);
// Py_LT ... Py_GE of the method's name; -1: it is none of theirs.
int comparisonOf(const char* method);

}  // namespace stator::interpret
