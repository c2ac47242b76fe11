// Iterators: of containers, of the program's classes, from outside.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// an iterator (trace value)
Out iterate(Tracer& tracer, PyObject* iterable);
// ok with a null Ref: exhausted
Out next(Tracer& tracer, PyObject* iterator);
// of a list, tuple or range
Out nextFromOutside(Tracer& tracer, PyObject* iterator);
Out listOf(Tracer& tracer, PyObject* iterable, Py_ssize_t most = -1);
// As list() does it, which asks the iterable for its length.
Out sizedListOf(Tracer& tracer, PyObject* iterable);
Flow askForLength(Tracer& tracer, PyObject* iterable);
Flow fillList(Tracer& tracer, PyObject* list, PyObject* iterator, Py_ssize_t most);
// all items, as a fresh list of trace values
Out setOperand(Tracer& tracer, PyObject* iterable);

}  // namespace stator::interpret
