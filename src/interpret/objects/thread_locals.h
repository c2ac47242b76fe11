// threading.local: an object whose attributes lie in a dict of the thread that asks.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// One whose class looks up as _thread._local does.
bool isThreadLocal(PyObject* object);
// Its attribute; ok with null: there is none.
Out threadLocalAttr(Tracer& tracer, PyObject* object, PyObject* name);
// value null: deletes it
Flow setThreadLocalAttr(Tracer& tracer, PyObject* object, PyObject* name, PyObject* value);

}  // namespace stator::interpret
