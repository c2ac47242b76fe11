// Attribute access as Python defines it, over values that may come from outside: each look-up is guarded where it read.
#include "interpret/objects/attributes.h"

#include "base/text.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/sym_scalars.h"
#include "interpret/core/symbols.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/descriptors.h"
#include "interpret/objects/errors.h"
#include "interpret/objects/exceptions.h"
#include "interpret/objects/items.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/thread_locals.h"
#include "python/objects.h"
#include "python/types.h"
#include "symbolic/sym_int.h"

namespace stator::interpret {

namespace {

// What the trace has put into a class under that name (borrowed), the marker of a deletion, or null: nothing was written there.
PyObject* writtenInClass(Tracer& tracer, PyTypeObject* type, PyObject* name) {
  values::Info* info = tracer.values.find(reinterpret_cast<PyObject*>(type));
  return info != nullptr && info->overlay ? PyDict_GetItemWithError(info->overlay.get(), name)
                                          : nullptr;
}

// The class whose dict has the name, as far as the trace has not written it itself.
PyTypeObject* ownerInMro(Tracer& tracer, PyTypeObject* type, PyObject* name) {
  PyObject* mro = stator_type_mro(type);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (tracer.classes.anyWritten()) {
      PyObject* written = writtenInClass(tracer, base, name);
      if (written == values::deletedMarker()) continue;
      if (written != nullptr) return nullptr;
    }
    if (PyDict_GetItemWithError(stator_type_entries(base), name) != nullptr)
      return isMadeClass(tracer, reinterpret_cast<PyObject*>(base)) ? nullptr : base;
  }
  return nullptr;
}

// A name that the trace wrote in some class of the MRO: each class before it is guarded by itself.
Out lookUpWritten(Tracer& tracer, PyTypeObject* type, PyObject* name) {
  PyObject* mro = stator_type_mro(type);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    PyObject* written = writtenInClass(tracer, base, name);
    if (written == values::deletedMarker()) continue;
    if (written != nullptr) return newRef(written);
    PyObject* raw = PyDict_GetItemWithError(stator_type_entries(base), name);
    if (stator_is_user_class(base) && !isMadeClass(tracer, reinterpret_cast<PyObject*>(base))) {
      const Source* source = tracer.world.child(
          SourceKind::kClassDict, tracer.world.sources().pinned(reinterpret_cast<PyObject*>(base)),
          name);
      if (raw == nullptr) {
        tracer.world.guard(Guard{GuardKind::kAbsent, source});
      } else {
        STATOR_VALUE(guarded, fromOutside(tracer, raw, source));
      }
    }
    if (raw != nullptr) return newRef(raw);
  }
  return Ref<>();
}

bool writtenInMro(Tracer& tracer, PyTypeObject* type, PyObject* name) {
  PyObject* mro = stator_type_mro(type);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    PyObject* base = PyTuple_GET_ITEM(mro, i);
    if (isMadeClass(tracer, base) ||
        writtenInClass(tracer, reinterpret_cast<PyTypeObject*>(base), name) != nullptr)
      return true;
  }
  return false;
}

}  // namespace

PyObject* rawInstanceAttr(PyObject* object, PyObject* name) {
  StatorView view;
  if (!stator_view_object(&view, object) || view.keys == nullptr) return nullptr;
  Py_ssize_t index = stator_view_find(&view, name, PyObject_Hash(name));
  return index >= 0 ? stator_view_value(&view, index) : nullptr;
}

bool hasInstanceDict(PyObject* object) {
  StatorView view;
  return stator_view_object(&view, object) != 0;
}

Out typeLookup(Tracer& tracer, PyTypeObject* type, PyObject* name) {
  if (tracer.classes.anyWritten() && writtenInMro(tracer, type, name))
    return lookUpWritten(tracer, type, name);
  PyObject* found = _PyType_Lookup(type, name);
  // Static types cannot change.
  if (stator_is_user_class(type))
    tracer.world.guards().addTypeLookup(
        tracer.world.sources().pinned(reinterpret_cast<PyObject*>(type)), type, name, found);
  return Ref<>::create(found);
}

// The value of a plain (non-descriptor) entry of a class.
Out classAttrValue(Tracer& tracer, PyTypeObject* type, PyObject* name, PyObject* raw) {
  PyTypeObject* owner = ownerInMro(tracer, type, name);
  if (owner == nullptr) return newRef(raw);
  if (!stator_is_user_class(owner)) return newRef(raw);
  const Source* source =
      tracer.world.child(SourceKind::kClassDict,
                         tracer.world.sources().pinned(reinterpret_cast<PyObject*>(owner)), name);
  return fromOutside(tracer, raw, source);
}

namespace {

// Null: it has none yet, or none at all.
PyObject* dictOf(PyObject* object) {
  StatorView view;
  if (PyType_Check(object) || PyModule_Check(object) || !stator_view_object(&view, object))
    return nullptr;
  return reinterpret_cast<PyObject*>(view.dict);
}

Flow link(Tracer& t, PyObject* object, PyObject* dict) {
  values::Info *owner = t.values.find(object), *info = t.values.find(dict);
  const Source* source = t.world.child(SourceKind::kObjectDict, owner->source);
  if (info->source != source) t.world.guard(Guard{GuardKind::kSameAs, info->source, source});
  info->attributes_of = object;
  owner->attributes = dict;
  if (!info->overlay && !info->dirty) return Flow::kOk;
  return contentsForWrite(t, dict).flow();  // what was written to it are attributes
}

bool isFree(values::Info* dict) {
  return dict != nullptr && dict->origin == values::Origin::kOutside &&
         dict->attributes_of == nullptr && dict->source != nullptr;
}

}  // namespace

Flow linkOwnDict(Tracer& t, PyObject* object, bool writes) {
  PyObject* dict = dictOf(object);
  if (dict == nullptr || !PyDict_CheckExact(dict) || t.values.find(object)->attributes != nullptr)
    return Flow::kOk;
  values::Info* info = t.values.find(dict);
  if (info == nullptr && writes) {
    const Source* source = t.world.child(SourceKind::kObjectDict, t.values.find(object)->source);
    info = &t.values.addOutside(dict, source);
  }
  if (info != nullptr && info->attributes_of != nullptr && info->attributes_of != object)
    return t.breakWith(Reason::kUnsupportedObject, "objects that share a __dict__");
  return isFree(info) ? link(t, object, dict) : Flow::kOk;
}

Flow linkOwner(Tracer& t, PyObject* dict) {
  values::Info* info = t.values.find(dict);
  if (!isFree(info) || info->overlay || info->dirty || !PyDict_CheckExact(dict)) return Flow::kOk;
  for (values::Info* other : t.values.all()) {
    if (other->origin != values::Origin::kOutside || other->source == nullptr ||
        (!other->known && !other->overlay) || dictOf(other->object.get()) != dict)
      continue;
    return link(t, other->object.get(), dict);
  }
  return Flow::kOk;
}

// `self.__dict__ = self` in a subclass of dict, from outside: its attributes are its items. Stays so, or stays not so.
bool isItsOwnDict(Tracer& t, PyObject* object) {
  const Source* source =
      PyDict_Check(object) && !PyDict_CheckExact(object) ? t.sourceOf(object) : nullptr;
  if (source == nullptr || !hasInstanceDict(object)) return false;
  const bool own = dictOf(object) == object;
  t.world.guard(Guard{own ? GuardKind::kSameAs : GuardKind::kNotSameAs, source,
                      t.world.child(SourceKind::kObjectDict, source)});
  return own;
}

Out instanceAttr(Tracer& tracer, PyObject* object, PyObject* name) {
  values::Info* info = tracer.values.find(object);
  if (info == nullptr || info->origin == values::Origin::kMade) {
    return Ref<>::create(rawInstanceAttr(object, name));
  }
  if (isItsOwnDict(tracer, object)) return dictGet(tracer, object, name);
  if (PyObject* shadow = attributesShadow(tracer, info))
    return Ref<>::create(PyDict_GetItemWithError(shadow, name));
  if (PyModule_Check(object)) {
    // The globals of its functions, which may have been written as such.
    PyObject* dict = PyModule_GetDict(object);
    values::Info* written = dict != nullptr ? tracer.values.find(dict) : nullptr;
    if (written != nullptr && (written->overlay || written->shadow))
      return dictGet(tracer, dict, name);
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
    if (info->object.get() == object && PyDict_Check(object) == 0) {
      STATOR_FLOW(linkOwnDict(tracer, object, false));
      if (PyObject* shadow = attributesShadow(tracer, info))
        return Ref<>::create(PyDict_GetItemWithError(shadow, name));
    }
  }
  if (!hasInstanceDict(object)) return Ref<>();
  const Source* source = tracer.world.child(SourceKind::kAttr, info->source, name);
  Ref<> known = info->known;
  PyObject* raw = nullptr;
  if (StatorView view; stator_view_object(&view, object) && view.keys != nullptr) {
    const Py_ssize_t index = stator_view_find(&view, name, PyObject_Hash(name));
    if (index < -1)
      return tracer.breakWith(Reason::kUnsupportedObject,
                              "an object whose __dict__ has keys with their own __eq__");
    if (index >= 0) raw = stator_view_value(&view, index);
  }
  if (raw == nullptr) {
    tracer.world.guard(Guard{GuardKind::kAbsent, source});
    PyDict_SetItem(known.get(), name, values::deletedMarker());
    return Ref<>();
  }
  STATOR_VALUE(value, fromOutside(tracer, raw, source));
  if (graph::isStandIn(value.get()) && isModule(object))
    graph::asStandIn(value.get())->node->of_module = true;
  PyDict_SetItem(known.get(), name, value.get());
  return value;
}

namespace {

bool isDescriptor(PyObject* value) { return Py_TYPE(value)->tp_descr_get != nullptr; }

Out moduleAttribute(Tracer& tracer, PyObject* module, PyObject* name) {
  PyObject* on_type = _PyType_Lookup(Py_TYPE(module), name);
  if (on_type != nullptr && Py_TYPE(on_type)->tp_descr_set != nullptr)
    return bindDescriptor(tracer, on_type, module, Py_TYPE(module), nullptr);
  STATOR_VALUE(found, instanceAttr(tracer, module, name));
  if (found) return found;
  if (on_type != nullptr) return bindDescriptor(tracer, on_type, module, Py_TYPE(module), nullptr);
  STATOR_VALUE(hook, instanceAttr(tracer, module, names().dunder_getattr));
  if (!hook) return Ref<>();
  return tracer.above.callNested(hook.get(), {name});
}

Out askMetaclass(Tracer& tracer, PyTypeObject* type, PyObject* name, PyObject* hook) {
  STATOR_VALUE(function, classAttrValue(tracer, Py_TYPE(reinterpret_cast<PyObject*>(type)),
                                        names().dunder_getattr, hook));
  return tracer.above.callNested(function.get(), {reinterpret_cast<PyObject*>(type), name});
}

// What a metaclass says of a name, guarded. Nobody changes those of the libraries.
Out metaLookup(Tracer& tracer, PyTypeObject* meta, PyObject* name) {
  static PyObject* const settled[] = {torchObject("abc.ABCMeta"), torchObject("enum.EnumMeta"),
                                      torchObject("torch.autograd.function.FunctionMeta")};
  auto* object = reinterpret_cast<PyObject*>(meta);
  if (std::find(std::begin(settled), std::end(settled), object) != std::end(settled) ||
      std::string_view(meta->tp_name) == "pybind11_type")
    return Ref<>::create(_PyType_Lookup(meta, name));
  return typeLookup(tracer, meta, name);
}

Out typeAttribute(Tracer& tracer, PyTypeObject* type, PyObject* name) {
  PyTypeObject* meta = Py_TYPE(reinterpret_cast<PyObject*>(type));
  STATOR_VALUE(meta_entry, metaLookup(tracer, meta, name));
  PyObject* on_meta = meta_entry.get();
  if (meta->tp_getattro != PyType_Type.tp_getattro) {
    static PyObject* getattribute = PyUnicode_InternFromString("__getattribute__");
    PyObject* found = _PyType_Lookup(meta, getattribute);
    if (found == nullptr || PyFunction_Check(found))
      return tracer.breakWith(Reason::kCustomGetattribute, meta->tp_name);
  }
  STATOR_VALUE(meta_hook, metaLookup(tracer, meta, names().dunder_getattr));
  PyObject* hook = meta_hook.get();
  const bool asks = hook != nullptr && PyFunction_Check(hook);
  // An AttributeError of a descriptor makes CPython ask the metaclass's __getattr__.
  auto bound = [&](Out out) -> Out {
    if (!asks) return out;
    out = tracer.above.settle(std::move(out));
    if (out.flow() != Flow::kRaise || !tracer.errors.raisedIs(PyExc_AttributeError)) return out;
    tracer.errors.dropRaised();
    return askMetaclass(tracer, type, name, hook);
  };
  if (on_meta != nullptr && isDataDescriptor(on_meta)) {
    if (Py_TYPE(on_meta) == &PyGetSetDescr_Type || Py_TYPE(on_meta) == &PyMemberDescr_Type) {
      // __name__, __mro__, __dict__, __bases__ ...: facts of the type.
      Ref<> value = stealRef(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), name));
      if (!value) return tracer.raiseCurrentError();
      if (Py_TYPE(value.get()) == mappingProxyType() &&
          isMadeClass(tracer, reinterpret_cast<PyObject*>(type)))
        return tracer.made(value);
      if (Py_TYPE(value.get()) == mappingProxyType())
        return fromOutside(tracer, value, tracer.world.sources().pinned(value));
      if (!stator_is_user_class(type) || values::isScalar(value.get()) ||
          PyType_Check(value.get()) || isMadeClass(tracer, reinterpret_cast<PyObject*>(type))) {
        return value;
      }
      return fromOutside(
          tracer, value,
          tracer.world.child(SourceKind::kGenericAttr,
                             tracer.world.sources().pinned(reinterpret_cast<PyObject*>(type)),
                             name));
    }
    return bound(bindDescriptor(tracer, on_meta, reinterpret_cast<PyObject*>(type), meta,
                                classEntry(tracer, meta, name)));
  }
  STATOR_VALUE(found, typeLookup(tracer, type, name));
  if (found) {
    if (isDescriptor(found.get()) && !isProperty(found.get()) &&
        Py_TYPE(found.get()) != &PyMemberDescr_Type &&
        Py_TYPE(found.get()) != &PyGetSetDescr_Type && !PyType_Check(found.get())) {
      return bound(
          bindDescriptor(tracer, found.get(), nullptr, type, classEntry(tracer, type, name)));
    }
    return classAttrValue(tracer, type, name, found.get());
  }
  if (on_meta != nullptr) {
    if (isDescriptor(on_meta)) {
      return bound(bindDescriptor(tracer, on_meta, reinterpret_cast<PyObject*>(type), meta,
                                  classEntry(tracer, meta, name)));
    }
    return classAttrValue(tracer, meta, name, on_meta);
  }
  return asks ? askMetaclass(tracer, type, name, hook) : Out(Ref<>());
}

Out superAttribute(Tracer& tracer, PyObject* super, PyObject* name) {
  // This one is the super object's own.
  if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0)
    return newRef(reinterpret_cast<PyObject*>(Py_TYPE(super)));
  Ref<> this_class = superPart(super, "__thisclass__");
  Ref<> self = superPart(super, "__self__");
  Ref<> self_class = superPart(super, "__self_class__");
  if (!this_class || !self || !self_class) return tracer.raiseCurrentError();
  // A super behind a super hides these names of the first: no source could lead to them.
  if (PyType_Check(self_class.get()) &&
      PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(self_class.get()), &PySuper_Type))
    return tracer.breakWith(Reason::kUnsupportedObject, "super() in a kind of super");
  if (const Source* source = tracer.sourceOf(super)) {
    for (auto [part, field] :
         {std::pair(&this_class, "__thisclass__"), std::pair(&self_class, "__self_class__"),
          std::pair(&self, "__self__")}) {
      Ref<> field_name = stealRef(PyUnicode_InternFromString(field));
      STATOR_VALUE(read,
                   fromOutside(tracer, *part,
                               tracer.world.child(SourceKind::kGenericAttr, source, field_name)));
      *part = read;
    }
  }
  auto* start = reinterpret_cast<PyTypeObject*>(self_class.get());
  PyObject* mro = stator_type_mro(start);
  Py_ssize_t i = 0;
  while (i < PyTuple_GET_SIZE(mro) && PyTuple_GET_ITEM(mro, i) != this_class.get()) ++i;
  for (++i; i < PyTuple_GET_SIZE(mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    bool heap =
        stator_is_user_class(base) && !isMadeClass(tracer, reinterpret_cast<PyObject*>(base));
    const Source* source =
        heap ? tracer.world.child(SourceKind::kClassDict,
                                  tracer.world.sources().pinned(reinterpret_cast<PyObject*>(base)),
                                  name)
             : nullptr;
    PyObject* raw = PyDict_GetItemWithError(stator_type_entries(base), name);
    if (PyObject* written =
            tracer.classes.anyWritten() ? writtenInClass(tracer, base, name) : nullptr) {
      if (written == values::deletedMarker()) continue;
      if (!isDescriptor(written)) return newRef(written);
      return bindDescriptor(tracer, written, self.get() == self_class.get() ? nullptr : self.get(),
                            start, nullptr);
    }
    if (raw == nullptr) {
      if (heap) tracer.world.guard(Guard{GuardKind::kAbsent, source});
      continue;
    }
    if (!isDescriptor(raw)) return heap ? fromOutside(tracer, raw, source) : Out(newRef(raw));
    bool on_class = self.get() == self_class.get();
    return bindDescriptor(tracer, raw, on_class ? nullptr : self.get(), start, source);
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
      STATOR_VALUE(dict, instanceAttr(tracer, module, place.dict_name));
      if (!dict) continue;
      STATOR_VALUE(found, dictGet(tracer, dict.get(), name));
      if (found) return found;
      continue;
    }
    PyObject* dict = rawInstanceAttr(module, place.dict_name);
    if (dict == nullptr) continue;
    values::Info* written = tracer.values.find(dict);
    if (!PyDict_Check(dict) || (written != nullptr && (written->shadow || written->overlay))) {
      STATOR_VALUE(value, instanceAttr(tracer, module, place.dict_name));
      STATOR_VALUE(found, dictGet(tracer, value.get(), name));
      if (found) return found;
      continue;
    }
    const Source* source = tracer.world.child(place.kind, info->source, name);
    PyObject* raw = PyDict_GetItemWithError(dict, name);
    if (raw == nullptr) {
      tracer.world.guard(Guard{GuardKind::kAbsent, source});
      continue;
    }
    return fromOutside(tracer, raw, source);
  }
  return Ref<>();
}

}  // namespace

namespace {

// A class may get a __getattribute__ or __getattr__ later.
void guardLookupProtocol(Tracer& tracer, PyTypeObject* type) {
  if (!stator_is_user_class(type) || !tracer.classes.firstAsOwner(type)) return;
  static PyObject* getattribute = PyUnicode_InternFromString("__getattribute__");
  (void)typeLookup(tracer, type, getattribute);
  (void)typeLookup(tracer, type, names().dunder_getattr);
}

// Methods in C, bound in the trace, are kept as methods of Python's: this is the type that CPython has for them.
PyTypeObject* boundType(PyObject* function) {
  static PyTypeObject* const wrapper = Py_TYPE(PyObject_GetAttrString(Py_None, "__str__"));
  if (Py_TYPE(function) == &PyWrapperDescr_Type) return wrapper;
  return Py_TYPE(function) == &PyMethodDescr_Type ? &PyCFunction_Type : &PyMethod_Type;
}

// What stands in a class may be an object of a user's class that becomes a descriptor, or another kind of descriptor, later.
void guardDescriptorKind(Tracer& tracer, PyObject* entry) {
  PyTypeObject* kind = Py_TYPE(entry);
  if (!stator_is_user_class(kind) || !tracer.classes.firstAsDescriptor(kind)) return;
  static PyObject* remove = PyUnicode_InternFromString("__delete__");
  for (PyObject* method : {names().dunder_get, names().dunder_set, remove})
    (void)typeLookup(tracer, kind, method);
}

}  // namespace

// The source of the raw class entry, for descriptors that carry functions.
const Source* classEntry(Tracer& tracer, PyTypeObject* type, PyObject* name) {
  PyTypeObject* owner = ownerInMro(tracer, type, name);
  if (owner == nullptr) return nullptr;
  return tracer.world.child(SourceKind::kClassDict,
                            tracer.world.sources().pinned(reinterpret_cast<PyObject*>(owner)),
                            name);
}

namespace {

// Of a read-only view `|=` raises, and comparisons are those of the operators.
Flow refuseViewsOwn(Tracer& tracer, PyObject* name) {
  for (const char* own : {"__ior__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"}) {
    if (PyUnicode_CompareWithASCIIString(name, own) == 0)
      return tracer.breakWith(Reason::kUnsupportedAttribute, "a read-only view's own method");
  }
  return Flow::kOk;
}

}  // namespace

Out getAttrOrNull(Tracer& tracer, PyObject* object, PyObject* name) {
  if (graph::isStandIn(object)) return tracer.above.tensorAttr(object, name);
  if (symbolic::isSymScalar(object) && hasValue(tracer, object)) {
    // Methods of a float (is_integer, hex ...) are about the number that it is.
    return getAttrOrNull(tracer, tracer.world.keep(concrete(tracer, object)), name);
  }
  // A read-only view has a part of what the dict behind it has.
  if (isProxied(tracer, object)) {
    if (_PyType_Lookup(mappingProxyType(), name) == nullptr) return Ref<>();
    STATOR_FLOW(refuseViewsOwn(tracer, name));
  }
  if (isTraceIterator(object)) {
    PyObject* found = _PyType_Lookup(typeOf(tracer, object), name);
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
      return tracer.breakWith(Reason::kUnsupportedAttribute,
                              std::string(utf8(name)) + " of an iterator");
    }
    return stealRef(PyMethod_New(found, object));
  }
  if (PyType_Check(object))
    return typeAttribute(tracer, reinterpret_cast<PyTypeObject*>(object), name);
  if (PyModule_CheckExact(object)) return moduleAttribute(tracer, object, name);
  PyTypeObject* type = Py_TYPE(object);
  if (isTraceTraceback(object))
    return tracer.breakWith(Reason::kUnsupportedAttribute, "of a traceback");
  if (PyExceptionInstance_Check(object) && tracer.isMade(object) &&
      PyUnicode_CompareWithASCIIString(name, "__traceback__") == 0) {
    return tracebackOf(tracer, object);
  }
  if (type == &PySuper_Type) return superAttribute(tracer, object, name);
  if (type == &PyMethod_Type) {
    if (PyUnicode_Compare(name, names().dunder_self) == 0) {
      if (const Source* source = tracer.sourceOf(object))
        return fromOutside(tracer, PyMethod_GET_SELF(object),
                           tracer.world.child(SourceKind::kMethodSelf, source));
      return newRef(PyMethod_GET_SELF(object));
    }
    Ref<> function = newRef(PyMethod_GET_FUNCTION(object));
    if (const Source* source = tracer.sourceOf(object)) {
      STATOR_VALUE(
          read, fromOutside(tracer, function, tracer.world.child(SourceKind::kMethodFunc, source)));
      function = std::move(read);
    }
    if (PyUnicode_Compare(name, names().func) == 0) return function;
    // What methods can do themselves comes first: `m.__call__` is not its function's.
    PyObject* own = _PyType_Lookup(boundType(function.get()), name);
    if (own != nullptr &&
        (Py_TYPE(own) == &PyWrapperDescr_Type || Py_TYPE(own) == &PyMethodDescr_Type))
      return stealRef(PyMethod_New(own, object));
    if (PyUnicode_Compare(name, names().dunder_class) == 0)
      return newRef(reinterpret_cast<PyObject*>(boundType(function.get())));
    return getAttrOrNull(tracer, function.get(), name);
  }
  if (isThreadLocal(object)) return threadLocalAttr(tracer, object, name);
  bool generic = type->tp_getattro == PyObject_GenericGetAttr;
  // A module of a class of its own (torch._VF): an ordinary object, apart from what C's module type adds.
  static PyObject* dunder_getattribute = PyUnicode_InternFromString("__getattribute__");
  if (PyModule_Check(object) && !PyFunction_Check(_PyType_Lookup(type, dunder_getattribute))) {
    STATOR_VALUE(found, getAttrGeneric(tracer, object, name));
    if (found) return found;
    return callGetattr(tracer, object, name);
  }
  if (!generic) {
    static PyObject* getattribute = PyUnicode_InternFromString("__getattribute__");
    PyObject* found = _PyType_Lookup(type, getattribute);
    PyObject* of_object = _PyType_Lookup(&PyBaseObject_Type, getattribute);
    // dict and other built-in classes have entries of their own that do the same.
    const bool plain = found != nullptr && Py_TYPE(found) == &PyWrapperDescr_Type &&
                       reinterpret_cast<PyWrapperDescrObject*>(found)->d_wrapped ==
                           reinterpret_cast<void*>(PyObject_GenericGetAttr);
    if (found != of_object && !plain) {
      std::string_view kind = type->tp_name;
      // `int | str` and `list[int]` are immutable, and their attributes are facts about them.
      if (kind == "types.UnionType" || kind == "types.GenericAlias") {
        Ref<> value = stealRef(PyObject_GetAttr(object, name));
        if (!value) PyErr_Clear();
        return value;
      }
      if (found == nullptr || !PyFunction_Check(found))
        return tracer.breakWith(Reason::kUnsupportedAttribute,
                                std::string("of a ") + type->tp_name);
      STATOR_VALUE(checked, typeLookup(tracer, type, getattribute));
      STATOR_VALUE(function, classAttrValue(tracer, type, getattribute, checked.get()));
      PyObject* fallback = _PyType_Lookup(type, names().dunder_getattr);
      if (fallback == nullptr) {
        Args args;
        args.values = {object, name};
        args.positional = 2;
        return tracer.above.call(function.get(), args);
      }
      Out value = tracer.above.callNested(function.get(), {object, name});
      if (value.flow() != Flow::kRaise || !tracer.errors.raisedIs(PyExc_AttributeError))
        return value;
      tracer.errors.dropRaised();
      return callGetattr(tracer, object, name);
    }
  }
  guardLookupProtocol(tracer, type);
  Out out = getAttrGeneric(tracer, object, name);
  if (generic) return out;
  // An AttributeError from a property or descriptor makes CPython ask __getattr__.
  if (out.flow() == Flow::kEntered) tracer.frames.innermost().getattr_follows = true;
  if (out.flow() == Flow::kRaise && tracer.errors.raisedIs(PyExc_AttributeError)) {
    tracer.errors.dropRaised();
    return callGetattr(tracer, object, name);
  }
  if (!out.ok() || out.get() != nullptr) return out;
  return callGetattr(tracer, object, name);
}

Out getAttrGeneric(Tracer& tracer, PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  STATOR_VALUE(on_type, typeLookup(tracer, type, name));
  if (on_type) guardDescriptorKind(tracer, on_type.get());
  if (on_type && isDataDescriptor(on_type.get())) {
    return bindDescriptor(tracer, on_type.get(), object, type, classEntry(tracer, type, name));
  }
  STATOR_VALUE(own, instanceAttr(tracer, object, name));
  if (own) return own;
  if (!on_type) return Ref<>();
  if (isDescriptor(on_type.get()))
    return bindDescriptor(tracer, on_type.get(), object, type, classEntry(tracer, type, name));
  return classAttrValue(tracer, type, name, on_type.get());
}

// The class's __getattr__, after everything else has failed.
// `__getattr__ = dict.get`
bool isDictMethod(PyObject* hook) {
  if (Py_TYPE(hook) != &PyMethodDescr_Type && Py_TYPE(hook) != &PyWrapperDescr_Type) return false;
  return PyType_IsSubtype(reinterpret_cast<PyDescrObject*>(hook)->d_type, &PyDict_Type) != 0;
}

Out callGetattr(Tracer& tracer, PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  STATOR_VALUE(hook_found, typeLookup(tracer, type, names().dunder_getattr));
  PyObject* hook = hook_found.get();
  if (hook == nullptr) return Ref<>();
  if (known::isModuleGetattr(hook)) return nnModuleAttribute(tracer, object, name);
  if (!PyFunction_Check(hook) && !isDictMethod(hook))
    return tracer.breakWith(Reason::kUnsupportedAttribute,
                            std::string(type->tp_name) + ".__getattr__ is not a Python function");
  STATOR_VALUE(checked, typeLookup(tracer, type, names().dunder_getattr));
  STATOR_VALUE(function, classAttrValue(tracer, type, names().dunder_getattr, checked.get()));
  Args args;
  args.values = {object, name};
  args.positional = 2;
  return tracer.above.call(function.get(), args);
}

void nameAttribute(Tracer& t, PyObject* object, PyObject* name) {
  PyObject* error = t.errors.raised();
  if (!PyErr_GivenExceptionMatches(error, PyExc_AttributeError)) return;
  auto* raw = reinterpret_cast<PyAttributeErrorObject*>(error);
  if (raw->name != nullptr || raw->obj != nullptr || !t.isMade(error)) return;
  raw->name = Py_NewRef(name);
  raw->obj = Py_NewRef(object);
}

void noteAttribute(Tracer& t, const SymbolicFrame& frame) {
  PyObject* access = frame.instance.get();
  if (access == nullptr || frame.then == Then::kPushInstance) return;
  nameAttribute(t, PyTuple_GET_ITEM(access, 0), PyTuple_GET_ITEM(access, 1));
}

Out getAttr(Tracer& tracer, PyObject* object, PyObject* name) {
  Out found = getAttrOrNull(tracer, object, name);
  if (found.flow() == Flow::kRaise) nameAttribute(tracer, object, name);
  if (found.flow() == Flow::kEntered)
    tracer.frames.innermost().instance = stealRef(PyTuple_Pack(2, object, name));
  if (!found.ok() || found.get() != nullptr) return found;
  return raiseAttributeError(tracer, object, name);
}

Out loadGlobal(Tracer& tracer, SymbolicFrame& frame, PyObject* name) {
  struct Place {
    PyObject* dict;
    const Source* source;
  };
  if (frame.globals_source == nullptr)
    frame.globals_source = tracer.world.sources().pinned(frame.globals);
  const Source* builtins_source =
      &tracer.frames.driven() == &frame && frame.globals_source->kind == SourceKind::kGlobals
          ? tracer.world.root(SourceKind::kBuiltins)
          : tracer.world.sources().pinned(frame.builtins);
  const Place places[] = {{frame.globals, frame.globals_source}, {frame.builtins, builtins_source}};
  for (const Place& place : places) {
    if (!PyDict_CheckExact(place.dict))
      return tracer.breakWith(Reason::kUnsupportedObject, "globals that are not a plain dict");
    values::Info* info = tracer.values.find(place.dict);
    if (info == nullptr) info = &tracer.values.addOutside(place.dict, place.source);
    STATOR_VALUE(found, dictGet(tracer, place.dict, name));
    if (found) return found;
  }
  return raiseNameError(tracer, PyExc_NameError, "name '%U' is not defined", name);
}

Out special(Tracer& tracer, PyObject* object, const char* name) {
  Ref<> text = stealRef(PyUnicode_InternFromString(name));
  PyTypeObject* type = typeOf(tracer, object);
  STATOR_VALUE(found, typeLookup(tracer, type, text.get()));
  if (!found || found.get() == Py_None) return Ref<>();
  if (Py_TYPE(found.get())->tp_descr_get == nullptr)
    return classAttrValue(tracer, type, text.get(), found.get());
  // A property's getter runs to its end: what it gives is the method.
  return tracer.above.settle(
      bindDescriptor(tracer, found.get(), object, type, classEntry(tracer, type, text.get())));
}

bool isUserOverride(Tracer& tracer, PyObject* object, const std::string& name) {
  PyTypeObject* type = typeOf(tracer, object);
  return isProgrammed(tracer, type, name.c_str()) && !isDenied(tracer, type, name.c_str());
}

bool isMadeClass(Tracer& tracer, PyObject* object) {
  if (!tracer.classes.anyWritten() || !PyType_Check(object)) return false;
  values::Info* info = tracer.values.find(object);
  return info != nullptr && info->origin == values::Origin::kMade;
}

}  // namespace stator::interpret
