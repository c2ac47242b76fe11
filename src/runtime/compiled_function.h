// stator._core.CompiledFunction(fn, cache): what stator.compile returns for a function, method, lambda or other
// callable. Calling it calls `fn` while `cache` serves the thread's frames. With cache None it is a disabled function:
// `fn` and all it calls run natively. It behaves like the function that it wraps: it binds as a method, shows fn's
// names, doc and signature, and reads of any other attribute go to fn unless the compiled function has one of its own.
#pragma once

#include "base/python.h"
#include "base/ref.h"

namespace stator::runtime {

class Cache;
class DirectCall;

struct CompiledFunction {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* function;   // owned
  PyObject* cache;      // owned; a _core.Cache, or None: disabled
  Cache* native_cache;  // the one inside `cache`; null: run natively
  const void* root;     // the function's code, as a name; null: something else
  DirectCall* direct;   // owned; see runtime/direct_call.h
  PyObject* dict;       // owned; null until an attribute is set
  PyObject* weakrefs;
};

extern PyTypeObject CompiledFunctionType;
inline bool isCompiledFunction(PyObject* object) {
  return Py_TYPE(object) == &CompiledFunctionType;
}

// Whether calls of compiled functions run natively for now: stator.set_stance("force_eager").
bool forceEager();

// Readies the type and adds it, and what belongs to it, to stator._core.
bool addCompiledFunction(PyObject* module);

}  // namespace stator::runtime
