#include "interpret/objects/native_containers.h"

#include "base/check.h"
#include "interpret/core/known.h"
#include "interpret/objects/class_lookups.h"
#include "python/types.h"

#include <cstring>

namespace stator::interpret {

namespace {

// The type's entry for a special method is the C slot of `base` itself, not something that a subclass put over it.
bool usesNativeSlot(PyTypeObject* type, PyTypeObject* base, PyObject* name) {
  return type == base || _PyType_Lookup(type, name) == _PyType_Lookup(base, name);
}

// A C method of that name, of the class or a subclass: not `__getitem__ = dict.get`, nor one of object's.
bool isMethodOf(PyTypeObject* base, PyObject* found, PyObject* name) {
  if (found == nullptr ||
      (Py_TYPE(found) != &PyWrapperDescr_Type && Py_TYPE(found) != &PyMethodDescr_Type))
    return false;
  return PyType_IsSubtype(PyDescr_TYPE(found), base) &&
         PyUnicode_Compare(PyDescr_NAME(found), name) == 0;
}

}  // namespace

bool isNativeContainer(Tracer& tracer, PyObject* object, PyObject* method) {
  PyTypeObject* type = Py_TYPE(object);
  for (PyTypeObject* base :
       {&PyList_Type, &PyTuple_Type, &PyDict_Type, &PySet_Type, &PyFrozenSet_Type, dequeType()}) {
    if (PyType_IsSubtype(type, base)) {
      if (type != base && stator_is_user_class(type)) (void)typeLookup(tracer, type, method);
      // C subclasses (OrderedDict, defaultdict) have slots of their own that keep the same meaning.
      PyObject* found = _PyType_Lookup(type, method);
      return usesNativeSlot(type, base, method) || isMethodOf(base, found, method);
    }
  }
  return false;
}

bool isTextLike(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyRange_Type ||
         type == &PyByteArray_Type;
}

namespace {

PyObject* hasBytes(PyObject* expected, PyObject* array) {
  return PyBool_FromLong(PyByteArray_CheckExact(array) &&
                         PyByteArray_GET_SIZE(array) == PyBytes_GET_SIZE(expected) &&
                         std::memcmp(PyByteArray_AS_STRING(array), PyBytes_AS_STRING(expected),
                                     static_cast<size_t>(PyBytes_GET_SIZE(expected))) == 0);
}

}  // namespace

void guardBytes(Tracer& tracer, PyObject* object) {
  static PyMethodDef method = {"has_bytes", hasBytes, METH_O, nullptr};
  if (Py_TYPE(object) != &PyByteArray_Type) return;
  values::Info* info = tracer.values.find(object);
  if (info == nullptr || info->origin != values::Origin::kOutside || info->length_guarded) return;
  info->length_guarded = true;
  Ref<> expected = stealRef(PyBytes_FromObject(object));
  Ref<> check = expected ? stealRef(PyCFunction_New(&method, expected.get())) : Ref<>();
  if (!check) throw PythonError();
  tracer.world.guard(Guard{GuardKind::kIs,
                           tracer.world.child(SourceKind::kAsked, info->source, check.get()),
                           nullptr, newRef(Py_True)});
}

}  // namespace stator::interpret
