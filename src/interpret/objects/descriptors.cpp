// Descriptors: what an attribute found in a class gives for an instance.
#include "interpret/objects/descriptors.h"

#include "base/error_aside.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/attribute_writes.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/exceptions.h"
#include "interpret/objects/instance_attributes.h"
#include "python/fields.h"
#include "python/objects.h"
#include "python/types.h"
#include "python/version.h"

namespace stator::interpret {

namespace {

// The name under which a class has a property.
Ref<> propertyName(PyTypeObject* type, PyObject* property) {
  PyObject* mro = stator_type_mro(type);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    PyObject* dict = stator_type_entries(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i)));
    PyObject *name = nullptr, *value = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(dict, &position, &name, &value)) {
      if (value == property) return newRef(name);
    }
  }
  return Ref<>();
}

Out bindFunction(Tracer& tracer, PyObject* descriptor, PyObject* object, const Source* source) {
  if (tracer.values.find(descriptor) == nullptr && source != nullptr) {
    STATOR_VALUE(ignored, fromOutside(tracer, descriptor, source));
  }
  return object != nullptr ? stealRef(PyMethod_New(descriptor, object)) : newRef(descriptor);
}

Out bindToClass(Tracer& tracer, PyObject* descriptor, PyTypeObject* type, const Source* source) {
  Ref<> function = stealRef(PyObject_GetAttr(descriptor, names().func));
  if (!function) return tracer.raiseCurrentError();
  if (PyFunction_Check(function.get()) && tracer.values.find(function.get()) == nullptr &&
      source != nullptr) {
    const Source* inner = tracer.world.child(SourceKind::kGenericAttr, source, names().func);
    STATOR_VALUE(ignored, fromOutside(tracer, function.get(), inner));
  }
  if (Py_TYPE(descriptor) == &PyStaticMethod_Type) return function;
  if (kClassMethodsBindDescriptors && (Py_TYPE(function.get()) == &PyProperty_Type ||
                                       stator_is_user_class(Py_TYPE(function.get())))) {
    const Source* inner = source != nullptr
                              ? tracer.world.child(SourceKind::kGenericAttr, source, names().func)
                              : nullptr;
    if (Py_TYPE(function.get())->tp_descr_get != nullptr) {
      tracer.world.keep(function);
      return bindDescriptor(tracer, function.get(), reinterpret_cast<PyObject*>(type), type, inner);
    }
  }
  return stealRef(PyMethod_New(function.get(), reinterpret_cast<PyObject*>(type)));
}

// Runs a property's function; null: it has none.
Out readProperty(Tracer& tracer, PyObject* descriptor, PyObject* object, PyTypeObject* type,
                 const Source* source) {
  Ref<> getter = stealRef(PyObject_GetAttr(descriptor, names().fget));
  if (!getter) return tracer.raiseCurrentError();
  if (getter.get() == Py_None) return Ref<>();
  const Source* of_object = tracer.sourceOf(object);
  if (of_object != nullptr && !graph::isStandIn(object) &&
      (PyCFunction_Check(getter.get()) || PyInstanceMethod_Check(getter.get()))) {
    // Written in C (pybind11 makes such properties): read as C's own getters are.
    Ref<> raw = stealRef(PyObject_CallOneArg(getter.get(), object));
    if (!raw) return tracer.raiseCurrentError();
    Ref<> name = propertyName(type, descriptor);
    if (name)
      return fromOutside(tracer, raw.get(),
                         tracer.world.child(SourceKind::kGenericAttr, of_object, name.get()));
  }
  if (tracer.values.find(getter.get()) == nullptr && source != nullptr &&
      PyFunction_Check(getter.get())) {
    STATOR_VALUE(ignored,
                 fromOutside(tracer, getter.get(),
                             tracer.world.child(SourceKind::kGenericAttr, source, names().fget)));
  }
  tracer.world.keep(getter);
  Args args;
  args.values = {object};
  args.positional = 1;
  return tracer.above.call(getter.get(), args);
}

// A field of a named tuple: tuple's own item, whatever the class makes of __getitem__.
Out readField(Tracer& tracer, PyObject* descriptor, PyObject* object) {
  Ref<> reduced = stealRef(PyObject_CallMethod(descriptor, "__reduce__", nullptr));
  Py_ssize_t index =
      reduced ? PyLong_AsSsize_t(PyTuple_GET_ITEM(PyTuple_GET_ITEM(reduced.get(), 1), 0)) : -1;
  if (index < 0) return tracer.raiseCurrentError();
  STATOR_VALUE(items, contents(tracer, object));
  if (index >= PyTuple_GET_SIZE(items.get()))
    return tracer.raiseNew(PyExc_IndexError, "tuple index out of range");
  return newRef(PyTuple_GET_ITEM(items.get(), index));
}

// Of an object from outside: a slot of a user's class, or a field of a built-in type.
Out readOutsideMember(Tracer& tracer, PyObject* descriptor, PyObject* object, PyTypeObject* type,
                      values::Info* info) {
  Ref<> name = stealRef(PyObject_GetAttr(descriptor, names().name));
  if (_PyType_Lookup(Py_TYPE(object), name.get()) != descriptor)
    return tracer.breakWith(Reason::kUnsupportedAttribute, "a slot under another name");
  info = values::attributePart(info);
  if (info->overlay) {
    if (PyObject* written = PyDict_GetItemWithError(info->overlay.get(), name.get())) {
      return written == values::deletedMarker() ? Ref<>() : newRef(written);
    }
  }
  Ref<> raw = stealRef(
      Py_TYPE(descriptor)->tp_descr_get(descriptor, object, reinterpret_cast<PyObject*>(type)));
  bool slot = stator_is_user_class(PyDescr_TYPE(descriptor)) &&
              stator_slot_offset(Py_TYPE(object), name.get()) > 0;
  const Source* child = tracer.world.child(slot ? SourceKind::kAttr : SourceKind::kGenericAttr,
                                           info->source, name.get());
  if (!raw) {
    PyErr_Clear();
    tracer.world.guard(Guard{GuardKind::kAbsent, child});
    return Ref<>();
  }
  return fromOutside(tracer, raw.get(), child);
}

Out readMember(Tracer& tracer, PyObject* descriptor, PyObject* object, PyTypeObject* type) {
  if (values::Info* info = tracer.values.find(object);
      info != nullptr && info->origin == values::Origin::kOutside)
    return readOutsideMember(tracer, descriptor, object, type, info);
  Ref<> raw = stealRef(
      Py_TYPE(descriptor)->tp_descr_get(descriptor, object, reinterpret_cast<PyObject*>(type)));
  if (!raw) PyErr_Clear();
  return raw;
}

// The __dict__ of an object from outside: from here on its entries and the object's attributes are one.
Out dictOfOutside(Tracer& tracer, PyObject* object, const values::Info* info, const Ref<>& raw) {
  STATOR_VALUE(dict, fromOutside(tracer, raw.get(),
                                 tracer.world.child(SourceKind::kObjectDict, info->source)));
  // A module's attributes are the entries of its dict, and not the other way round.
  values::Info* used = tracer.values.find(raw.get());
  const bool written = used->attributes_of == nullptr && (used->overlay || used->dirty);
  if (!PyModule_Check(object)) used->attributes_of = object;
  tracer.values.find(object)->attributes = raw.get();
  // What was written to it before are attributes.
  if (written && !PyModule_Check(object)) STATOR_FLOW(contentsForWrite(tracer, raw.get()).flow());
  return dict;
}

// A frame may be one that the trace is in, whose locals and line are behind.
Flow checkFrameField(Tracer& tracer, PyObject* descriptor) {
  const std::string_view name = stator_descriptor_getset(descriptor)->name;
  if (name != "f_locals" && name != "f_lineno" && name != "f_lasti") return Flow::kOk;
  return tracer.breakWith(Reason::kUnsupportedAttribute, std::string(name) + " of a frame");
}

// An attribute that C code computes.
Out readComputed(Tracer& tracer, PyObject* descriptor, PyObject* object, PyTypeObject* type) {
  if (PyFrame_Check(object)) STATOR_FLOW(checkFrameField(tracer, descriptor));
  Ref<> name = stealRef(PyObject_GetAttr(descriptor, names().name));
  if (PyUnicode_Compare(name.get(), names().dunder_class) == 0)
    return newRef(reinterpret_cast<PyObject*>(typeOf(tracer, object)));
  values::Info* info = tracer.values.find(object);
  bool outside = info != nullptr && info->origin == values::Origin::kOutside;
  if (outside && info->attributes != nullptr && tracer.isMade(info->attributes) &&
      PyUnicode_Compare(name.get(), names().dunder_dict) == 0)
    return newRef(info->attributes);
  if (outside && PyFunction_Check(object) && values::attributePart(info)->overlay) {
    PyObject* written =
        PyDict_GetItemWithError(values::attributePart(info)->overlay.get(), name.get());
    if (written != nullptr && written != values::deletedMarker()) return newRef(written);
  }
  Ref<> raw = stealRef(
      Py_TYPE(descriptor)->tp_descr_get(descriptor, object, reinterpret_cast<PyObject*>(type)));
  if (!raw && outside) {
    // That it raises (the contents of an empty cell) is a fact as what it gives would be.
    ErrorAside error;
    tracer.world.guard(Guard{GuardKind::kAbsent, tracer.world.child(SourceKind::kGenericAttr,
                                                                    info->source, name.get())});
    error.restore();
  }
  if (!raw) return tracer.raiseCurrentError();
  if (!outside) {
    // Where it comes up in a plan it is the dict of the object that the plan makes.
    if (info != nullptr && PyDict_CheckExact(raw.get()) &&
        PyUnicode_Compare(name.get(), names().dunder_dict) == 0)
      tracer.values.addMade(raw.get(), tracer.frames.instruction()).attributes_of = object;
    return raw;
  }
  if (PyUnicode_Compare(name.get(), names().dunder_dict) == 0)
    return dictOfOutside(tracer, object, info, raw);
  // `number.imag` of a Decimal, which is this very one: another object at each read.
  if (isOpaqueConstant(object) && isOpaqueConstant(raw.get())) return raw;
  if (_PyType_Lookup(Py_TYPE(object), name.get()) != descriptor)
    return tracer.breakWith(Reason::kUnsupportedAttribute, "a field under another name");
  return fromOutside(tracer, raw.get(),
                     tracer.world.child(SourceKind::kGenericAttr, info->source, name.get()));
}

// functools.cached_property: its lock has no effect on one thread; the function runs and the result goes into the
// instance dict. A null Ref: that is its own code's to say.
Out readCachedProperty(Tracer& tracer, PyObject* descriptor, PyObject* object) {
  Ref<> function = stealRef(PyObject_GetAttrString(descriptor, "func"));
  Ref<> name = stealRef(PyObject_GetAttrString(descriptor, "attrname"));
  if (!function || !name) PyErr_Clear();
  if (!function || !name || !PyUnicode_CheckExact(name.get()) || PyType_Check(object))
    return Ref<>();
  if (!graph::isStandIn(object)) {
    if (!hasInstanceDict(object)) return Ref<>();
    STATOR_VALUE(kept, instanceAttr(tracer, object, name.get()));
    if (kept) return kept;
  }
  STATOR_VALUE(value, tracer.above.callNested(function.get(), {object}));
  STATOR_FLOW(storeInstanceAttr(tracer, object, name.get(), value.get()));
  return value;
}

// A class with a __get__ that is written in Python.
Out callGet(Tracer& tracer, PyObject* descriptor, PyObject* object, PyTypeObject* type,
            const Source* source) {
  PyTypeObject* kind = Py_TYPE(descriptor);
  static PyObject* const cached_property = torchObject("functools.cached_property");
  if (reinterpret_cast<PyObject*>(kind) == cached_property && object != nullptr) {
    STATOR_VALUE(value, readCachedProperty(tracer, descriptor, object));
    if (value) return value;
  }
  STATOR_VALUE(self, source != nullptr && tracer.values.find(descriptor) == nullptr
                         ? fromOutside(tracer, descriptor, source)
                         : Out(newRef(descriptor)));
  STATOR_VALUE(method, typeLookup(tracer, kind, names().dunder_get));
  STATOR_VALUE(function, classAttrValue(tracer, kind, names().dunder_get, method.get()));
  Args args;
  args.values = {self.get(), object != nullptr ? object : Py_None,
                 reinterpret_cast<PyObject*>(type)};
  args.positional = 3;
  return tracer.above.call(function.get(), args);
}

}  // namespace

namespace {
PyObject* callbackName() {
  static PyObject* const name = PyUnicode_InternFromString("__callback__");
  return name;
}
}  // namespace

Out bindDescriptor(Tracer& tracer, PyObject* descriptor, PyObject* object, PyTypeObject* type,
                   const Source* source) {
  PyTypeObject* kind = Py_TYPE(descriptor);
  // A disabled function is of the second type too.
  if (kind == &PyFunction_Type || kind == compiledFunctionType() || kind == lruCacheType())
    return bindFunction(tracer, descriptor, object, source);
  // A weak reference that the trace has made is the program's without a callback.
  if (object != nullptr && PyWeakref_CheckRefExact(object) && tracer.isMade(object) &&
      descriptor == _PyType_Lookup(&_PyWeakref_RefType, callbackName()))
    return newRef(Py_None);
  if (kind == &PyMethodDescr_Type || kind == &PyWrapperDescr_Type)
    return object != nullptr ? stealRef(PyMethod_New(descriptor, object)) : newRef(descriptor);
  if (kind == &PyStaticMethod_Type || kind == &PyClassMethod_Type)
    return bindToClass(tracer, descriptor, type, source);
  if (object != nullptr) {
    if (isProperty(descriptor)) return readProperty(tracer, descriptor, object, type, source);
    // of the module _collections in 3.11, of collections since
    if (std::string_view(kind->tp_name).ends_with("collections._tuplegetter") &&
        PyTuple_Check(object))
      return readField(tracer, descriptor, object);
    if (kind == &PyMemberDescr_Type) return readMember(tracer, descriptor, object, type);
    if (kind == &PyGetSetDescr_Type) return readComputed(tracer, descriptor, object, type);
  }
  if (kind == &PyClassMethodDescr_Type) {
    return tracer.fromNative(
        stealRef(kind->tp_descr_get(descriptor, object, reinterpret_cast<PyObject*>(type))));
  }
  if (kind->tp_descr_get == nullptr)
    return tracer.breakWith(Reason::kUnsupportedAttribute, kind->tp_name);
  PyObject* get = _PyType_Lookup(kind, names().dunder_get);
  if (get != nullptr && PyFunction_Check(get))
    return callGet(tracer, descriptor, object, type, source);
  if (kind == &PyInstanceMethod_Type && object != nullptr && isPlacement(object))
    return stealRef(PyMethod_New(PyInstanceMethod_GET_FUNCTION(descriptor), object));
  return tracer.breakWith(Reason::kUnsupportedAttribute, std::string("through a ") + kind->tp_name);
}

}  // namespace stator::interpret
