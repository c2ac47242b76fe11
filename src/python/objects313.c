// Objects as only CPython 3.13 lays them out; see objects.h.
#define Py_BUILD_CORE 1
#include "python/objects.h"

#include <internal/pycore_dict.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_pystate.h>
#include <internal/pycore_range.h>
#include <internal/pycore_typeobject.h>

#if PY_MINOR_VERSION != 13
#error "objects313.c is for CPython 3.13"
#endif

#define SAME_FIELD(ours, theirs)                                                       \
  _Static_assert(offsetof(StatorValues, ours) == offsetof(struct _dictvalues, theirs), \
                 "layout of inline values")
SAME_FIELD(capacity, capacity);
SAME_FIELD(size, size);
SAME_FIELD(embedded, embedded);
SAME_FIELD(valid, valid);
SAME_FIELD(values, values);

// The interpreter's own types keep an index where others have their subclasses; dict and subclasses are in the
// interpreter.
static managed_static_type_state* state_of(PyTypeObject* type) {
  return &PyInterpreterState_Get()->types.builtins.initialized[(size_t)type->tp_subclasses - 1];
}

#include "python/objects_alike312.h"
