// Attributes written: to instances, classes, and through descriptors.
#include "interpret/objects/attribute_writes.h"

#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/descriptors.h"
#include "interpret/objects/errors.h"
#include "interpret/objects/exceptions.h"
#include "interpret/objects/instance_attributes.h"
#include "interpret/objects/items.h"
#include "interpret/objects/keys.h"
#include "interpret/objects/lookups.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/thread_locals.h"
#include "interpret/objects/updates.h"
#include "python/fields.h"
#include "python/objects.h"
#include "python/types.h"
#include "sources/short_lived.h"

#include <structmember.h>

namespace stator::interpret {

namespace {

// What __slots__ makes. Members of C types may be read-only, or take nothing but numbers.
bool isWritableSlot(PyObject* descriptor) {
  const PyMemberDef* member = stator_descriptor_member(descriptor);
  return (member->type == T_OBJECT_EX || member->type == T_OBJECT) &&
         (member->flags & READONLY) == 0;
}

// `object.__dict__ = {...}` of an object from outside whose own dict nobody has looked at as a dict, or written to.
bool isReplacedDict(Tracer& t, PyObject* object, PyObject* name, PyObject* value) {
  values::Info* info = t.values.find(object);
  if (value == nullptr || info == nullptr || info->origin != values::Origin::kOutside ||
      info->overlay || info->attributes != nullptr || info->attribute_part || isModule(object) ||
      PyUnicode_Compare(name, names().dunder_dict) != 0 || !PyDict_CheckExact(value) ||
      !t.isMade(value) || hasOwnKeys(t, value) || PyType_Check(object) || PyModule_Check(object) ||
      PyFunction_Check(object) || PyExceptionInstance_Check(object) || PyDict_Check(object))
    return false;  // what is written over a dict are its items
  PyObject *key = nullptr, *item = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(value, &position, &key, &item)) {
    if (!PyUnicode_CheckExact(key)) return false;
  }
  return true;
}

// Fields of a function from outside that a plan can set: names, and defaults that the trace has made.
bool isReplayedField(Tracer& t, PyObject* object, PyObject* name, PyObject* value) {
  values::Info* info =
      PyFunction_Check(object) && value != nullptr ? t.values.find(object) : nullptr;
  if (info == nullptr || info->origin != values::Origin::kOutside) return false;
  if (PyUnicode_CompareWithASCIIString(name, "__defaults__") == 0)
    return PyTuple_CheckExact(value) && t.sourceOf(value) == nullptr;
  return PyUnicode_CheckExact(value) &&
         (PyUnicode_CompareWithASCIIString(name, "__name__") == 0 ||
          PyUnicode_CompareWithASCIIString(name, "__qualname__") == 0);
}

}  // namespace

Flow storeInstanceAttr(Tracer& tracer, PyObject* object, PyObject* name, PyObject* value) {
  noteWrite(tracer, object);
  values::Info* info = tracer.values.find(object);
  if (info == nullptr || info->origin == values::Origin::kMade) {
    if (PyObject_GenericSetAttr(object, name, value) != 0) return tracer.raiseCurrentError();
    return Flow::kOk;
  }
  if (isItsOwnDict(tracer, object)) {
    if (value != nullptr) return setItemBase(tracer, object, name, value);
    STATOR_VALUE(there, dictGet(tracer, object, name));
    if (!there) return raiseNotThere(tracer, object, name);
    if (isUserOverride(tracer, object, "__delitem__"))
      return tracer.breakWith(Reason::kUnsupportedMutation, "deletes an attribute that is an item");
    return delItem(tracer, object, name);
  }
  PyObject* on_type = _PyType_Lookup(Py_TYPE(object), name);
  bool slot = on_type != nullptr && Py_TYPE(on_type) == &PyMemberDescr_Type;
  if (slot && !isWritableSlot(on_type)) {
    return tracer.breakWith(Reason::kUnsupportedMutation,
                            std::string("a member of a ") + Py_TYPE(object)->tp_name);
  }
  if (slot) {
    // Known by its own name, whatever name of the class led to it.
    name = PyDescr_NAME(on_type);
    if (_PyType_Lookup(Py_TYPE(object), name) != on_type)
      return tracer.breakWith(Reason::kUnsupportedMutation, "a slot under another name");
  }
  // An object without a dict says so itself.
  if (!slot && Py_TYPE(object)->tp_dictoffset == 0 && !PyModule_Check(object))
    return PyObject_GenericSetAttr(object, name, value) == 0 ? Flow::kOk
                                                             : tracer.raiseCurrentError();
  if (PyModule_Check(object) && !slot) {
    if (sources::isShortLived(object))
      return tracer.breakWith(Reason::kUnsupportedMutation, "a module that is not in sys.modules");
    PyObject* dict = PyModule_GetDict(object);
    if (dict == nullptr)
      return tracer.breakWith(Reason::kUnsupportedMutation, "a module that is not initialised");
    if (tracer.values.find(dict) == nullptr)
      tracer.values.addOutside(dict, tracer.world.sources().pinned(dict));
    if (value != nullptr) return setItem(tracer, dict, name, value);
    STATOR_VALUE(found, dictGet(tracer, dict, name));
    if (!found)
      return tracer.raiseNew(PyExc_AttributeError, "'%.100s' object has no attribute '%U'",
                             Py_TYPE(object)->tp_name, name);
    return delItem(tracer, dict, name);
  }
  if (!slot && !PyDict_Check(object) && info->source != nullptr) {
    STATOR_FLOW(linkOwnDict(tracer, object, true));
    info = tracer.values.find(object);
  }
  if (PyObject* shadow = slot ? nullptr : attributesShadow(tracer, info)) {
    if (value == nullptr && PyDict_Contains(shadow, name) != 1)
      return raiseNotThere(tracer, object, name);
    values::Info* attributes = tracer.values.find(info->attributes);
    attributes->dirty = true;
    tracer.effects.write(attributes);
    if ((value != nullptr ? PyDict_SetItem(shadow, name, value) : PyDict_DelItem(shadow, name)) !=
        0)
      return tracer.raiseCurrentError();
    return Flow::kOk;
  }
  info = values::attributePart(info);
  if (value != nullptr) {
    writeOverlay(tracer, info, name, value);
    return Flow::kOk;
  }
  PyObject* written = info->overlay ? PyDict_GetItemWithError(info->overlay.get(), name) : nullptr;
  PyObject* raw = nullptr;
  bool there = stator_object_lookup(object, name, &raw) == STATOR_FOUND;
  tracer.world.guard(Guard{there ? GuardKind::kPresent : GuardKind::kAbsent,
                           tracer.world.child(SourceKind::kAttr, info->source, name)});
  if (written == values::deletedMarker() || (written == nullptr && !there)) {
    // CPython 3.11 has other words where the object has no dict yet.
    StatorView view;
    if (!slot && stator_view_object(&view, object) && view.dict == nullptr)
      return tracer.raiseNew(PyExc_AttributeError, "'%.100s' object has no attribute '%U'",
                             Py_TYPE(object)->tp_name, name);
    if (!slot) return raiseNotThere(tracer, object, name);
    return tracer.raise(stealRef(PyObject_CallOneArg(PyExc_AttributeError, name)));
  }
  eraseOverlay(tracer, info, name, there);
  return Flow::kOk;
}

// What the trace writes to the object would land in a dict that the program has.
bool sharesOutsideDict(Tracer& t, PyObject* name, PyObject* value) {
  return value != nullptr && PyUnicode_Compare(name, names().dunder_dict) == 0 && !t.isMade(value);
}

Flow changeClass(Tracer& tracer, PyObject* object, PyObject* type) {
  if (!PyType_Check(type) || PyModule_Check(object) || !stator_is_user_class(Py_TYPE(object)))
    return tracer.breakWith(Reason::kUnsupportedMutation, "changes the class of an object");
  noteWrite(tracer, object);
  tracer.frames.commit();
  Ref<> before = newRef(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  // CPython says which classes may take each other's place. What it does to the object it would do at this point
  // anyway.
  if (Py_TYPE(classDescriptor())->tp_descr_set(classDescriptor(), object, type) != 0)
    return tracer.raiseCurrentError();
  tracer.classes.change(object, std::move(before), type);
  return Flow::kOk;
}

Flow needName(Tracer& tracer, PyObject* name) {
  if (PyUnicode_Check(name)) [[likely]]
    return Flow::kOk;
  return tracer.raiseNew(PyExc_TypeError, "attribute name must be string, not '%.200s'",
                         typeOf(tracer, name)->tp_name);
}

Flow setAttr(Tracer& tracer, PyObject* object, PyObject* name, PyObject* value) {
  STATOR_FLOW(needName(tracer, name));
  if (graph::isStandIn(object)) return tracer.above.setTensorAttr(object, name, value);
  if (PyType_Check(object))
    return setTypeAttr(tracer, reinterpret_cast<PyTypeObject*>(object), name, value, true);
  if (isTraceIterator(object) || isTraceTraceback(object))
    return tracer.breakWith(Reason::kUnsupportedMutation, "sets an attribute of an iterator");
  if (PyExceptionInstance_Check(object) && tracer.isMade(object) && value != nullptr &&
      PyUnicode_CompareWithASCIIString(name, "__traceback__") == 0) {
    return setTraceback(tracer, object, value);
  }
  PyTypeObject* type = Py_TYPE(object);
  if (isThreadLocal(object)) return setThreadLocalAttr(tracer, object, name, value);
  if (type->tp_setattro != PyObject_GenericSetAttr) {
    static PyObject* dunder_setattr = PyUnicode_InternFromString("__setattr__");
    static PyObject* dunder_delattr = PyUnicode_InternFromString("__delattr__");
    PyObject* which = value != nullptr ? dunder_setattr : dunder_delattr;
    STATOR_VALUE(hook, typeLookup(tracer, type, which));
    PyObject* of_object = _PyType_Lookup(&PyBaseObject_Type, which);
    if (hook.get() != of_object) {
      if (!hook || (!PyFunction_Check(hook.get()) && !isDictMethod(hook.get())))
        return tracer.breakWith(Reason::kUnsupportedMutation,
                                std::string("sets an attribute of a ") + type->tp_name);
      STATOR_VALUE(function, classAttrValue(tracer, type, which, hook.get()));
      Args args;
      args.values = {object, name};
      if (value != nullptr) args.values.push_back(value);
      args.positional = args.values.size();
      return tracer.above.call(function.get(), args, Continuation::kDiscard).flow();
    }
  }
  STATOR_VALUE(on_type, typeLookup(tracer, type, name));
  if (on_type && isDataDescriptor(on_type.get())) {
    PyTypeObject* kind = Py_TYPE(on_type.get());
    if (isProperty(on_type.get())) {
      Ref<> setter =
          stealRef(PyObject_GetAttrString(on_type.get(), value != nullptr ? "fset" : "fdel"));
      if (!setter || setter.get() == Py_None) {
        // Nothing of the program's runs: it says whose property cannot be set.
        if (kind->tp_descr_set(on_type.get(), object, value) == 0)
          return tracer.breakWith(Reason::kRaises, "sets a property without a setter");
        return tracer.raiseCurrentError();
      }
      if (PyFunction_Check(setter.get()) && tracer.values.find(setter.get()) == nullptr) {
        STATOR_VALUE(ignored, fromOutside(tracer, setter.get(),
                                          tracer.world.sources().pinned(setter.get())));
      }
      tracer.world.keep(setter);
      Args args;
      args.values = {object};
      if (value != nullptr) args.values.push_back(value);
      args.positional = args.values.size();
      return tracer.above.call(setter.get(), args, Continuation::kDiscard).flow();
    }
    if (kind == &PyMemberDescr_Type) return storeInstanceAttr(tracer, object, name, value);
    static PyObject* const dunder_delete = PyUnicode_InternFromString("__delete__");
    PyObject* which = value != nullptr ? names().dunder_set : dunder_delete;
    PyObject* set = _PyType_Lookup(kind, which);
    if (set != nullptr && PyFunction_Check(set)) {
      STATOR_VALUE(self, tracer.values.find(on_type.get()) == nullptr
                             ? fromOutside(tracer, on_type.get(), classEntry(tracer, type, name))
                             : Out(on_type));
      STATOR_VALUE(on_kind, typeLookup(tracer, kind, which));
      STATOR_VALUE(function, classAttrValue(tracer, kind, which, on_kind.get()));
      tracer.world.keep(self);
      Args args;
      args.values = {self.get(), object};
      if (value != nullptr) args.values.push_back(value);
      args.positional = args.values.size();
      return tracer.above.call(function.get(), args, Continuation::kDiscard).flow();
    }
    if (kind == &PyGetSetDescr_Type && isReplacedDict(tracer, object, name, value)) {
      values::Info* info = tracer.values.find(object);
      writeOverlay(tracer, info, name, value);
      tracer.values.addMade(value, tracer.frames.instruction());
      info->attributes = value;
      return Flow::kOk;
    }
    if (kind == &PyGetSetDescr_Type && isReplayedField(tracer, object, name, value)) {
      writeOverlay(tracer, values::attributePart(tracer.values.find(object)), name, value);
      return Flow::kOk;
    }
    if (kind == &PyGetSetDescr_Type && !tracer.isMade(object) && value != nullptr &&
        on_type.get() == classDescriptor())
      return changeClass(tracer, object, value);
    if (sharesOutsideDict(tracer, name, value))
      return tracer.breakWith(Reason::kUnsupportedMutation,
                              "a new object with a __dict__ from outside");
    if (tracer.isMade(object) && kind == &PyGetSetDescr_Type) {
      if (PyObject_GenericSetAttr(object, name, value) != 0) return tracer.raiseCurrentError();
      // A dict that the program has by itself: the object is made again with that one.
      if (value != nullptr && PyDict_CheckExact(value) && tracer.values.find(value) == nullptr)
        tracer.values.addMade(value, tracer.frames.instruction());
      return Flow::kOk;
    }
    return tracer.breakWith(Reason::kUnsupportedMutation,
                            std::string("through a ") + kind->tp_name);
  }
  if (!hasInstanceDict(object)) {
    if (!on_type) return raiseNoDict(tracer, object, name);
    return tracer.raiseNew(PyExc_AttributeError, "'%.100s' object attribute '%U' is read-only",
                           type->tp_name, name);
  }
  return storeInstanceAttr(tracer, object, name, value);
}

Flow setTypeAttr(Tracer& tracer, PyTypeObject* type, PyObject* name, PyObject* value, bool hooks) {
  PyObject* object = reinterpret_cast<PyObject*>(type);
  PyTypeObject* meta = Py_TYPE(object);
  if (hooks && meta->tp_setattro != PyType_Type.tp_setattro) {
    Ref<> which =
        stealRef(PyUnicode_InternFromString(value != nullptr ? "__setattr__" : "__delattr__"));
    STATOR_VALUE(hook, typeLookup(tracer, meta, which.get()));
    if (hook.get() != _PyType_Lookup(&PyType_Type, which.get())) {
      if (!hook || !PyFunction_Check(hook.get()))
        return tracer.breakWith(Reason::kUnsupportedMutation, "sets an attribute of a class");
      STATOR_VALUE(function, classAttrValue(tracer, meta, which.get(), hook.get()));
      Args args;
      args.values = {object, name};
      if (value != nullptr) args.values.push_back(value);
      args.positional = args.values.size();
      return tracer.above.call(function.get(), args, Continuation::kDiscard).flow();
    }
  }
  if (isMadeClass(tracer, object)) {
    if (PyUnicode_CompareWithASCIIString(name, "__bases__") == 0)
      return tracer.breakWith(Reason::kUnsupportedMutation, "sets the bases of a class");
    if (PyType_Type.tp_setattro(object, name, value) != 0) return tracer.raiseCurrentError();
    return Flow::kOk;
  }
  if (!stator_is_user_class(type) || (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) != 0) {
    return tracer.breakWith(Reason::kRaises, "sets an attribute of an immutable class");
  }
  // Special methods also fill the type's slots, which native code and this tracer read without a look-up.
  if (PyUnicode_READ_CHAR(name, 0) == '_' && PyUnicode_GET_LENGTH(name) > 4 &&
      PyUnicode_READ_CHAR(name, 1) == '_') {
    return tracer.breakWith(Reason::kUnsupportedMutation, "sets a special attribute of a class");
  }
  STATOR_VALUE(on_meta, typeLookup(tracer, meta, name));
  if (on_meta && isDataDescriptor(on_meta.get()))
    return tracer.breakWith(Reason::kUnsupportedMutation,
                            "sets an attribute of a class through a descriptor");
  values::Info* info = tracer.values.find(object);
  if (info == nullptr)
    info = &tracer.values.addOutside(object, tracer.world.sources().pinned(object));
  tracer.classes.noteWritten();
  if (value != nullptr) {
    writeOverlay(tracer, info, name, value);
    return Flow::kOk;
  }
  PyObject* written = info->overlay ? PyDict_GetItemWithError(info->overlay.get(), name) : nullptr;
  bool there = PyDict_Contains(stator_type_entries(type), name) == 1;
  tracer.world.guard(Guard{
      there ? GuardKind::kPresent : GuardKind::kAbsent,
      tracer.world.child(SourceKind::kClassDict, tracer.world.sources().pinned(object), name)});
  if (written == values::deletedMarker() || (written == nullptr && !there)) {
    return raiseNotThere(tracer, object, name);
  }
  eraseOverlay(tracer, info, name, there);
  return Flow::kOk;
}

}  // namespace stator::interpret
