// Dicts and sets with keys that have their own __hash__ or __eq__: the methods are traced at the moments at
// which CPython asks them.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// the class's own __hash__
Out hashOf(Tracer& tracer, PyObject* value);
// A dict or set, a key or a tuple of them that has or is such a key.
bool hasOwnKeys(Tracer& tracer, PyObject* value);
// The key, or what it is made of, is to be hashed and compared by methods of its class, which withOwnKeys() asks for.
Flow noteOwnKeys(Tracer& tracer, PyObject* key);
// Runs native code that hashes and compares keys. `changed` is what it writes to, or null. Ok with null: it gave
// nothing, and no error.
using KeyedOperation = std::function<PyObject*(PyObject* changed)>;
Out withOwnKeys(Tracer& tracer, PyObject* changed, const KeyedOperation& operation);
Out answerKeys(Tracer& tracer, PyObject* changed, const KeyedOperation& operation);
// with tensors in it: hashed by their addresses
Out tupleHash(Tracer& tracer, PyObject* tuple);
bool sameHashAtExit(Tracer& tracer, PyObject* key);
// A key that is known to be another than all in the dict; hash -1: the native one. False with an error set.
bool addKey(Tracer& tracer, PyObject* dict, PyObject* key, PyObject* value, Py_hash_t hash);

}  // namespace stator::interpret
