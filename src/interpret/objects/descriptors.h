// What kinds of descriptors classes hold.
#pragma once

#include "base/python.h"
#include "interpret/core/tracer.h"

namespace stator::interpret {

// A property, or an instance of a class made from it that reads and writes as it does.
inline bool isProperty(PyObject* descriptor) {
  PyTypeObject* kind = Py_TYPE(descriptor);
  return kind == &PyProperty_Type || (PyType_IsSubtype(kind, &PyProperty_Type) &&
                                      kind->tp_descr_get == PyProperty_Type.tp_descr_get &&
                                      kind->tp_descr_set == PyProperty_Type.tp_descr_set);
}

Out bindDescriptor(Tracer& tracer, PyObject* descriptor, PyObject* object, PyTypeObject* type,
                   const sources::Source* source);

}  // namespace stator::interpret
