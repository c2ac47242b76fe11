// C functions that are run for real.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// a pure built-in over native-safe arguments
Out callNative(Tracer& tracer, PyObject* callable, const Args& args);
Out fromNativeMade(Tracer& tracer, Ref<> object);

}  // namespace stator::interpret
