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

#ifdef __cplusplus
}
#endif
