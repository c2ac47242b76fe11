// What reading and writing attributes share.
#pragma once

#include "interpret/tracer.h"

namespace stator::interpret {

inline bool isDataDescriptor(PyObject* descriptor) {
  return Py_TYPE(descriptor)->tp_descr_set != nullptr;
}

// The working copy of an object's __dict__, if there is one: it holds the attributes then.
inline PyObject* attributesShadow(Tracer& tracer, values::Info* info) {
  if (info->attributes == nullptr) return nullptr;
  values::Info* dict = tracer.values.find(info->attributes);
  return dict != nullptr ? dict->shadow.get() : nullptr;
}

}  // namespace stator::interpret
