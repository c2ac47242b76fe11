// Iterators: of containers, of the program's classes, from outside.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// Over a dict or a view of one, from its end; it finds out about changes as a forward one does.
Out reversedKeys(Tracer& tracer, PyObject* iterable);
// an iterator (trace value)
Out iterate(Tracer& tracer, PyObject* iterable);
// ok with a null Ref: exhausted
Out next(Tracer& tracer, PyObject* iterator);
// C's own iterator over a deque, which takes each step with the trace's; after a step of both: whether it found the deque changed.
Ref<> watchDeque(PyObject* items);
bool sawChange(const Ref<>& watch);
// What a kSnapshot goes over has changed since in a way that CPython's iterator would notice.
bool noticesChange(Tracer& tracer, PyObject* iterator);
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
