#include "interpret/objects/class_attributes.h"

#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/descriptors.h"
#include "python/objects.h"
#include "python/types.h"

#include <algorithm>
#include <string_view>

namespace stator::interpret {

namespace {

Out askMetaclass(Tracer& tracer, PyTypeObject* type, PyObject* name, PyObject* hook) {
  STATOR_VALUE(function, classAttrValue(tracer, Py_TYPE(reinterpret_cast<PyObject*>(type)),
                                        names().dunder_getattr, hook));
  return tracer.above.callNested(function.get(), {reinterpret_cast<PyObject*>(type), name});
}

// __name__, __mro__, __dict__, __bases__ ...: facts of the type.
Out typeFact(Tracer& tracer, PyTypeObject* type, PyObject* name) {
  Ref<> value = stealRef(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), name));
  if (!value) return tracer.raiseCurrentError();
  if (Py_TYPE(value.get()) == mappingProxyType() &&
      isMadeClass(tracer, reinterpret_cast<PyObject*>(type)))
    return tracer.made(value);
  if (Py_TYPE(value.get()) == mappingProxyType())
    return fromOutside(tracer, value.get(), tracer.world.sources().pinned(value.get()));
  if (!stator_is_user_class(type) || values::isScalar(value.get()) || PyType_Check(value.get()) ||
      isMadeClass(tracer, reinterpret_cast<PyObject*>(type))) {
    return value;
  }
  return fromOutside(
      tracer, value.get(),
      tracer.world.child(SourceKind::kGenericAttr,
                         tracer.world.sources().pinned(reinterpret_cast<PyObject*>(type)), name));
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

}  // namespace

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
    out = tracer.above.runEntered(std::move(out));
    if (out.flow() != Flow::kRaise || !tracer.errors.raisedIs(PyExc_AttributeError)) return out;
    tracer.errors.dropRaised();
    return askMetaclass(tracer, type, name, hook);
  };
  if (on_meta != nullptr && isDataDescriptor(on_meta)) {
    if (Py_TYPE(on_meta) == &PyGetSetDescr_Type || Py_TYPE(on_meta) == &PyMemberDescr_Type)
      return typeFact(tracer, type, name);
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
      STATOR_VALUE(read, fromOutside(tracer, part->get(),
                                     tracer.world.child(SourceKind::kGenericAttr, source,
                                                        field_name.get())));
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

}  // namespace stator::interpret
