// repr() and str() of containers: C's own words, of what the trace knows to be in them.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// A list, tuple, dict, set or deque, or an instance of a class made from one; also what a mappingproxy shows.
bool isTextContainer(PyObject* value);
// What `owner.__repr__(value)` gives for a built-in class, whatever a subclass puts over it.
Out containerText(Tracer& tracer, PyTypeObject* owner, PyObject* value);
// str() or repr() of one whose class has no __str__ or __repr__ in Python.
Out textOf(Tracer& tracer, PyObject* value, bool repr);
// What a method of the program's own (`__repr__`, `__str__`, `__format__`) says for `asked`, which may be another one
// of these.
Out programmedText(Tracer& tracer, PyObject* value, const char* method, const char* asked,
                   const Args& args);
// `<function f at 0x...>`. One that the trace makes may not be seen beside its text; one from outside is guarded by its
// identity, where the only other way would be an error.
Out textOfFunction(Tracer& tracer, PyObject* function);
// Native code that shows the value would show another class in its stead.
bool losesClass(Tracer& tracer, PyObject* value, PyObject* instead);

}  // namespace stator::interpret
