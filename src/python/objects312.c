// Objects as only CPython 3.12 lays them out; see objects.h.
#define Py_BUILD_CORE 1
#include "python/objects.h"

#include <internal/pycore_dict.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_pystate.h>
#include <internal/pycore_range.h>
#include <internal/pycore_typeobject.h>

#if PY_MINOR_VERSION != 12
#error "objects312.c is for CPython 3.12"
#endif

_Static_assert(offsetof(struct _dictvalues, values) == 0, "layout of split values");

// The interpreter's own types keep an index where others have their subclasses; dict and subclasses are in the
// interpreter.
static static_builtin_state* state_of(PyTypeObject* type) {
  return &PyInterpreterState_Get()->types.builtins[(size_t)type->tp_subclasses - 1];
}

#include "python/objects_alike312.h"
