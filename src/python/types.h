// What a class holds, in every state that it may be in.
#pragma once

#include "base/python.h"

#ifdef __cplusplus
extern "C" {
#endif

// A class whose mro() is still being asked for has none yet: an empty tuple then. Borrowed.
PyObject* stator_type_mro(PyTypeObject* type);
// The entries of a class; an empty dict for a type in C that nobody has made ready. Borrowed.
PyObject* stator_type_entries(PyTypeObject* type);
// What an error about a slot that is not set calls the class. New reference.
PyObject* stator_name_of_slots_owner(PyTypeObject* type);
// `object.__str__` bound to its object, as slots of C come: CPython 3.13 has no public name for the type.
int stator_is_method_wrapper(PyObject* value);
// A class that Python code has made. Types written in C live on the heap too, more of them with each version, but
// nobody can change those.
static inline int stator_is_user_class(PyTypeObject* type) {
  const unsigned long both = Py_TPFLAGS_HEAPTYPE | Py_TPFLAGS_IMMUTABLETYPE;
  return (type->tp_flags & both) == Py_TPFLAGS_HEAPTYPE;
}
// The nearest base written in C: object, dict, list, ... Borrowed.
static inline PyTypeObject* stator_native_base(PyTypeObject* type) {
  while (stator_is_user_class(type)) type = type->tp_base;
  return type;
}
// iter() and reversed() of C's over a container: what a subclass has in their place is for the trace to run, once.
// New references.
PyObject* stator_native_iter(PyObject* container);
PyObject* stator_native_reversed(PyObject* container);

#ifdef __cplusplus
}
#endif
