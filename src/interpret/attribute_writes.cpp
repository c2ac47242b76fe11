// Attributes written: to instances, classes, and through descriptors.
#include "interpret/attributes.h"
#include "interpret/descriptors.h"
#include "interpret/exceptions.h"
#include "interpret/known_types.h"
#include "interpret/names.h"
#include "interpret/trace_iterator.h"
#include "interpret/tracer.h"
#include "python/objects.h"

#include <structmember.h>

namespace stator::interpret {

namespace {

// What __slots__ makes. Members of C types may be read-only, or take nothing but numbers.
bool isWritableSlot(PyObject* descriptor) {
  const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;
  return (member->type == T_OBJECT_EX || member->type == T_OBJECT) &&
         (member->flags & READONLY) == 0;
}

// `object.__dict__ = {...}` of an object from outside whose own dict nobody has looked at as a dict, or written to.
bool isReplacedDict(Tracer& t, PyObject* object, PyObject* name, PyObject* value) {
  values::Info* info = t.values.find(object);
  if (value == nullptr || info == nullptr || info->origin != values::Origin::kOutside ||
      info->overlay || info->attributes != nullptr || info->as_object || isModule(object) ||
      PyUnicode_Compare(name, names().dunder_dict) != 0 || !PyDict_CheckExact(value) ||
      !t.isMade(value) || t.hasOwnKeys(value) || PyType_Check(object) || PyModule_Check(object) ||
      PyFunction_Check(object) || PyExceptionInstance_Check(object))
    return false;
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

Flow Tracer::storeInstanceAttr(PyObject* object, PyObject* name, PyObject* value) {
  noteWrite(object);
  values::Info* info = values.find(object);
  if (info == nullptr || info->origin == values::Origin::kMade) {
    if (PyObject_GenericSetAttr(object, name, value) != 0) return raiseCurrentError();
    return Flow::kOk;
  }
  if (isItsOwnDict(*this, object)) {
    if (value != nullptr) return setItemBase(object, name, value);
    STATOR_VALUE(there, dictGet(object, name));
    if (!there) return raise(stealRef(PyObject_CallOneArg(PyExc_AttributeError, name)));
    if (isUserOverride(object, "__delitem__"))
      return breakWith(Reason::kUnsupportedMutation, "deletes an attribute that is an item");
    return delItem(object, name);
  }
  PyObject* on_type = _PyType_Lookup(Py_TYPE(object), name);
  bool slot = on_type != nullptr && Py_TYPE(on_type) == &PyMemberDescr_Type;
  if (slot && !isWritableSlot(on_type)) {
    return breakWith(Reason::kUnsupportedMutation,
                     std::string("a member of a ") + Py_TYPE(object)->tp_name);
  }
  if (slot) {
    // Known by its own name, whatever name of the class led to it.
    name = PyDescr_NAME(on_type);
    if (_PyType_Lookup(Py_TYPE(object), name) != on_type)
      return breakWith(Reason::kUnsupportedMutation, "a slot under another name");
  }
  if (PyModule_Check(object)) {
    PyObject* dict = PyModule_GetDict(object);
    if (values.find(dict) == nullptr) values.addOutside(dict, sources->pinned(dict));
    if (value != nullptr) return setItem(dict, name, value);
    STATOR_VALUE(found, dictGet(dict, name));
    if (!found)
      return raiseNew(PyExc_AttributeError, "'%.100s' object has no attribute '%U'",
                      Py_TYPE(object)->tp_name, name);
    return delItem(dict, name);
  }
  if (!slot && !PyDict_Check(object) && info->source != nullptr) {
    STATOR_FLOW(linkOwnDict(*this, object, true));
    info = values.find(object);
  }
  if (PyObject* shadow = slot ? nullptr : attributesShadow(*this, info)) {
    if (value == nullptr && PyDict_Contains(shadow, name) != 1)
      return raise(stealRef(PyObject_CallOneArg(PyExc_AttributeError, name)));
    values.find(info->attributes)->dirty = true;
    if ((value != nullptr ? PyDict_SetItem(shadow, name, value) : PyDict_DelItem(shadow, name)) !=
        0)
      return raiseCurrentError();
    return Flow::kOk;
  }
  info = values::attributePart(info);
  if (value != nullptr) {
    writeOverlay(info, name, value);
    return Flow::kOk;
  }
  PyObject* written = info->overlay ? PyDict_GetItemWithError(info->overlay.get(), name) : nullptr;
  PyObject* raw = nullptr;
  bool there = stator_object_lookup(object, name, &raw) == STATOR_FOUND;
  guards->add(Guard{there ? GuardKind::kPresent : GuardKind::kAbsent,
                    sources->child(SourceKind::kAttr, info->source, name)});
  if (written == values::deletedMarker() || (written == nullptr && !there)) {
    // CPython 3.11 has other words where the object has no dict yet.
    StatorView view;
    if (!slot && stator_view_object(&view, object) && view.dict == nullptr)
      return raiseNew(PyExc_AttributeError, "'%.100s' object has no attribute '%U'",
                      Py_TYPE(object)->tp_name, name);
    return raise(stealRef(PyObject_CallOneArg(PyExc_AttributeError, name)));
  }
  eraseOverlay(info, name, there);
  return Flow::kOk;
}

// What the trace writes to the object would land in a dict that the program has.
bool sharesOutsideDict(Tracer& t, PyObject* name, PyObject* value) {
  return value != nullptr && PyUnicode_Compare(name, names().dunder_dict) == 0 && !t.isMade(value);
}

PyObject* classDescriptor() {
  static PyObject* const descriptor =
      PyDict_GetItem(PyBaseObject_Type.tp_dict, names().dunder_class);
  return descriptor;
}

Flow Tracer::changeClass(PyObject* object, PyObject* type) {
  if (!PyType_Check(type) || PyModule_Check(object) ||
      (Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0)
    return breakWith(Reason::kUnsupportedMutation, "changes the class of an object");
  noteWrite(object);
  nested_ran = true;
  Ref<> before = newRef(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  // CPython says which classes may take each other's place. What it does to the object it would do at this point anyway.
  if (Py_TYPE(classDescriptor())->tp_descr_set(classDescriptor(), object, type) != 0)
    return raiseCurrentError();
  for (ClassChange& change : class_changes) {
    if (change.object.get() != object) continue;
    change.now = newRef(type);
    return Flow::kOk;
  }
  class_changes.push_back({newRef(object), std::move(before), newRef(type)});
  return Flow::kOk;
}

void Tracer::restoreClasses() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  if (class_changes.empty()) return;
  PyErr_Fetch(&type, &value, &traceback);
  for (ClassChange& change : class_changes) {
    if (reinterpret_cast<PyObject*>(Py_TYPE(change.object.get())) == change.before.get()) continue;
    if (Py_TYPE(classDescriptor())
            ->tp_descr_set(classDescriptor(), change.object.get(), change.before.get()) != 0)
      PyErr_Clear();
  }
  PyErr_Restore(type, value, traceback);
}

Flow Tracer::setAttr(PyObject* object, PyObject* name, PyObject* value) {
  if (graph::isStandIn(object)) return setTensorAttr(object, name, value);
  if (PyType_Check(object))
    return setTypeAttr(reinterpret_cast<PyTypeObject*>(object), name, value, true);
  if (isTraceIterator(object) || isTraceTraceback(object))
    return breakWith(Reason::kUnsupportedMutation, "sets an attribute of an iterator");
  if (PyExceptionInstance_Check(object) && isMade(object) && value != nullptr &&
      PyUnicode_CompareWithASCIIString(name, "__traceback__") == 0) {
    return setTraceback(*this, object, value);
  }
  PyTypeObject* type = Py_TYPE(object);
  if (type->tp_setattro != PyObject_GenericSetAttr) {
    static PyObject* dunder_setattr = PyUnicode_InternFromString("__setattr__");
    static PyObject* dunder_delattr = PyUnicode_InternFromString("__delattr__");
    PyObject* which = value != nullptr ? dunder_setattr : dunder_delattr;
    STATOR_VALUE(hook, typeLookup(type, which));
    PyObject* of_object = _PyType_Lookup(&PyBaseObject_Type, which);
    if (hook.get() != of_object) {
      if (!hook || (!PyFunction_Check(hook.get()) && !isDictMethod(hook.get())))
        return breakWith(Reason::kUnsupportedMutation,
                         std::string("sets an attribute of a ") + type->tp_name);
      STATOR_VALUE(function, classAttrValue(type, which, hook.get()));
      Args args;
      args.values = {object, name};
      if (value != nullptr) args.values.push_back(value);
      args.positional = args.values.size();
      return call(function.get(), args, Then::kDiscard).flow();
    }
  }
  STATOR_VALUE(on_type, typeLookup(type, name));
  if (on_type && isDataDescriptor(on_type.get())) {
    PyTypeObject* kind = Py_TYPE(on_type.get());
    if (isProperty(on_type.get())) {
      Ref<> setter =
          stealRef(PyObject_GetAttrString(on_type.get(), value != nullptr ? "fset" : "fdel"));
      if (!setter || setter.get() == Py_None) {
        // Nothing of the program's runs: it says whose property cannot be set.
        if (kind->tp_descr_set(on_type.get(), object, value) == 0)
          return breakWith(Reason::kRaises, "sets a property without a setter");
        return raiseCurrentError();
      }
      if (PyFunction_Check(setter.get()) && values.find(setter) == nullptr) {
        STATOR_VALUE(ignored, fromOutside(setter, sources->pinned(setter)));
      }
      keep_alive.push_back(setter);
      Args args;
      args.values = {object};
      if (value != nullptr) args.values.push_back(value);
      args.positional = args.values.size();
      return call(setter.get(), args, Then::kDiscard).flow();
    }
    if (kind == &PyMemberDescr_Type) return storeInstanceAttr(object, name, value);
    static PyObject* const dunder_delete = PyUnicode_InternFromString("__delete__");
    PyObject* which = value != nullptr ? names().dunder_set : dunder_delete;
    PyObject* set = _PyType_Lookup(kind, which);
    if (set != nullptr && PyFunction_Check(set)) {
      STATOR_VALUE(self, values.find(on_type) == nullptr
                             ? fromOutside(on_type, classEntry(type, name))
                             : Out(on_type));
      STATOR_VALUE(on_kind, typeLookup(kind, which));
      STATOR_VALUE(function, classAttrValue(kind, which, on_kind.get()));
      keep_alive.push_back(self);
      Args args;
      args.values = {self.get(), object};
      if (value != nullptr) args.values.push_back(value);
      args.positional = args.values.size();
      return call(function.get(), args, Then::kDiscard).flow();
    }
    if (kind == &PyGetSetDescr_Type && isReplacedDict(*this, object, name, value)) {
      values::Info* info = values.find(object);
      writeOverlay(info, name, value);
      values.addMade(value, instruction_start);
      info->attributes = value;
      return Flow::kOk;
    }
    if (kind == &PyGetSetDescr_Type && isReplayedField(*this, object, name, value)) {
      writeOverlay(values::attributePart(values.find(object)), name, value);
      return Flow::kOk;
    }
    if (kind == &PyGetSetDescr_Type && !isMade(object) && value != nullptr &&
        on_type.get() == classDescriptor())
      return changeClass(object, value);
    if (sharesOutsideDict(*this, name, value))
      return breakWith(Reason::kUnsupportedMutation, "a new object with a __dict__ from outside");
    if (isMade(object) && kind == &PyGetSetDescr_Type) {
      if (PyObject_GenericSetAttr(object, name, value) != 0) return raiseCurrentError();
      return Flow::kOk;
    }
    return breakWith(Reason::kUnsupportedMutation, std::string("through a ") + kind->tp_name);
  }
  if (!Tracer::hasInstanceDict(object)) {
    if (!on_type)
      return raiseNew(PyExc_AttributeError, "'%.100s' object has no attribute '%U'", type->tp_name,
                      name);
    return raiseNew(PyExc_AttributeError, "'%.100s' object attribute '%U' is read-only",
                    type->tp_name, name);
  }
  return storeInstanceAttr(object, name, value);
}

Flow Tracer::setTypeAttr(PyTypeObject* type, PyObject* name, PyObject* value, bool hooks) {
  PyObject* object = reinterpret_cast<PyObject*>(type);
  PyTypeObject* meta = Py_TYPE(object);
  if (hooks && meta->tp_setattro != PyType_Type.tp_setattro) {
    Ref<> which =
        stealRef(PyUnicode_InternFromString(value != nullptr ? "__setattr__" : "__delattr__"));
    STATOR_VALUE(hook, typeLookup(meta, which.get()));
    if (hook.get() != _PyType_Lookup(&PyType_Type, which.get())) {
      if (!hook || !PyFunction_Check(hook.get()))
        return breakWith(Reason::kUnsupportedMutation, "sets an attribute of a class");
      STATOR_VALUE(function, classAttrValue(meta, which.get(), hook.get()));
      Args args;
      args.values = {object, name};
      if (value != nullptr) args.values.push_back(value);
      args.positional = args.values.size();
      return call(function.get(), args, Then::kDiscard).flow();
    }
  }
  if (isMadeClass(object)) {
    if (PyUnicode_CompareWithASCIIString(name, "__bases__") == 0)
      return breakWith(Reason::kUnsupportedMutation, "sets the bases of a class");
    if (PyType_Type.tp_setattro(object, name, value) != 0) return raiseCurrentError();
    return Flow::kOk;
  }
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 ||
      (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) != 0) {
    return breakWith(Reason::kRaises, "sets an attribute of an immutable class");
  }
  // Special methods also fill the type's slots, which native code and this tracer read without a look-up.
  if (PyUnicode_READ_CHAR(name, 0) == '_' && PyUnicode_GET_LENGTH(name) > 4 &&
      PyUnicode_READ_CHAR(name, 1) == '_') {
    return breakWith(Reason::kUnsupportedMutation, "sets a special attribute of a class");
  }
  STATOR_VALUE(on_meta, typeLookup(meta, name));
  if (on_meta && isDataDescriptor(on_meta.get()))
    return breakWith(Reason::kUnsupportedMutation,
                     "sets an attribute of a class through a descriptor");
  values::Info* info = values.find(object);
  if (info == nullptr) info = &values.addOutside(object, sources->pinned(object));
  classes_written = true;
  if (value != nullptr) {
    writeOverlay(info, name, value);
    return Flow::kOk;
  }
  PyObject* written = info->overlay ? PyDict_GetItemWithError(info->overlay.get(), name) : nullptr;
  bool there = PyDict_Contains(type->tp_dict, name) == 1;
  guards->add(Guard{there ? GuardKind::kPresent : GuardKind::kAbsent,
                    sources->child(SourceKind::kClassDict, sources->pinned(object), name)});
  if (written == values::deletedMarker() || (written == nullptr && !there)) {
    return raise(stealRef(PyObject_CallOneArg(PyExc_AttributeError, name)));
  }
  eraseOverlay(info, name, there);
  return Flow::kOk;
}

}  // namespace stator::interpret
