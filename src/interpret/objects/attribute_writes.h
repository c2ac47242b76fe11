// Attributes that are set and deleted: of objects, classes, stand-ins.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// Raises where it is no str: everything behind takes it for one.
Flow needName(Tracer& tracer, PyObject* name);
// null: delete
Flow setAttr(Tracer& tracer, PyObject* object, PyObject* name, PyObject* value);
// hooks: the metaclass's __setattr__ is asked first
Flow setTypeAttr(Tracer& tracer, PyTypeObject* type, PyObject* name, PyObject* value, bool hooks);
Flow storeInstanceAttr(Tracer& tracer, PyObject* object, PyObject* name, PyObject* value);
Flow changeClass(Tracer& tracer, PyObject* object, PyObject* type);

// The __dict__ of an object that the trace made would be one from outside.
bool sharesOutsideDict(Tracer& t, PyObject* name, PyObject* value);

}  // namespace stator::interpret
