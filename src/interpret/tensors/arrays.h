// NumPy arrays in traces (arrays.cpp).
#pragma once

#include "base/python.h"
#include "interpret/core/flow.h"
#include "interpret/core/tracer.h"

namespace stator::interpret {

bool isTraceArray(PyObject* object);           // an Array of stator/polyfills/arrays.py
PyTypeObject* arrayTypeSeen(PyObject* array);  // the type that the program sees
PyObject* arrayTensor(PyObject* array);        // its stand-in, borrowed
bool isArrayScalar(PyObject* array);           // one of NumPy's single numbers
bool isArrayFrozen(PyObject* array);           // read-only
bool isArrayCode(PyCodeObject* code);          // of the polyfills: never left half way
bool holdsArray(const Args& args);
// What makes a tensor from arrays in the place of torch's function; null: it takes none.
PyObject* fromArrays(PyObject* callable);

// Ok with null: no NumPy array that a tensor could stand for
Out arrayFromOutside(Tracer& tracer, PyObject* raw, const sources::Source* source);
// Under fullgraph=True, where a capture breaks that has NumPy's numbers as inputs: it starts over with constants in
// their places.
bool numbersBecomeConstant(Tracer& tracer);
// one that is drawn when the captured part runs; `seen` has its facts
Out arrayDrawn(Tracer& tracer, PyObject* seen, const sources::Source* source);

}  // namespace stator::interpret
