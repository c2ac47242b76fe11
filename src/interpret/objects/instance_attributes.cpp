#include "interpret/objects/instance_attributes.h"

#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/lookups.h"
#include "python/objects.h"

namespace stator::interpret {

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

namespace {

// torch.ops.<library>.<operator>.<overload>, asked for the first time: torch looks it up and keeps it in the object,
// where it is from then on. That it was not there before would be a guard that holds for no later call. Borrowed; null:
// it is none of these, or not to be found.
PyObject* foundByTorch(PyObject* object, PyObject* name) {
  static PyObject* const kept[] = {torchObject("torch._ops._Ops"),
                                   torchObject("torch._ops._OpNamespace"),
                                   torchObject("torch._ops.OpOverloadPacket")};
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  if (type != kept[0] && type != kept[1] && type != kept[2]) return nullptr;
  Ref<> found = stealRef(PyObject_GetAttr(object, name));
  if (!found) PyErr_Clear();
  return found ? rawInstanceAttr(object, name) : nullptr;
}

}  // namespace

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
  if (raw == nullptr) raw = foundByTorch(object, name);
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

}  // namespace stator::interpret
