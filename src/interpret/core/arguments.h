// What handlers of calls say about their arguments and results.
#pragma once

#include "interpret/core/tracer.h"

#include <string>

namespace stator::interpret {

// Of a function or class, for messages.
std::string nameOf(PyObject* callable);
std::string describe(PyObject* callable);  // the qualified name, of classes too

// The real call raises CPython's own TypeError.
inline Flow wrongArguments(Tracer& t, const char* name) {
  return t.breakWith(breaks::Reason::kRaises,
                     std::string(name) + "() gets arguments that do not fit");
}

inline Ref<> boolean(bool value) { return newRef(value ? Py_True : Py_False); }

}  // namespace stator::interpret

// In a handler with `t` and `args`: as many positional arguments, and no others.
#define NEED(n, name) \
  if (args.values.size() != (n) || args.keywordCount() != 0) return wrongArguments(t, name)
