#include "interpret/objects/special_methods.h"

#include "interpret/core/outside.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/descriptors.h"
#include "python/types.h"

namespace stator::interpret {

namespace {

Ref<> entryOf(Tracer& tracer, PyTypeObject* type, const char* name) {
  Ref<> text = stealRef(PyUnicode_InternFromString(name));
  return typeLookup(tracer, type, text.get()).take();
}

}  // namespace

// By what types in C have under their special names; all else in a class was put there: functions, but numbers and
// properties too.
bool isProgrammed(Tracer& tracer, PyTypeObject* type, const char* name) {
  Ref<> entry = entryOf(tracer, type, name);
  if (!entry) return false;
  PyTypeObject* kind = Py_TYPE(entry.get());
  if (kind == &PyWrapperDescr_Type || kind == &PyMethodDescr_Type) {
    return PyUnicode_CompareWithASCIIString(PyDescr_NAME(entry.get()), name) != 0 ||
           !PyType_IsSubtype(type, PyDescr_TYPE(entry.get()));
  }
  if (kind == &PyCFunction_Type) return !PyType_Check(PyCFunction_GET_SELF(entry.get()));
  return kind != &PyClassMethodDescr_Type && kind != &PyGetSetDescr_Type &&
         kind != &PyMemberDescr_Type;
}

bool isDenied(Tracer& tracer, PyTypeObject* type, const char* name) {
  return entryOf(tracer, type, name).get() == Py_None;
}

Out slotMethod(Tracer& tracer, PyObject* object, const char* name) {
  if (isDenied(tracer, typeOf(tracer, object), name))
    return tracer.raiseNew(PyExc_TypeError, "'NoneType' object is not callable");
  return special(tracer, object, name);
}

Out special(Tracer& tracer, PyObject* object, const char* name) {
  Ref<> text = stealRef(PyUnicode_InternFromString(name));
  PyTypeObject* type = typeOf(tracer, object);
  STATOR_VALUE(found, typeLookup(tracer, type, text.get()));
  if (!found || found.get() == Py_None) return Ref<>();
  if (Py_TYPE(found.get())->tp_descr_get == nullptr)
    return classAttrValue(tracer, type, text.get(), found.get());
  // A property's getter runs to its end: what it gives is the method.
  return tracer.above.runEntered(
      bindDescriptor(tracer, found.get(), object, type, classEntry(tracer, type, text.get())));
}

bool isUserOverride(Tracer& tracer, PyObject* object, const std::string& name) {
  PyTypeObject* type = typeOf(tracer, object);
  return isProgrammed(tracer, type, name.c_str()) && !isDenied(tracer, type, name.c_str());
}

}  // namespace stator::interpret
