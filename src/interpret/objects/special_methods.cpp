#include "interpret/objects/special_methods.h"

#include "interpret/core/outside.h"
#include "interpret/objects/attributes.h"
#include "python/types.h"

namespace stator::interpret {

namespace {

Ref<> entryOf(Tracer& tracer, PyTypeObject* type, const char* name) {
  Ref<> text = stealRef(PyUnicode_InternFromString(name));
  return typeLookup(tracer, type, text.get()).take();
}

}  // namespace

bool isProgrammed(Tracer& tracer, PyTypeObject* type, const char* name) {
  Ref<> entry = entryOf(tracer, type, name);
  if (!entry) return false;
  PyTypeObject* kind = Py_TYPE(entry.get());
  return PyFunction_Check(entry.get()) || PyMethod_Check(entry.get()) || entry.get() == Py_None ||
         PyType_Check(entry.get()) || kind == &PyStaticMethod_Type || kind == &PyClassMethod_Type ||
         stator_is_user_class(kind);
}

bool isDenied(Tracer& tracer, PyTypeObject* type, const char* name) {
  return entryOf(tracer, type, name).get() == Py_None;
}

Out slotMethod(Tracer& tracer, PyObject* object, const char* name) {
  if (isDenied(tracer, typeOf(tracer, object), name))
    return tracer.raiseNew(PyExc_TypeError, "'NoneType' object is not callable");
  return special(tracer, object, name);
}

}  // namespace stator::interpret
