// What CPython's iterators over dicts, sets and deques find out about changes while they are under way.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// How many places of its table a dict or set has handed out so far, deleted ones included, and the key in a dict's
// last: a key that comes back after it was deleted gets a new one. Null: a container of another kind.
Ref<> placesOf(PyObject* container);
// The dict, set or deque (trace value) that a kSnapshot goes over; null: nothing that changes.
Out changeable(Tracer& t, PyObject* owner);
// Deques and OrderedDicts count their changes: C's own iterator over what the trace keeps of one, which takes each step
// with the trace's.
Ref<> countingIterator(PyObject* items, bool backwards = false);
// Before a step of a kSnapshot. Once told of a change, CPython's iterators say it each time.
Flow checkUnchanged(Tracer& t, PyObject* object);
// C's own iterator over a deque, which takes each step with the trace's; after a step of both: whether it found the
// deque changed.
Ref<> watchDeque(PyObject* items);
bool sawChange(const Ref<>& watch);
// What a kSnapshot goes over has changed since in a way that CPython's iterator would notice.
bool noticesChange(Tracer& tracer, PyObject* iterator);

}  // namespace stator::interpret
