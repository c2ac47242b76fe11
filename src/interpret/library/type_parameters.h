// Type variables that the trace makes, where they are of C: CPython 3.12 and later. See type_parameters.cpp.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// CALL_INTRINSIC_1: `def f[T]`, `def f[*T]`, `def f[**T]`, by the number of the intrinsic.
Out makeTypeParameter(Tracer& tracer, int which, PyObject* name);

// Of a type variable that the trace has made: (callable, arguments ...), which make it again. Null: of anything else.
PyObject* typeParameterRecipe(Tracer& tracer, PyObject* object);

}  // namespace stator::interpret
