// Attributes of classes and of super objects.
#pragma once

#include "interpret/core/tracer.h"
#include "python/objects.h"

namespace stator::interpret {

// __thisclass__, __self__ or __self_class__ of a super object itself: asked for as an attribute it is looked up behind
// a class, where there may be another super.
inline Ref<> superPart(PyObject* super, const char* name) {
  PyObject* member = PyDict_GetItemString(stator_type_dict(&PySuper_Type), name);
  return stealRef(
      Py_TYPE(member)->tp_descr_get(member, super, reinterpret_cast<PyObject*>(&PySuper_Type)));
}

// ok with a null Ref: not there
Out typeAttribute(Tracer& tracer, PyTypeObject* type, PyObject* name);
Out superAttribute(Tracer& tracer, PyObject* super, PyObject* name);

}  // namespace stator::interpret
