// Instances: __new__, __init__, and functools.lru_cache.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// metaclass_call: a metaclass's own __call__ is asked
Out instantiate(Tracer& tracer, PyTypeObject* type, const Args& args, Continuation then,
                bool metaclass_call = true);
// a functools.lru_cache
Out callCached(Tracer& tracer, PyObject* cache, const Args& args);
Out nativeNew(Tracer& tracer, PyTypeObject* base, const Args& args);
Out nativeInit(Tracer& tracer, PyTypeObject* owner, const Args& args);

}  // namespace stator::interpret
