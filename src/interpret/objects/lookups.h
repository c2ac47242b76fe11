// Keys of dicts and sets: whether native code may hash them, and what stands under one.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// ok with null: missing
Out dictGet(Tracer& tracer, PyObject* dict, PyObject* key);
bool hashableNatively(Tracer& tracer, PyObject* key);
void guardDefaultHash(Tracer& tracer, PyTypeObject* type);
// ok: native code may hash and compare it; otherwise raises or breaks
Flow requireHashable(Tracer& tracer, PyObject* key);

}  // namespace stator::interpret
