// What containers from outside hold: a working copy, guarded whole, once the program looks into one; what it writes
// before that.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// The container to operate on: the shadow of an outside one (made on first use, whole contents guarded), or the object
// itself.
Out contents(Tracer& tracer, PyObject* container);
Out contentsForWrite(Tracer& tracer, PyObject* container);
// A list from outside, under way in list.sort().
bool isBeingSorted(Tracer& tracer, PyObject* container);
// guards keys that have not mattered so far
void knowKeys(Tracer& tracer, values::Info* info);
// the dict (trace value) that a dict view looks into
Out viewedDict(Tracer& tracer, PyObject* view);
// the same kind of view, of that dict's contents
Out viewContents(Tracer& tracer, PyObject* view);
void writeOverlay(Tracer& tracer, values::Info* info, PyObject* key, PyObject* value);
void eraseOverlay(Tracer& tracer, values::Info* info, PyObject* key, bool there_before);
void applyOverlay(Tracer& tracer, values::Info* info, PyObject* shadow);
// no stand-in, no real tensor, nothing outside unread: native code may have it
bool isNativeSafe(Tracer& tracer, PyObject* object, int depth = 0);
// A copy of the value in which outside containers are replaced by their contents, for native calls and graph arguments.
Out plain(Tracer& tracer, PyObject* value);

bool hasStandIn(Tracer& tracer, PyObject* value, int depth = 0);

}  // namespace stator::interpret
