// Attribute access as Python defines it, over values that may come from outside: each look-up is guarded where it read.
#include "base/check.h"
#include "interpret/exceptions.h"
#include "interpret/known_types.h"
#include "interpret/names.h"
#include "symbolic/sym_int.h"
#include "interpret/trace_iterator.h"
#include "interpret/tracer.h"
#include "python/objects.h"

namespace stator::interpret {

using breaks::Reason;
using guards::Guard;
using guards::GuardKind;
using sources::Source;
using sources::SourceKind;

namespace {

bool isDataDescriptor(PyObject* descriptor) { return Py_TYPE(descriptor)->tp_descr_set != nullptr; }

// What the trace has put into a class under that name (borrowed), the marker of a deletion, or null: nothing was written there.
PyObject* writtenInClass(Tracer& tracer, PyTypeObject* type, PyObject* name) {
  values::Info* info = tracer.values.find(reinterpret_cast<PyObject*>(type));
  return info != nullptr && info->overlay ? PyDict_GetItemWithError(info->overlay.get(), name)
                                          : nullptr;
}

// The class whose dict has the name, as far as the trace has not written it itself.
PyTypeObject* ownerInMro(Tracer& tracer, PyTypeObject* type, PyObject* name) {
  PyObject* mro = type->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (tracer.classes_written) {
      PyObject* written = writtenInClass(tracer, base, name);
      if (written == values::deletedMarker()) continue;
      if (written != nullptr) return nullptr;
    }
    if (PyDict_GetItemWithError(base->tp_dict, name) != nullptr)
      return tracer.isMadeClass(reinterpret_cast<PyObject*>(base)) ? nullptr : base;
  }
  return nullptr;
}

// A name that the trace wrote in some class of the MRO: each class before it is guarded by itself.
Out lookUpWritten(Tracer& tracer, PyTypeObject* type, PyObject* name) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    PyObject* written = writtenInClass(tracer, base, name);
    if (written == values::deletedMarker()) continue;
    if (written != nullptr) return newRef(written);
    PyObject* raw = PyDict_GetItemWithError(base->tp_dict, name);
    if ((base->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 &&
        !tracer.isMadeClass(reinterpret_cast<PyObject*>(base))) {
      const Source* source = tracer.sources->child(
          SourceKind::kClassDict, tracer.sources->pinned(reinterpret_cast<PyObject*>(base)), name);
      if (raw == nullptr) {
        tracer.guards->add(Guard{GuardKind::kAbsent, source});
      } else {
        STATOR_VALUE(guarded, tracer.fromOutside(raw, source));
      }
    }
    if (raw != nullptr) return newRef(raw);
  }
  return Ref<>();
}

bool writtenInMro(Tracer& tracer, PyTypeObject* type, PyObject* name) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyObject* base = PyTuple_GET_ITEM(type->tp_mro, i);
    if (tracer.isMadeClass(base) ||
        writtenInClass(tracer, reinterpret_cast<PyTypeObject*>(base), name) != nullptr)
      return true;
  }
  return false;
}

}  // namespace

PyObject* Tracer::rawInstanceAttr(PyObject* object, PyObject* name) {
  StatorView view;
  if (!stator_view_object(&view, object) || view.keys == nullptr) return nullptr;
  Py_ssize_t index = stator_view_find(&view, name, PyObject_Hash(name));
  return index >= 0 ? stator_view_value(&view, index) : nullptr;
}

bool Tracer::hasInstanceDict(PyObject* object) {
  StatorView view;
  return stator_view_object(&view, object) != 0;
}

Out Tracer::typeLookup(PyTypeObject* type, PyObject* name) {
  if (classes_written && writtenInMro(*this, type, name)) return lookUpWritten(*this, type, name);
  PyObject* found = _PyType_Lookup(type, name);
  // Static types cannot change.
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0)
    guards->addTypeLookup(sources->pinned(reinterpret_cast<PyObject*>(type)), type, name, found);
  return Ref<>::create(found);
}

// The value of a plain (non-descriptor) entry of a class.
Out Tracer::classAttrValue(PyTypeObject* type, PyObject* name, PyObject* raw) {
  PyTypeObject* owner = ownerInMro(*this, type, name);
  if (owner == nullptr) return newRef(raw);
  if ((owner->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return newRef(raw);
  const Source* source = sources->child(SourceKind::kClassDict,
                                        sources->pinned(reinterpret_cast<PyObject*>(owner)), name);
  return fromOutside(raw, source);
}

namespace {

// The working copy of an object's __dict__, if there is one: it holds the attributes then.
PyObject* attributesShadow(Tracer& tracer, values::Info* info) {
  if (info->attributes == nullptr) return nullptr;
  values::Info* dict = tracer.values.find(info->attributes);
  return dict != nullptr ? dict->shadow.get() : nullptr;
}

}  // namespace

Out Tracer::instanceAttr(PyObject* object, PyObject* name) {
  values::Info* info = values.find(object);
  if (info == nullptr || info->origin == values::Origin::kMade) {
    return Ref<>::create(Tracer::rawInstanceAttr(object, name));
  }
  if (PyObject* shadow = attributesShadow(*this, info))
    return Ref<>::create(PyDict_GetItemWithError(shadow, name));
  if (PyModule_Check(object)) {
    // The globals of its functions, which may have been written as such.
    PyObject* dict = PyModule_GetDict(object);
    values::Info* written = values.find(dict);
    if (written != nullptr && (written->overlay || written->shadow)) return dictGet(dict, name);
  }
  info = values::attributePart(info);
  if (info->overlay) {
    if (PyObject* written = PyDict_GetItemWithError(info->overlay.get(), name)) {
      return written == values::deletedMarker() ? Ref<>() : newRef(written);
    }
  }
  if (info->known) {
    if (PyObject* seen = PyDict_GetItemWithError(info->known.get(), name)) {
      return seen == values::deletedMarker() ? Ref<>() : newRef(seen);
    }
  } else {
    info->known = stealRef(PyDict_New());
  }
  if (!Tracer::hasInstanceDict(object)) return Ref<>();
  const Source* source = sources->child(SourceKind::kAttr, info->source, name);
  Ref<> known = info->known;
  PyObject* raw = Tracer::rawInstanceAttr(object, name);
  if (raw == nullptr) {
    guards->add(Guard{GuardKind::kAbsent, source});
    PyDict_SetItem(known.get(), name, values::deletedMarker());
    return Ref<>();
  }
  STATOR_VALUE(value, fromOutside(raw, source));
  if (graph::isStandIn(value.get()) && isModule(object))
    graph::asStandIn(value.get())->node->of_module = true;
  PyDict_SetItem(known.get(), name, value.get());
  return value;
}

Flow Tracer::storeInstanceAttr(PyObject* object, PyObject* name, PyObject* value) {
  noteWrite(object);
  values::Info* info = values.find(object);
  if (info == nullptr || info->origin == values::Origin::kMade) {
    if (PyObject_GenericSetAttr(object, name, value) != 0) return raiseCurrentError();
    return Flow::kOk;
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
  PyObject* on_type = _PyType_Lookup(Py_TYPE(object), name);
  bool slot = on_type != nullptr && Py_TYPE(on_type) == &PyMemberDescr_Type;
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
    return raise(stealRef(PyObject_CallOneArg(PyExc_AttributeError, name)));
  }
  eraseOverlay(info, name, there);
  return Flow::kOk;
}

namespace {

// The name under which a class has a property.
Ref<> propertyName(PyTypeObject* type, PyObject* property) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyObject* dict = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i))->tp_dict;
    PyObject *name = nullptr, *value = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(dict, &position, &name, &value)) {
      if (value == property) return newRef(name);
    }
  }
  return Ref<>();
}

}  // namespace

Out Tracer::bindDescriptor(PyObject* descriptor, PyObject* object, PyTypeObject* type,
                           const Source* source) {
  PyTypeObject* kind = Py_TYPE(descriptor);
  if (kind == &PyFunction_Type) {
    if (values.find(descriptor) == nullptr && source != nullptr) {
      STATOR_VALUE(ignored, fromOutside(descriptor, source));
    }
    return object != nullptr ? stealRef(PyMethod_New(descriptor, object)) : newRef(descriptor);
  }
  if (kind == compiledFunctionType()) {
    // As functions do; a disabled function is of this type too.
    if (values.find(descriptor) == nullptr && source != nullptr) {
      STATOR_VALUE(ignored, fromOutside(descriptor, source));
    }
    return object != nullptr ? stealRef(PyMethod_New(descriptor, object)) : newRef(descriptor);
  }
  if (kind == &PyMethodDescr_Type || kind == &PyWrapperDescr_Type) {
    return object != nullptr ? stealRef(PyMethod_New(descriptor, object)) : newRef(descriptor);
  }
  if (kind == &PyStaticMethod_Type || kind == &PyClassMethod_Type) {
    Ref<> function = stealRef(PyObject_GetAttr(descriptor, names().func));
    if (!function) return raiseCurrentError();
    if (PyFunction_Check(function.get()) && values.find(function) == nullptr && source != nullptr) {
      const Source* inner = sources->child(SourceKind::kGenericAttr, source, names().func);
      STATOR_VALUE(ignored, fromOutside(function, inner));
    }
    if (kind == &PyStaticMethod_Type) return function;
    return stealRef(PyMethod_New(function.get(), reinterpret_cast<PyObject*>(type)));
  }
  if (kind == &PyProperty_Type && object != nullptr) {
    Ref<> getter = stealRef(PyObject_GetAttr(descriptor, names().fget));
    if (!getter) return raiseCurrentError();
    if (getter.get() == Py_None) return Ref<>();
    const Source* of_object = sourceOf(object);
    if (of_object != nullptr && !graph::isStandIn(object) &&
        (PyCFunction_Check(getter.get()) || PyInstanceMethod_Check(getter.get()))) {
      // Written in C (pybind11 makes such properties): read as C's own getters are.
      Ref<> raw = stealRef(PyObject_CallOneArg(getter.get(), object));
      if (!raw) return raiseCurrentError();
      Ref<> name = propertyName(type, descriptor);
      if (name) return fromOutside(raw, sources->child(SourceKind::kGenericAttr, of_object, name));
    }
    if (values.find(getter) == nullptr && source != nullptr && PyFunction_Check(getter.get())) {
      STATOR_VALUE(ignored, fromOutside(getter, sources->child(SourceKind::kGenericAttr, source,
                                                               names().fget)));
    }
    keep_alive.push_back(getter);
    Args args;
    args.values = {object};
    args.positional = 1;
    return call(getter.get(), args);
  }
  if (std::string_view(kind->tp_name) == "_collections._tuplegetter" && object != nullptr &&
      PyTuple_Check(object)) {
    // A field of a named tuple: tuple's own item, whatever the class makes of __getitem__.
    Ref<> reduced = stealRef(PyObject_CallMethod(descriptor, "__reduce__", nullptr));
    Py_ssize_t index =
        reduced ? PyLong_AsSsize_t(PyTuple_GET_ITEM(PyTuple_GET_ITEM(reduced.get(), 1), 0)) : -1;
    if (index < 0) return raiseCurrentError();
    STATOR_VALUE(items, contents(object));
    if (index >= PyTuple_GET_SIZE(items.get()))
      return raiseNew(PyExc_IndexError, "tuple index out of range");
    return newRef(PyTuple_GET_ITEM(items.get(), index));
  }
  if (kind == &PyMemberDescr_Type && object != nullptr) {
    if (values::Info* info = values.find(object);
        info != nullptr && info->origin == values::Origin::kOutside) {
      Ref<> name = stealRef(PyObject_GetAttr(descriptor, names().name));
      info = values::attributePart(info);
      if (info->overlay) {
        if (PyObject* written = PyDict_GetItemWithError(info->overlay.get(), name.get())) {
          return written == values::deletedMarker() ? Ref<>() : newRef(written);
        }
      }
      Ref<> raw =
          stealRef(kind->tp_descr_get(descriptor, object, reinterpret_cast<PyObject*>(type)));
      // A slot of a user's class, or a field of a built-in type.
      bool slot = (reinterpret_cast<PyDescrObject*>(descriptor)->d_type->tp_flags &
                   Py_TPFLAGS_HEAPTYPE) != 0;
      const Source* child =
          sources->child(slot ? SourceKind::kAttr : SourceKind::kGenericAttr, info->source, name);
      if (!raw) {
        PyErr_Clear();
        guards->add(Guard{GuardKind::kAbsent, child});
        return Ref<>();
      }
      return fromOutside(raw, child);
    }
    Ref<> raw = stealRef(kind->tp_descr_get(descriptor, object, reinterpret_cast<PyObject*>(type)));
    if (!raw) PyErr_Clear();
    return raw;
  }
  if (kind == &PyGetSetDescr_Type && object != nullptr) {
    Ref<> name = stealRef(PyObject_GetAttr(descriptor, names().name));
    if (PyUnicode_Compare(name.get(), names().dunder_class) == 0)
      return newRef(reinterpret_cast<PyObject*>(typeOf(object)));
    values::Info* info = values.find(object);
    bool outside = info != nullptr && info->origin == values::Origin::kOutside;
    Ref<> raw = stealRef(kind->tp_descr_get(descriptor, object, reinterpret_cast<PyObject*>(type)));
    if (!raw) return raiseCurrentError();
    if (!outside) return raw;
    if (PyUnicode_Compare(name.get(), names().dunder_dict) == 0) {
      STATOR_VALUE(dict, fromOutside(raw, sources->child(SourceKind::kObjectDict, info->source)));
      values.find(raw)->attributes_of = object;
      values.find(object)->attributes = raw.get();
      return dict;
    }
    return fromOutside(raw, sources->child(SourceKind::kGenericAttr, info->source, name));
  }
  if (object != nullptr && PyTuple_Check(object) &&
      std::string_view(kind->tp_name) == "_collections._tuplegetter") {
    // A field of a named tuple, by its position; the descriptor tells it when it is pickled: (type, (index, doc)).
    Ref<> parts = stealRef(PyObject_CallMethod(descriptor, "__reduce__", nullptr));
    if (!parts) return raiseCurrentError();
    PyObject* state = PyTuple_GET_ITEM(parts.get(), 1);
    Py_ssize_t index = PyLong_AsSsize_t(PyTuple_GET_ITEM(state, 0));
    STATOR_VALUE(items, contents(object));
    if (index < 0 || index >= PyTuple_GET_SIZE(items.get()))
      return breakWith(Reason::kRaises, "a field of a shorter tuple");
    return newRef(PyTuple_GET_ITEM(items.get(), index));
  }
  if (kind == &PyClassMethodDescr_Type) {
    return fromNative(
        stealRef(kind->tp_descr_get(descriptor, object, reinterpret_cast<PyObject*>(type))));
  }
  if (object != nullptr && PyTuple_Check(object) &&
      std::string_view(kind->tp_name) == "_collections._tuplegetter") {
    // A field of a named tuple: the item at its position, which the descriptor keeps behind its header.
    Ref<> position = stealRef(PyLong_FromSsize_t(
        *reinterpret_cast<Py_ssize_t*>(reinterpret_cast<char*>(descriptor) + sizeof(PyObject))));
    return getItem(object, position.get());
  }
  if (kind->tp_descr_get != nullptr) {
    PyObject* get = _PyType_Lookup(kind, names().dunder_get);
    if (get != nullptr && PyFunction_Check(get)) {
      if (std::string_view(kind->tp_name) == "cached_property" && object != nullptr &&
          !PyType_Check(object)) {
        // functools.cached_property: its lock has no effect on one thread; the function runs and the result goes into the instance dict.
        Ref<> function = stealRef(PyObject_GetAttrString(descriptor, "func"));
        Ref<> name = stealRef(PyObject_GetAttrString(descriptor, "attrname"));
        if (function && name) {
          STATOR_VALUE(value, callNested(function.get(), {object}));
          STATOR_FLOW(storeInstanceAttr(object, name.get(), value.get()));
          return value;
        }
        PyErr_Clear();
      }
      STATOR_VALUE(self, source != nullptr && values.find(descriptor) == nullptr
                             ? fromOutside(descriptor, source)
                             : Out(newRef(descriptor)));
      STATOR_VALUE(method, typeLookup(kind, names().dunder_get));
      STATOR_VALUE(function, classAttrValue(kind, names().dunder_get, method.get()));
      Args args;
      args.values = {self.get(), object != nullptr ? object : Py_None,
                     reinterpret_cast<PyObject*>(type)};
      args.positional = 3;
      return call(function.get(), args);
    }
    return breakWith(Reason::kUnsupportedAttribute, std::string("through a ") + kind->tp_name);
  }
  return breakWith(Reason::kUnsupportedAttribute, kind->tp_name);
}

namespace {

// The source of the raw class entry, for descriptors that carry functions.
const Source* classEntrySource(Tracer& tracer, PyTypeObject* type, PyObject* name) {
  PyTypeObject* owner = ownerInMro(tracer, type, name);
  if (owner == nullptr) return nullptr;
  return tracer.sources->child(SourceKind::kClassDict,
                               tracer.sources->pinned(reinterpret_cast<PyObject*>(owner)), name);
}

bool isDescriptor(PyObject* value) { return Py_TYPE(value)->tp_descr_get != nullptr; }

Out moduleAttribute(Tracer& tracer, PyObject* module, PyObject* name) {
  PyObject* on_type = _PyType_Lookup(Py_TYPE(module), name);
  if (on_type != nullptr && Py_TYPE(on_type)->tp_descr_set != nullptr)
    return tracer.bindDescriptor(on_type, module, Py_TYPE(module), nullptr);
  STATOR_VALUE(found, tracer.instanceAttr(module, name));
  if (found) return found;
  if (on_type != nullptr) return tracer.bindDescriptor(on_type, module, Py_TYPE(module), nullptr);
  STATOR_VALUE(hook, tracer.instanceAttr(module, names().dunder_getattr));
  if (!hook) return Ref<>();
  return tracer.callNested(hook.get(), {name});
}

Out typeAttribute(Tracer& tracer, PyTypeObject* type, PyObject* name) {
  PyTypeObject* meta = Py_TYPE(reinterpret_cast<PyObject*>(type));
  PyObject* on_meta = _PyType_Lookup(meta, name);
  if (meta->tp_getattro != PyType_Type.tp_getattro) {
    static PyObject* getattribute = PyUnicode_InternFromString("__getattribute__");
    PyObject* found = _PyType_Lookup(meta, getattribute);
    if (found == nullptr || PyFunction_Check(found))
      return tracer.breakWith(Reason::kCustomGetattribute, meta->tp_name);
  }
  if (on_meta != nullptr && isDataDescriptor(on_meta)) {
    if (Py_TYPE(on_meta) == &PyGetSetDescr_Type || Py_TYPE(on_meta) == &PyMemberDescr_Type) {
      // __name__, __mro__, __dict__, __bases__ ...: facts of the type.
      Ref<> value = stealRef(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), name));
      if (!value) return tracer.raiseCurrentError();
      if (Py_TYPE(value.get()) == mappingProxyType())
        return tracer.fromOutside(value, tracer.sources->pinned(value));
      if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 || values::isScalar(value.get()) ||
          PyType_Check(value.get()) || tracer.isMadeClass(reinterpret_cast<PyObject*>(type))) {
        return value;
      }
      return tracer.fromOutside(
          value,
          tracer.sources->child(SourceKind::kGenericAttr,
                                tracer.sources->pinned(reinterpret_cast<PyObject*>(type)), name));
    }
    return tracer.bindDescriptor(on_meta, reinterpret_cast<PyObject*>(type), meta,
                                 classEntrySource(tracer, meta, name));
  }
  STATOR_VALUE(found, tracer.typeLookup(type, name));
  if (found) {
    if (isDescriptor(found.get()) && Py_TYPE(found.get()) != &PyProperty_Type &&
        Py_TYPE(found.get()) != &PyMemberDescr_Type &&
        Py_TYPE(found.get()) != &PyGetSetDescr_Type && !PyType_Check(found.get())) {
      return tracer.bindDescriptor(found.get(), nullptr, type,
                                   classEntrySource(tracer, type, name));
    }
    return tracer.classAttrValue(type, name, found.get());
  }
  if (on_meta != nullptr) {
    if (isDescriptor(on_meta)) {
      return tracer.bindDescriptor(on_meta, reinterpret_cast<PyObject*>(type), meta,
                                   classEntrySource(tracer, meta, name));
    }
    return tracer.classAttrValue(meta, name, on_meta);
  }
  PyObject* hook = _PyType_Lookup(meta, names().dunder_getattr);
  if (hook != nullptr && PyFunction_Check(hook)) {
    STATOR_VALUE(function, tracer.classAttrValue(meta, names().dunder_getattr, hook));
    return tracer.callNested(function.get(), {reinterpret_cast<PyObject*>(type), name});
  }
  return Ref<>();
}

Out superAttribute(Tracer& tracer, PyObject* super, PyObject* name) {
  Ref<> this_class = stealRef(PyObject_GetAttrString(super, "__thisclass__"));
  Ref<> self = stealRef(PyObject_GetAttrString(super, "__self__"));
  Ref<> self_class = stealRef(PyObject_GetAttrString(super, "__self_class__"));
  if (!this_class || !self || !self_class) return tracer.raiseCurrentError();
  if (const Source* source = tracer.sourceOf(super)) {
    for (auto [part, field] :
         {std::pair(&this_class, "__thisclass__"), std::pair(&self_class, "__self_class__"),
          std::pair(&self, "__self__")}) {
      Ref<> field_name = stealRef(PyUnicode_InternFromString(field));
      STATOR_VALUE(read, tracer.fromOutside(*part, tracer.sources->child(SourceKind::kGenericAttr,
                                                                         source, field_name)));
      *part = read;
    }
  }
  auto* start = reinterpret_cast<PyTypeObject*>(self_class.get());
  PyObject* mro = start->tp_mro;
  Py_ssize_t i = 0;
  while (i < PyTuple_GET_SIZE(mro) && PyTuple_GET_ITEM(mro, i) != this_class.get()) ++i;
  for (++i; i < PyTuple_GET_SIZE(mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    bool heap = (base->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 &&
                !tracer.isMadeClass(reinterpret_cast<PyObject*>(base));
    const Source* source =
        heap
            ? tracer.sources->child(SourceKind::kClassDict,
                                    tracer.sources->pinned(reinterpret_cast<PyObject*>(base)), name)
            : nullptr;
    PyObject* raw = PyDict_GetItemWithError(base->tp_dict, name);
    if (PyObject* written = tracer.classes_written ? writtenInClass(tracer, base, name) : nullptr) {
      if (written == values::deletedMarker()) continue;
      if (!isDescriptor(written)) return newRef(written);
      return tracer.bindDescriptor(written, self.get() == self_class.get() ? nullptr : self.get(),
                                   start, nullptr);
    }
    if (raw == nullptr) {
      if (heap) tracer.guards->add(Guard{GuardKind::kAbsent, source});
      continue;
    }
    if (!isDescriptor(raw)) return heap ? tracer.fromOutside(raw, source) : Out(newRef(raw));
    bool on_class = self.get() == self_class.get();
    return tracer.bindDescriptor(raw, on_class ? nullptr : self.get(), start, source);
  }
  Ref<> own = stealRef(PyObject_GenericGetAttr(super, name));
  if (!own) {
    PyErr_Clear();
    return Ref<>();
  }
  return own;
}

// nn.Module.__getattr__ is never interpreted: the three dicts are read directly.
Out nnModuleAttribute(Tracer& tracer, PyObject* module, PyObject* name) {
  struct Place {
    PyObject* dict_name;
    SourceKind kind;
  };
  const Place places[] = {{names().parameters, SourceKind::kParameter},
                          {names().buffers, SourceKind::kBuffer},
                          {names().modules, SourceKind::kSubmodule}};
  values::Info* info = tracer.values.find(module);
  bool outside = info != nullptr && info->origin == values::Origin::kOutside;
  for (const Place& place : places) {
    if (!outside || (info->overlay &&
                     PyDict_GetItemWithError(info->overlay.get(), place.dict_name) != nullptr)) {
      STATOR_VALUE(dict, tracer.instanceAttr(module, place.dict_name));
      if (!dict) continue;
      STATOR_VALUE(found, tracer.dictGet(dict.get(), name));
      if (found) return found;
      continue;
    }
    PyObject* dict = Tracer::rawInstanceAttr(module, place.dict_name);
    if (dict == nullptr) continue;
    values::Info* written = tracer.values.find(dict);
    if (!PyDict_Check(dict) || (written != nullptr && (written->shadow || written->overlay))) {
      STATOR_VALUE(value, tracer.instanceAttr(module, place.dict_name));
      STATOR_VALUE(found, tracer.dictGet(value.get(), name));
      if (found) return found;
      continue;
    }
    const Source* source = tracer.sources->child(place.kind, info->source, name);
    PyObject* raw = PyDict_GetItemWithError(dict, name);
    if (raw == nullptr) {
      tracer.guards->add(Guard{GuardKind::kAbsent, source});
      continue;
    }
    return tracer.fromOutside(raw, source);
  }
  return Ref<>();
}

}  // namespace

namespace {

// A class may get a __getattribute__ or __getattr__ later.
void guardLookupProtocol(Tracer& tracer, PyTypeObject* type) {
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 || !tracer.attribute_types.insert(type).second)
    return;
  static PyObject* getattribute = PyUnicode_InternFromString("__getattribute__");
  (void)tracer.typeLookup(type, getattribute);
  (void)tracer.typeLookup(type, names().dunder_getattr);
}

// What stands in a class may be an object of a user's class that becomes a descriptor, or another kind of descriptor, later.
void guardDescriptorKind(Tracer& tracer, PyObject* entry) {
  PyTypeObject* kind = Py_TYPE(entry);
  if ((kind->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 || !tracer.descriptor_types.insert(kind).second)
    return;
  static PyObject* remove = PyUnicode_InternFromString("__delete__");
  for (PyObject* method : {names().dunder_get, names().dunder_set, remove})
    (void)tracer.typeLookup(kind, method);
}

}  // namespace

const Source* Tracer::classEntry(PyTypeObject* type, PyObject* name) {
  return classEntrySource(*this, type, name);
}

Out Tracer::getAttrOrNull(PyObject* object, PyObject* name) {
  if (graph::isStandIn(object)) return tensorAttr(object, name);
  if (symbolic::isSymScalar(object) && symbolic::asSymScalar(object)->backed) {
    // Methods of a float (is_integer, hex ...) are about the number that it is.
    keep_alive.push_back(concrete(object));
    return getAttrOrNull(newRef(keep_alive.back().get()).get(), name);
  }
  if (isTraceIterator(object)) {
    PyObject* found = _PyType_Lookup(typeOf(object), name);
    if (found == nullptr) return Ref<>();
    if (Py_TYPE(found) == &PyGetSetDescr_Type || Py_TYPE(found) == &PyMemberDescr_Type) {
      TraceIterator* iterator = asTraceIterator(object);
      PyObject* function = iterator->flag ? nullptr : iterator->function;
      if (function != nullptr && PyUnicode_CompareWithASCIIString(name, "__name__") == 0)
        return newRef(reinterpret_cast<PyFunctionObject*>(function)->func_name);
      if (function != nullptr && PyUnicode_CompareWithASCIIString(name, "__qualname__") == 0)
        return newRef(reinterpret_cast<PyFunctionObject*>(function)->func_qualname);
      if (function != nullptr && PyUnicode_CompareWithASCIIString(name, "gi_running") == 0)
        return newRef(iterator->running ? Py_True : Py_False);
      return breakWith(Reason::kUnsupportedAttribute,
                       std::string(PyUnicode_AsUTF8(name)) + " of an iterator");
    }
    return stealRef(PyMethod_New(found, object));
  }
  if (PyType_Check(object))
    return typeAttribute(*this, reinterpret_cast<PyTypeObject*>(object), name);
  if (PyModule_CheckExact(object)) return moduleAttribute(*this, object, name);
  PyTypeObject* type = Py_TYPE(object);
  if (isTraceTraceback(object)) return breakWith(Reason::kUnsupportedAttribute, "of a traceback");
  if (PyExceptionInstance_Check(object) && isMade(object) &&
      PyUnicode_CompareWithASCIIString(name, "__traceback__") == 0) {
    return tracebackOf(*this, object);
  }
  if (type == &PySuper_Type) return superAttribute(*this, object, name);
  if (type == &PyMethod_Type) {
    if (PyUnicode_Compare(name, names().dunder_self) == 0) {
      if (const Source* source = sourceOf(object))
        return fromOutside(PyMethod_GET_SELF(object),
                           sources->child(SourceKind::kMethodSelf, source));
      return newRef(PyMethod_GET_SELF(object));
    }
    Ref<> function = newRef(PyMethod_GET_FUNCTION(object));
    if (const Source* source = sourceOf(object)) {
      STATOR_VALUE(read, fromOutside(function, sources->child(SourceKind::kMethodFunc, source)));
      function = read;
    }
    if (PyUnicode_Compare(name, names().func) == 0) return function;
    return getAttrOrNull(function.get(), name);
  }
  bool generic = type->tp_getattro == PyObject_GenericGetAttr;
  // A module of a class of its own (torch._VF): an ordinary object, apart from what C's module type adds.
  static PyObject* dunder_getattribute = PyUnicode_InternFromString("__getattribute__");
  if (PyModule_Check(object) && !PyFunction_Check(_PyType_Lookup(type, dunder_getattribute))) {
    STATOR_VALUE(found, getAttrGeneric(object, name));
    if (found) return found;
    return callGetattr(object, name);
  }
  if (!generic) {
    static PyObject* getattribute = PyUnicode_InternFromString("__getattribute__");
    PyObject* found = _PyType_Lookup(type, getattribute);
    PyObject* of_object = _PyType_Lookup(&PyBaseObject_Type, getattribute);
    if (found != of_object) {
      std::string_view kind = type->tp_name;
      // `int | str` and `list[int]` are immutable, and their attributes are facts about them.
      if (kind == "types.UnionType" || kind == "types.GenericAlias") {
        Ref<> value = stealRef(PyObject_GetAttr(object, name));
        if (!value) PyErr_Clear();
        return value;
      }
      if (found == nullptr || !PyFunction_Check(found))
        return breakWith(Reason::kUnsupportedAttribute, std::string("of a ") + type->tp_name);
      STATOR_VALUE(checked, typeLookup(type, getattribute));
      STATOR_VALUE(function, classAttrValue(type, getattribute, checked.get()));
      PyObject* fallback = _PyType_Lookup(type, names().dunder_getattr);
      if (fallback == nullptr) {
        Args args;
        args.values = {object, name};
        args.positional = 2;
        return call(function.get(), args);
      }
      Out value = callNested(function.get(), {object, name});
      if (value.flow() != Flow::kRaise ||
          !PyErr_GivenExceptionMatches(raised.get(), PyExc_AttributeError))
        return value;
      raised.reset();
      return callGetattr(object, name);
    }
  }
  guardLookupProtocol(*this, type);
  Out out = getAttrGeneric(object, name);
  if (generic) return out;
  // An AttributeError from a property or descriptor makes CPython ask __getattr__.
  if (out.flow() == Flow::kEntered) frames.back()->getattr_follows = true;
  if (out.flow() == Flow::kRaise &&
      PyErr_GivenExceptionMatches(raised.get(), PyExc_AttributeError)) {
    raised.reset();
    return callGetattr(object, name);
  }
  if (!out.ok() || out.get() != nullptr) return out;
  return callGetattr(object, name);
}

Out Tracer::getAttrGeneric(PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  STATOR_VALUE(on_type, typeLookup(type, name));
  if (on_type) guardDescriptorKind(*this, on_type.get());
  if (on_type && isDataDescriptor(on_type.get())) {
    return bindDescriptor(on_type.get(), object, type, classEntrySource(*this, type, name));
  }
  STATOR_VALUE(own, instanceAttr(object, name));
  if (own) return own;
  if (!on_type) return Ref<>();
  if (isDescriptor(on_type.get()))
    return bindDescriptor(on_type.get(), object, type, classEntrySource(*this, type, name));
  return classAttrValue(type, name, on_type.get());
}

// The class's __getattr__, after everything else has failed.
Out Tracer::callGetattr(PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject* hook = _PyType_Lookup(type, names().dunder_getattr);
  if (hook == nullptr) return Ref<>();
  if (hook == names().nn_module_getattr) return nnModuleAttribute(*this, object, name);
  if (!PyFunction_Check(hook))
    return breakWith(Reason::kUnsupportedAttribute,
                     std::string(type->tp_name) + ".__getattr__ is not a Python function");
  STATOR_VALUE(checked, typeLookup(type, names().dunder_getattr));
  STATOR_VALUE(function, classAttrValue(type, names().dunder_getattr, checked.get()));
  Args args;
  args.values = {object, name};
  args.positional = 2;
  return call(function.get(), args);
}

Out Tracer::getAttr(PyObject* object, PyObject* name) {
  Out found = getAttrOrNull(object, name);
  if (!found.ok() || found.get() != nullptr) return found;
  return raiseAttributeError(object, name);
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
      if (!hook || !PyFunction_Check(hook.get()))
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
    if (kind == &PyProperty_Type) {
      Ref<> setter =
          stealRef(PyObject_GetAttrString(on_type.get(), value != nullptr ? "fset" : "fdel"));
      if (!setter || setter.get() == Py_None) {
        PyErr_Clear();
        return breakWith(Reason::kRaises, "sets a property without a setter");
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
    PyObject* set = _PyType_Lookup(kind, names().dunder_set);
    if (set != nullptr && PyFunction_Check(set) && value != nullptr) {
      STATOR_VALUE(self, values.find(on_type) == nullptr
                             ? fromOutside(on_type, classEntrySource(*this, type, name))
                             : Out(on_type));
      STATOR_VALUE(function, classAttrValue(kind, names().dunder_set, set));
      Args args;
      args.values = {self.get(), object, value};
      args.positional = 3;
      return call(function.get(), args, Then::kDiscard).flow();
    }
    if (isMade(object) && kind == &PyGetSetDescr_Type) {
      if (PyObject_GenericSetAttr(object, name, value) != 0) return raiseCurrentError();
      return Flow::kOk;
    }
    return breakWith(Reason::kUnsupportedMutation, std::string("through a ") + kind->tp_name);
  }
  if (!Tracer::hasInstanceDict(object)) {
    if (!on_type) return raiseAttributeError(object, name);
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

Out Tracer::loadGlobal(SymbolicFrame& frame, PyObject* name) {
  struct Place {
    PyObject* dict;
    const Source* source;
  };
  if (frame.globals_source == nullptr) frame.globals_source = sources->pinned(frame.globals);
  const Source* builtins_source =
      frames.front().get() == &frame && frame.globals_source->kind == SourceKind::kGlobals
          ? sources->root(SourceKind::kBuiltins)
          : sources->pinned(frame.builtins);
  const Place places[] = {{frame.globals, frame.globals_source}, {frame.builtins, builtins_source}};
  for (const Place& place : places) {
    if (!PyDict_CheckExact(place.dict))
      return breakWith(Reason::kUnsupportedObject, "globals that are not a plain dict");
    values::Info* info = values.find(place.dict);
    if (info == nullptr) info = &values.addOutside(place.dict, place.source);
    STATOR_VALUE(found, dictGet(place.dict, name));
    if (found) return found;
  }
  return raiseNameError(PyExc_NameError, "name '%U' is not defined", name);
}

Out Tracer::special(PyObject* object, const char* name) {
  Ref<> text = stealRef(PyUnicode_InternFromString(name));
  PyTypeObject* type = typeOf(object);
  STATOR_VALUE(found, typeLookup(type, text.get()));
  if (!found || found.get() == Py_None) return Ref<>();
  if (Py_TYPE(found.get())->tp_descr_get == nullptr)
    return classAttrValue(type, text.get(), found.get());
  return bindDescriptor(found.get(), object, type, classEntrySource(*this, type, text.get()));
}

}  // namespace stator::interpret
