// Python functions: arguments bound, a frame entered.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

Out inlineFunction(Tracer& tracer, PyObject* function, const Args& args, Continuation then);
// Past what is special about the function.
Out enterFunction(Tracer& tracer, PyObject* function, const Args& args, Continuation then);

}  // namespace stator::interpret
