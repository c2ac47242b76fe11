// Python functions: arguments bound, a frame entered.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

Out inlineFunction(Tracer& tracer, PyObject* function, const Args& args, Then then);

}  // namespace stator::interpret
