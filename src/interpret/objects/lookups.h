// Keys of dicts and sets: whether native code may hash them, and what stands under one.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// ok with null: missing
Out dictGet(Tracer& tracer, PyObject* dict, PyObject* key);
// What a key is, is guarded: a tuple by what is in it, a function by being none of the others, or this very one (pin:
// among keys that have no source).
Flow knowKey(Tracer& tracer, PyObject* key, bool pin = false);
// A number that is a symbol and none of the keys (items of a dict or set): that it differs from each is guarded. False:
// it may be one.
bool differsFromKeys(Tracer& tracer, PyObject* items, PyObject* number);
bool hashableNatively(Tracer& tracer, PyObject* key);
void guardDefaultHash(Tracer& tracer, PyTypeObject* type);
// ok: native code may hash and compare it; otherwise raises or breaks
Flow requireHashable(Tracer& tracer, PyObject* key);

}  // namespace stator::interpret
