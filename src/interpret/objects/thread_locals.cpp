#include "interpret/objects/thread_locals.h"

#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/descriptors.h"
#include "interpret/objects/lookups.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/updates.h"

namespace stator::interpret {

namespace {

PyTypeObject* localType() {
  static auto* const type = reinterpret_cast<PyTypeObject*>(torchObject("_thread._local"));
  return type;
}

// The dict of this thread, read anew by each call's guards in the thread that calls.
Out dictOfThread(Tracer& t, PyObject* object) {
  const Source* source = t.sourceOf(object);
  if (source == nullptr)
    return t.breakWith(Reason::kUnsupportedObject, "a threading.local that the trace makes");
  Ref<> dict = stealRef(PyObject_GetAttr(object, names().dunder_dict));
  if (!dict) return t.raiseCurrentError();
  return fromOutside(t, dict.get(),
                     t.world.child(SourceKind::kGenericAttr, source, names().dunder_dict));
}

}  // namespace

bool isThreadLocal(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyTypeObject* local = localType();
  if (local == nullptr || type->tp_getattro != local->tp_getattro ||
      type->tp_setattro != local->tp_setattro)
    return false;
  return type->tp_init == PyBaseObject_Type.tp_init;
}

Out threadLocalAttr(Tracer& t, PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  STATOR_VALUE(dict, dictOfThread(t, object));
  if (PyUnicode_Compare(name, names().dunder_dict) == 0) return dict;
  STATOR_VALUE(on_type, typeLookup(t, type, name));
  const bool binds = on_type && Py_TYPE(on_type.get())->tp_descr_get != nullptr;
  if (binds && isDataDescriptor(on_type.get()))
    return bindDescriptor(t, on_type.get(), object, type, classEntry(t, type, name));
  STATOR_VALUE(own, dictGet(t, dict.get(), name));
  if (own) return own;
  if (!on_type) return Ref<>();
  if (binds) return bindDescriptor(t, on_type.get(), object, type, classEntry(t, type, name));
  return classAttrValue(t, type, name, on_type.get());
}

Flow setThreadLocalAttr(Tracer& t, PyObject* object, PyObject* name, PyObject* value) {
  STATOR_VALUE(on_type, typeLookup(t, Py_TYPE(object), name));
  if ((on_type && isDataDescriptor(on_type.get())) ||
      PyUnicode_Compare(name, names().dunder_dict) == 0)
    return t.breakWith(Reason::kUnsupportedMutation, "sets an attribute of a threading.local");
  STATOR_VALUE(dict, dictOfThread(t, object));
  if (value != nullptr) return setItemBase(t, dict.get(), name, value);
  STATOR_VALUE(own, dictGet(t, dict.get(), name));
  if (!own)
    return t.raiseNew(PyExc_AttributeError, "'%.100s' object has no attribute '%U'",
                      Py_TYPE(object)->tp_name, name);
  return delItemBase(t, dict.get(), name);
}

}  // namespace stator::interpret
