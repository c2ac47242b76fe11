#include "interpret/objects/thread_locals.h"

#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/descriptors.h"
#include "interpret/objects/lookups.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/updates.h"
#include "python/thread_locals.h"

namespace stator::interpret {

namespace {

PyTypeObject* localType() {
  static auto* const type = reinterpret_cast<PyTypeObject*>(torchObject("_thread._local"));
  return type;
}

// The dict of this thread; None in a thread that has not used the object yet.
PyObject* dictIfStarted(PyObject* /*self*/, PyObject* object) {
  const int started = stator_thread_local_started(object);
  if (started < 0) return nullptr;
  return started == 0 ? Py_NewRef(Py_None) : PyObject_GetAttr(object, names().dunder_dict);
}

// The dict of this thread, read anew by each call's guards in the thread that calls. A class's own __init__, which a
// thread's first use of the object runs, is left to the program.
Out dictOfThread(Tracer& t, PyObject* object) {
  static PyMethodDef method = {"dict_of_thread", dictIfStarted, METH_O, nullptr};
  static PyObject* const ask = PyCFunction_New(&method, nullptr);
  const Source* source = t.sourceOf(object);
  if (source == nullptr)
    return t.breakWith(Reason::kUnsupportedObject, "a threading.local that the trace makes");
  const bool own_init = Py_TYPE(object)->tp_init != PyBaseObject_Type.tp_init;
  Ref<> dict = own_init ? stealRef(PyObject_CallOneArg(ask, object))
                        : stealRef(PyObject_GetAttr(object, names().dunder_dict));
  if (!dict) return t.raiseCurrentError();
  if (dict.get() == Py_None)
    return t.breakWith(Reason::kUnsupportedObject,
                       "a threading.local whose __init__ has not run in this thread");
  return fromOutside(t, dict.get(),
                     own_init
                         ? t.world.child(SourceKind::kAsked, source, newRef(ask).get())
                         : t.world.child(SourceKind::kGenericAttr, source, names().dunder_dict));
}

}  // namespace

bool isThreadLocal(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyTypeObject* local = localType();
  return local != nullptr && type->tp_getattro == local->tp_getattro &&
         type->tp_setattro == local->tp_setattro;
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
