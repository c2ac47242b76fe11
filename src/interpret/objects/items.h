// What subscripts and iteration share.
#pragma once

#include "base/python.h"
#include "interpret/core/tracer.h"

namespace stator::interpret {

// A list, tuple, dict, set or deque whose `method` is C's own.
bool isNativeContainer(Tracer& tracer, PyObject* object, PyObject* method);
bool isTextLike(PyObject* object);
// What an outside bytearray holds, once it is looked at.
void guardBytes(Tracer& tracer, PyObject* object);

Out getItem(Tracer& tracer, PyObject* container, PyObject* key);
Flow setItem(Tracer& tracer, PyObject* container, PyObject* key, PyObject* value);
Flow delItem(Tracer& tracer, PyObject* container, PyObject* key);
Out length(Tracer& tracer, PyObject* container);
// Py_True / Py_False
Out truth(Tracer& tracer, PyObject* value);
Out contains(Tracer& tracer, PyObject* container, PyObject* item);
// `is`
Out same(Tracer& tracer, PyObject* left, PyObject* right);
// ok with null: missing
Out dictGet(Tracer& tracer, PyObject* dict, PyObject* key);
bool hashableNatively(Tracer& tracer, PyObject* key);
void guardDefaultHash(Tracer& tracer, PyTypeObject* type);
// ok: native code may hash and compare it; otherwise raises or breaks
Flow requireHashable(Tracer& tracer, PyObject* key);

}  // namespace stator::interpret
