// Iterators over containers and objects of the program's classes; lists of what they give.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// Over a dict or a view of one, from its end; it finds out about changes as a forward one does.
Out reversedKeys(Tracer& tracer, PyObject* iterable);
// an iterator (trace value)
Out iterate(Tracer& tracer, PyObject* iterable);
Out listOf(Tracer& tracer, PyObject* iterable, Py_ssize_t most = -1);
// The same where CPython says `otherwise` of what cannot be iterated over (PySequence_Fast).
Out listOrError(Tracer& tracer, PyObject* iterable, const char* otherwise);
// As list() does it, which asks the iterable for its length.
Out sizedListOf(Tracer& tracer, PyObject* iterable);
Flow askForLength(Tracer& tracer, PyObject* iterable);
Flow fillList(Tracer& tracer, PyObject* list, PyObject* iterator, Py_ssize_t most);
// all items, as a fresh list of trace values
Out setOperand(Tracer& tracer, PyObject* iterable);

}  // namespace stator::interpret
