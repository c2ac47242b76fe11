#include "interpret/objects/class_lookups.h"

#include "interpret/core/outside.h"
#include "python/objects.h"
#include "python/types.h"

namespace stator::interpret {

bool isMadeClass(Tracer& tracer, PyObject* object) {
  if (!tracer.classes.anyWritten() || !PyType_Check(object)) return false;
  values::Info* info = tracer.values.find(object);
  return info != nullptr && info->origin == values::Origin::kMade;
}

PyObject* writtenInClass(Tracer& tracer, PyTypeObject* type, PyObject* name) {
  values::Info* info = tracer.values.find(reinterpret_cast<PyObject*>(type));
  return info != nullptr && info->overlay ? PyDict_GetItemWithError(info->overlay.get(), name)
                                          : nullptr;
}

namespace {

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

// A class may be made with keys that are no strings: one with the name's hash is asked by its own __eq__ whether it is
// the name, which only the program's own lookup may do.
bool lookupRunsCode(PyTypeObject* type, PyObject* name) {
  PyObject* mro = stator_type_mro(type);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (!stator_is_user_class(base)) continue;
    StatorView view;
    stator_view_dict(&view, stator_type_entries(base));
    if (view.keys->kind == 0 && stator_view_find(&view, name, PyObject_Hash(name)) < -1)
      return true;
  }
  return false;
}

}  // namespace

Out typeLookup(Tracer& tracer, PyTypeObject* type, PyObject* name) {
  if (stator_is_user_class(type) && lookupRunsCode(type, name))
    return tracer.breakWith(Reason::kUnsupportedAttribute, "a class with keys that are no strings");
  if (tracer.classes.anyWritten() && writtenInMro(tracer, type, name))
    return lookUpWritten(tracer, type, name);
  PyObject* found = _PyType_Lookup(type, name);
  // Static types cannot change.
  if (stator_is_user_class(type))
    tracer.world.guards().addTypeLookup(
        tracer.world.sources().pinned(reinterpret_cast<PyObject*>(type)), type, name, found);
  return Ref<>::create(found);
}

Out classAttrValue(Tracer& tracer, PyTypeObject* type, PyObject* name, PyObject* raw) {
  PyTypeObject* owner = ownerInMro(tracer, type, name);
  if (owner == nullptr) return newRef(raw);
  if (!stator_is_user_class(owner)) return newRef(raw);
  const Source* source =
      tracer.world.child(SourceKind::kClassDict,
                         tracer.world.sources().pinned(reinterpret_cast<PyObject*>(owner)), name);
  return fromOutside(tracer, raw, source);
}

const Source* classEntry(Tracer& tracer, PyTypeObject* type, PyObject* name) {
  PyTypeObject* owner = ownerInMro(tracer, type, name);
  if (owner == nullptr) return nullptr;
  return tracer.world.child(SourceKind::kClassDict,
                            tracer.world.sources().pinned(reinterpret_cast<PyObject*>(owner)),
                            name);
}

}  // namespace stator::interpret
