#include "interpret/calls/owners.h"

#include "interpret/core/known.h"
#include "interpret/core/outside.h"

#include <algorithm>

namespace stator::interpret {

// Methods of built-in types rely on the layout of what they are called with; CPython asks before each call.
bool fitsItsOwner(Tracer& tracer, PyObject* callable, const Args& args, bool bound) {
  if (Py_TYPE(callable) != &PyMethodDescr_Type && Py_TYPE(callable) != &PyWrapperDescr_Type)
    return true;
  PyTypeObject* owner = PyDescr_TYPE(callable);
  static PyTypeObject* const owners[] = {
      &PyDict_Type,      &PyList_Type,    &PyTuple_Type, &PySet_Type,   &PyFrozenSet_Type,
      &PyODict_Type,     &PyUnicode_Type, &PyBytes_Type, &PyLong_Type,  &PyFloat_Type,
      dequeType(),       &PyBool_Type,    &PyRange_Type, &PySlice_Type, &PyComplex_Type,
      &PyByteArray_Type, &PyEnum_Type,    &PyZip_Type,   &PyMap_Type,   &PyFilter_Type,
      defaultDictType()};
  if (std::find(std::begin(owners), std::end(owners), owner) == std::end(owners)) return true;
  if (args.positional == 0) return false;
  // What a read-only view has of its own is done by the dict behind it.
  if (isProxied(tracer, args.values[0]))
    return bound && _PyType_Lookup(mappingProxyType(), PyDescr_NAME(callable)) != nullptr;
  PyTypeObject* type = typeOf(tracer, args.values[0]);
  // dict's own methods do not know an OrderedDict's order.
  if (owner == &PyDict_Type && PyType_IsSubtype(type, &PyODict_Type) &&
      _PyType_Lookup(&PyODict_Type, PyDescr_NAME(callable)) != callable)
    return false;
  return type == owner || PyType_IsSubtype(type, owner) != 0;
}

}  // namespace stator::interpret
