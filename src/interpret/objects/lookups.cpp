#include "interpret/objects/lookups.h"

#include "base/parts.h"
#include "base/stack_room.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/symbols.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/instance_attributes.h"
#include "interpret/objects/keys.h"
#include "interpret/objects/scalars.h"
#include "python/objects.h"
#include "symbolic/sym_int.h"
#include "values/dicts.h"

namespace stator::interpret {

namespace {

bool defaultHash(PyTypeObject* type) {
  return type->tp_hash == PyBaseObject_Type.tp_hash &&
         type->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

}  // namespace

// The class may get a __hash__ or __eq__ later.
void guardDefaultHash(Tracer& tracer, PyTypeObject* type) {
  static PyObject* const methods[] = {PyUnicode_InternFromString("__hash__"),
                                      PyUnicode_InternFromString("__eq__")};
  for (PyObject* name : methods) (void)typeLookup(tracer, type, name);
}

bool hashableNatively(Tracer& tracer, PyObject* key) {
  // A slice is a constant, and no key (before 3.12).
  if (PySlice_Check(key) && Py_TYPE(key)->tp_hash == PyObject_HashNotImplemented) return false;
  if (values::isScalar(key) || isStaticKey(key) || isAddress(key)) return true;
  needStack();
  // A key is about the numbers that the sizes in it are.
  if (PyTuple_Check(key) && tracer.sizes.any()) makeConcrete(tracer, key);
  if (graph::isStandIn(key)) {
    noteIdentity(tracer, key);
    return true;
  }
  auto hashable = [&](PyObject* part) { return hashableNatively(tracer, part); };
  if (PyTuple_CheckExact(key)) return everyItem(key, hashable);
  if (Py_TYPE(key) == &PyFrozenSet_Type) {
    // The trace looked at its items when it made it.
    if (!tracer.isMade(key) || !tracer.own_keys.any()) return tracer.isMade(key);
    return everyElement(key, hashable);
  }
  if (isTraceIterator(key)) return false;
  if (defaultHash(Py_TYPE(key))) {
    noteIdentity(tracer, key);
    guardDefaultHash(tracer, Py_TYPE(key));
    return true;
  }
  Out scalar = plainScalar(tracer, key);
  return scalar.ok() && scalar.get() != nullptr;
}

Flow knowKey(Tracer& tracer, PyObject* key, bool pin) {
  if (PyFunction_Check(key)) {
    // Of a function the code is guarded; which one of this code it is matters here.
    noteIdentity(tracer, key);
    const Source* source = tracer.isMade(key) ? nullptr : tracer.sourceOf(key);
    if (pin && source != nullptr)
      tracer.world.guard(Guard{GuardKind::kIsWeak, source, nullptr, newRef(key)});
    return Flow::kOk;
  }
  if (!PyTuple_CheckExact(key) || values::isConstantDeep(key)) return Flow::kOk;
  needStack();
  STATOR_VALUE(items, contents(tracer, key));
  if (tracer.sizes.any()) makeConcrete(tracer, items.get());
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i)
    STATOR_FLOW(knowKey(tracer, PyTuple_GET_ITEM(items.get(), i), pin));
  return Flow::kOk;
}

Flow requireHashable(Tracer& tracer, PyObject* key) {
  STATOR_FLOW(knowKey(tracer, key));
  if (hashableNatively(tracer, key)) return Flow::kOk;
  PyObject* unhashable = key;
  if (PyTuple_CheckExact(key)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key) && unhashable == key; ++i) {
      PyObject* item = PyTuple_GET_ITEM(key, i);
      if (!graph::isStandIn(item) && Py_TYPE(item)->tp_hash == PyObject_HashNotImplemented)
        unhashable = item;
    }
  }
  if (Py_TYPE(unhashable)->tp_hash == PyObject_HashNotImplemented)
    return tracer.raiseNew(PyExc_TypeError, "unhashable type: '%.200s'",
                           Py_TYPE(unhashable)->tp_name);
  return noteOwnKeys(tracer, key);
}

namespace {

// Of a dict from outside that the trace has not looked into: what stands under a constant key. Each key is read once.
Out outsideItem(Tracer& tracer, values::Info* info, PyObject* key) {
  PyObject* dict = info->object.get();
  if (!info->known) info->known = stealRef(PyDict_New());
  Ref<> known = info->known;
  if (PyObject* seen = PyDict_GetItemWithError(known.get(), key)) {
    // 1, True and 1.0 are one key, here as in the dict itself.
    return seen == values::deletedMarker() ? Ref<>() : newRef(seen);
  }
  const Source* source = tracer.world.child(SourceKind::kDictItem, info->source, key);
  PyObject* raw = nullptr;
  if (stator_dict_get(dict, key, source->hash, &raw) == STATOR_UNKNOWN) {
    // A key that has its own __eq__ stands there.
    STATOR_VALUE(shadow, contents(tracer, dict));
    return dictGet(tracer, dict, key);
  }
  if (raw == nullptr) {
    // The id of a hook is another one in each module.
    bool any_key = PyLong_CheckExact(key) && PyDict_Size(dict) == 0 && runsModuleCall(tracer);
    tracer.world.guard(any_key ? Guard{GuardKind::kDictEmpty, info->source}
                               : Guard{GuardKind::kAbsent, source});
    PyDict_SetItem(known.get(), key, values::deletedMarker());
    return Ref<>();
  }
  STATOR_VALUE(value, fromOutside(tracer, raw, source));
  PyDict_SetItem(known.get(), key, value.get());
  return value;
}

}  // namespace

bool differsFromKeys(Tracer& tracer, PyObject* items, PyObject* number) {
  constexpr Py_ssize_t kMost = 64;
  if (!symbolic::isSymInt(number) || PyObject_Size(items) > kMost) return false;
  Ref<> keys = values::itemsOf(items);
  if (!keys) PyErr_Clear();
  for (Py_ssize_t i = 0; keys && i < PyList_GET_SIZE(keys.get()); ++i) {
    PyObject* key = PyList_GET_ITEM(keys.get(), i);
    if (PyUnicode_CheckExact(key) || key == Py_None) continue;
    if (!PyLong_CheckExact(key) && !PyBool_Check(key) && !PyFloat_CheckExact(key)) return false;
    Ref<> equal = symCompare(tracer, Py_EQ, number, key);
    if (equal.get() != Py_False) return false;
  }
  return static_cast<bool>(keys);
}

Out dictGet(Tracer& tracer, PyObject* dict, PyObject* key) {
  if (symbolic::isSymbol(key)) {
    STATOR_VALUE(items, contents(tracer, dict));
    if (differsFromKeys(tracer, items.get(), key)) return Ref<>();
    Ref<> number = concrete(tracer, key);
    return dictGet(tracer, dict, number.get());
  }
  values::Info* info = tracer.values.find(dict);
  if (isAddress(key) && !tracer.isMade(dict)) {
    STATOR_VALUE(number, pinnedAddress(tracer, key));
    return dictGet(tracer, dict, number.get());
  }
  if (info == nullptr || info->origin == values::Origin::kMade || info->shadow) {
    PyObject* target = info != nullptr && info->shadow ? info->shadow.get() : dict;
    if (info != nullptr) knowKeys(tracer, info);
    STATOR_FLOW(requireHashable(tracer, key));
    return withOwnKeys(tracer, nullptr,
                       [&](PyObject*) { return Py_XNewRef(PyDict_GetItemWithError(target, key)); });
  }
  if (info->attributes_of != nullptr && PyUnicode_CheckExact(key))
    return instanceAttr(tracer, info->attributes_of, key);
  if (!isStaticKey(key)) {
    STATOR_VALUE(shadow, contents(tracer, dict));
    return dictGet(tracer, dict, key);
  }
  STATOR_FLOW(knowKey(tracer, key, true));
  if (PySlice_Check(key)) STATOR_FLOW(requireHashable(tracer, key));
  if (info->overlay) {
    if (PyObject* written = PyDict_GetItemWithError(info->overlay.get(), key)) {
      return written == values::deletedMarker() ? Ref<>() : newRef(written);
    }
  }
  return outsideItem(tracer, info, key);
}

}  // namespace stator::interpret
