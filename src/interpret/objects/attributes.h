// Reading attributes.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// What PyObject_GetAttr adds to an AttributeError that has no `name` and `obj` yet.
void nameAttribute(Tracer& tracer, PyObject* object, PyObject* name);
// The same where the exception leaves the frame of a property, descriptor or __getattr__, which keeps (object, name) as
// its `instance`.
void noteAttribute(Tracer& tracer, const SymbolicFrame& frame);

bool isDictMethod(PyObject* hook);  // a method of dict's, in C

Out getAttr(Tracer& tracer, PyObject* object, PyObject* name);
// ok with a null Ref instead of AttributeError
Out getAttrOrNull(Tracer& tracer, PyObject* object, PyObject* name);
Out callGetattr(Tracer& tracer, PyObject* object, PyObject* name);
// object.__getattribute__: no __getattribute__ or __getattr__ of the class
Out getAttrGeneric(Tracer& tracer, PyObject* object, PyObject* name);
Out loadGlobal(Tracer& tracer, SymbolicFrame& frame, PyObject* name);

}  // namespace stator::interpret
