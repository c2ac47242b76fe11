// Being told of changes instead of looking for them: of dicts by CPython's own watchers, which 3.12 and later have; of
// what class an object is of and which dict it has by the setters of `__class__` and `__dict__`, through which every
// such assignment goes.
#pragma once

#include "base/python.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Begins; `changed` is called before a watched dict changes or goes, and may run nothing of Python's. 0: dicts cannot
// be watched here (CPython 3.11, or all watchers are taken).
int stator_watch_start(void (*changed)(PyObject* dict, int goes));
// A watched dict has another version than before.
void stator_watch_dict(PyObject* dict);
void stator_unwatch_dict(PyObject* dict);

// Grows with each assignment to the `__class__` or `__dict__` of an object whose type has no setters of its own.
extern uint64_t stator_assignments;
// Whether instances of the type can get another class or dict in no other way.
int stator_has_watched_setters(PyTypeObject* type);

#ifdef __cplusplus
}
#endif
