#include "interpret/objects/contents.h"

#include "base/check.h"
#include "base/parts.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/sym_scalars.h"
#include "interpret/core/symbols.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/exceptions.h"
#include "interpret/objects/instance_attributes.h"
#include "interpret/objects/keys.h"
#include "interpret/objects/outside_contents.h"
#include "interpret/objects/scalars.h"
#include "interpret/objects/subclass_checks.h"
#include "python/dict_views.h"
#include "python/objects.h"
#include "python/types.h"
#include "symbolic/sym_int.h"
#include "tensor/meta_of.h"
#include "values/dicts.h"

#include <string>

namespace stator::interpret {

void writeOverlay(Tracer& tracer, values::Info* info, PyObject* key, PyObject* value) {
  noteWrite(tracer, info->object.get());
  if (!info->overlay) info->overlay = stealRef(PyDict_New());
  if (PyDict_GetItemWithError(info->overlay.get(), key) == values::deletedMarker()) {
    PyDict_DelItem(info->overlay.get(), key);
    if (!info->set_again) info->set_again = stealRef(PySet_New(nullptr));
    PySet_Add(info->set_again.get(), key);
  }
  PyDict_SetItem(info->overlay.get(), key, value);
}

void eraseOverlay(Tracer& tracer, values::Info* info, PyObject* key, bool there_before) {
  noteWrite(tracer, info->object.get());
  if (!info->overlay) info->overlay = stealRef(PyDict_New());
  if (info->set_again) PySet_Discard(info->set_again.get(), key);
  if (there_before) {
    PyDict_SetItem(info->overlay.get(), key, values::deletedMarker());
  } else if (PyDict_DelItem(info->overlay.get(), key) != 0) {
    PyErr_Clear();
  }
}

// The overlay's entries go into the working copy, which takes its place.
void applyOverlay(Tracer& tracer, values::Info* info, PyObject* shadow) {
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(info->overlay.get(), &position, &key, &value)) {
    bool again = info->set_again && PySet_Contains(info->set_again.get(), key) == 1;
    if ((again || value == values::deletedMarker()) && !values::dictDelete(shadow, key))
      PyErr_Clear();
    if (value != values::deletedMarker()) values::dictSet(shadow, key, value);
  }
  info->overlay.reset();
  info->set_again.reset();
}

void knowKeys(Tracer& tracer, values::Info* info) {
  if (!info->keys_open || runsModuleCall(tracer)) return;
  info->keys_open = false;
  Ref<> keys = values::dictKeys(info->object.get());
  tracer.world.guard(
      Guard{GuardKind::kDictKeys, info->source, nullptr, stealRef(PyList_AsTuple(keys.get()))});
}

Out contents(Tracer& tracer, PyObject* container) {
  values::Info* info = tracer.values.find(container);
  if (info == nullptr || info->origin == values::Origin::kMade || info->constant)
    return newRef(container);
  if (info->shadow) {
    knowKeys(tracer, info);
    return info->shadow;
  }
  STATOR_VALUE(shadow, outsideContents(tracer, info));
  info->shadow = shadow;
  if (info->appended) {
    PyList_SetSlice(shadow.get(), PyList_GET_SIZE(shadow.get()), PyList_GET_SIZE(shadow.get()),
                    info->appended.get());
    info->appended.reset();
  }
  return shadow;
}

// While a list is sorted it is empty, and CPython finds out about writes to it: that there were any, not what came of
// them.
bool isBeingSorted(Tracer& tracer, PyObject* container) {
  return PyList_Check(container) && reinterpret_cast<PyListObject*>(container)->allocated == -1 &&
         !tracer.isMade(container);
}

Out contentsForWrite(Tracer& tracer, PyObject* container) {
  if (isBeingSorted(tracer, container))
    return tracer.breakWith(Reason::kUnsupportedMutation, "a list that is being sorted");
  noteWrite(tracer, container);
  if (PyDict_CheckExact(container)) STATOR_FLOW(linkOwner(tracer, container));
  STATOR_VALUE(shadow, contents(tracer, container));
  tracer.frames.commit();
  if (values::Info* info = tracer.values.find(container);
      info != nullptr && info->origin == values::Origin::kOutside)
    info->dirty = true;
  return shadow;
}

Out viewedDict(Tracer& tracer, PyObject* view) {
  auto* dict = stator_dict_of_view(view);
  if (const Source* source = tracer.sourceOf(view))
    return fromOutside(tracer, dict, tracer.world.child(SourceKind::kViewDict, source));
  return newRef(dict);
}

Out viewContents(Tracer& tracer, PyObject* view) {
  STATOR_VALUE(dict, viewedDict(tracer, view));
  STATOR_VALUE(items, contents(tracer, dict.get()));
  const char* name = PyDictKeys_Check(view)     ? "keys"
                     : PyDictValues_Check(view) ? "values"
                                                : "items";
  PyTypeObject* home = PyODict_Check(items.get()) ? &PyODict_Type : &PyDict_Type;
  return tracer.fromNative(
      stealRef(PyObject_CallMethod(reinterpret_cast<PyObject*>(home), name, "O", items.get())));
}

namespace {

bool hasWrites(const values::Info* info) {
  return info != nullptr && (info->overlay || info->dirty);
}

// Native code would see the class without what the trace has written to it, and would run what its metaclass says of
// its text.
bool isNativeSafeClass(Tracer& tracer, PyObject* object) {
  if (hasWrittenClass(tracer, reinterpret_cast<PyTypeObject*>(object))) return false;
  PyTypeObject* meta = Py_TYPE(object);
  if (meta->tp_repr == PyType_Type.tp_repr && meta->tp_str == PyType_Type.tp_str) return true;
  for (const char* name : {"__repr__", "__str__", "__format__"}) {
    Ref<> text = stealRef(PyUnicode_InternFromString(name));
    PyObject* found = _PyType_Lookup(meta, text.get());
    // Those of the libraries (enum, typing) only read.
    if (found != nullptr && PyFunction_Check(found) &&
        codePolicy(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(found))) ==
            CodePolicy::kTrace)
      return false;
  }
  return true;
}

}  // namespace

bool isNativeSafe(Tracer& tracer, PyObject* object, int depth) {
  if (object == nullptr) return false;
  if (values::isScalar(object)) return true;
  if (graph::isStandIn(object) || isTraceIterator(object) || isAddress(object) || depth > 8)
    return false;
  if (values::isConstantDeep(object)) return true;
  if (PyCFunction_Check(object) && !isBoundBuiltin(object)) return true;
  values::Info* info = tracer.values.find(object);
  if (PyModule_Check(object)) return !hasWrites(info);
  if (PyType_Check(object)) return isNativeSafeClass(tracer, object);
  if (info != nullptr && info->origin == values::Origin::kOutside) {
    return isEnumMember(object) || guardedByIdentity(object);
  }
  PyTypeObject* type = Py_TYPE(object);
  auto safe = [&](PyObject* part) { return isNativeSafe(tracer, part, depth + 1); };
  if (type == &PyList_Type || type == &PyTuple_Type || isNamedTuple(object))
    return everyItem(object, safe);
  if (type == &PyDict_Type || type == &PyODict_Type)
    return everyEntry(object,
                      [&](PyObject* key, PyObject* value) { return safe(key) && safe(value); });
  if (type == &PySet_Type || type == &PyFrozenSet_Type) return everyElement(object, safe);
  if (type == &PySlice_Type) return everyBound(object, safe);
  if (type == &PyByteArray_Type) return true;
  if (isDictView(object)) return safe(stator_dict_of_view(object));
  if (PyExceptionInstance_Check(object) && !guardedByIdentity(object)) {
    // Made in the trace: what native code looks at are its arguments and attributes.
    if (!safe(reinterpret_cast<PyBaseExceptionObject*>(object)->args)) return false;
    PyObject* attributes = reinterpret_cast<PyBaseExceptionObject*>(object)->dict;
    return attributes == nullptr || safe(attributes);
  }
  return guardedByIdentity(object);
}

Out plain(Tracer& tracer, PyObject* value) {
  if (isDictView(value)) return viewContents(tracer, value);
  if (symbolic::isSymbol(value)) return concrete(tracer, value);
  if (isAddress(value)) return pinnedAddress(tracer, value);
  if (!values::isScalar(value)) {
    STATOR_VALUE(exact, plainScalar(tracer, value));
    if (exact) return exact;
  }
  values::Info* info = tracer.values.find(value);
  if (info == nullptr || info->origin == values::Origin::kMade) return newRef(value);
  if (PyTuple_Check(value) || PyList_Check(value) || PyDict_Check(value) || PyAnySet_Check(value) ||
      isDeque(value)) {
    return contents(tracer, value);
  }
  return newRef(value);
}

bool hasStandIn(Tracer& tracer, PyObject* value, int depth) {
  if (value == nullptr || depth > 8) return false;
  if (graph::isStandIn(value)) return graph::asStandIn(value)->node->op != graph::Op::kInput;
  if (values::isScalar(value) || PySlice_Check(value)) return false;
  return !everyPart(value, [&](PyObject* part) { return !hasStandIn(tracer, part, depth + 1); });
}

}  // namespace stator::interpret
