#include "interpret/objects/contents.h"

#include "base/check.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/sym_scalars.h"
#include "interpret/core/symbols.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/exceptions.h"
#include "interpret/objects/items.h"
#include "interpret/objects/keys.h"
#include "interpret/objects/scalars.h"
#include "python/dict_views.h"
#include "python/objects.h"
#include "python/types.h"
#include "symbolic/sym_int.h"
#include "tensor/meta_of.h"
#include "values/dicts.h"

#include <string>

namespace stator::interpret {

namespace {

// Hashed and compared by identity, without a line of Python.
bool isIdentityKey(PyObject* key) {
  if (tensor::isTensor(key)) {
    static PyObject* const hash = PyUnicode_InternFromString("__hash__");
    return isPlainTensorType(Py_TYPE(key)) ||
           (hasOwnDispatch(Py_TYPE(key)) &&
            _PyType_Lookup(Py_TYPE(key), hash) == _PyType_Lookup(tensorType(), hash));
  }
  PyTypeObject* type = Py_TYPE(key);
  return type->tp_hash == PyBaseObject_Type.tp_hash &&
         type->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

// Whether a dict's or set's keys stand under these hashes, in their order; None: under any.
PyObject* hasStoredHashes(PyObject* expected, PyObject* container) {
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0, i = 0;
  Py_hash_t hash = 0;
  const bool dict = PyDict_Check(container);
  if (!dict && !PyAnySet_Check(container)) Py_RETURN_FALSE;
  while (dict ? stator_dict_next(container, &position, &key, &value, &hash)
              : _PySet_NextEntry(container, &position, &key, &hash)) {
    if (i >= PyTuple_GET_SIZE(expected)) Py_RETURN_FALSE;
    PyObject* wanted = PyTuple_GET_ITEM(expected, i++);
    if (wanted != Py_None && PyLong_AsSsize_t(wanted) != hash) Py_RETURN_FALSE;
  }
  return PyBool_FromLong(i == PyTuple_GET_SIZE(expected));
}

void guardStoredHashes(Tracer& t, const Source* source, PyObject* hashes) {
  static PyMethodDef method = {"has_stored_hashes", hasStoredHashes, METH_O, nullptr};
  Ref<> expected = stealRef(PyList_AsTuple(hashes));
  Ref<> check = stealRef(PyCFunction_New(&method, expected.get()));
  if (!check) throw PythonError();
  t.world.guard(Guard{GuardKind::kIs, t.world.child(SourceKind::kAsked, source, check), nullptr,
                      newRef(Py_True)});
}

// nn.Module._call_impl looks hook ids up in the dicts of flags beside the hooks; where these are empty, it does not matter what the ids are.
bool keysDoNotMatter(Tracer& t, values::Info* info) {
  const Source* source = info->source;
  if (!runsModuleCall(t) || source->kind != SourceKind::kAttr || info->overlay) return false;
  static PyObject* const after = PyUnicode_InternFromString("_forward_hooks");
  static PyObject* const before = PyUnicode_InternFromString("_forward_pre_hooks");
  static PyObject* const flags[] = {PyUnicode_InternFromString("_forward_hooks_with_kwargs"),
                                    PyUnicode_InternFromString("_forward_hooks_always_called"),
                                    PyUnicode_InternFromString("_forward_pre_hooks_with_kwargs")};
  bool is_after = PyUnicode_Compare(source->key.get(), after) == 0;
  if (!is_after && PyUnicode_Compare(source->key.get(), before) != 0) return false;
  std::vector<const Source*> beside;
  for (int i = is_after ? 0 : 2; i < (is_after ? 2 : 3); ++i) {
    const Source* child = t.world.child(SourceKind::kAttr, source->base, flags[i]);
    Ref<> dict = sources::read(*child, t.world.roots());
    if (!dict) PyErr_Clear();
    if (!dict || !PyDict_Check(dict.get()) || PyDict_Size(dict.get()) != 0) return false;
    values::Info* known = t.values.find(dict);
    if (known != nullptr && (known->overlay || known->dirty)) return false;
    beside.push_back(child);
  }
  for (const Source* child : beside) t.world.guard(Guard{GuardKind::kDictEmpty, child});
  return true;
}

}  // namespace

void writeOverlay(Tracer& tracer, values::Info* info, PyObject* key, PyObject* value) {
  noteWrite(tracer, info->object.get());
  if (!info->overlay) info->overlay = stealRef(PyDict_New());
  if (PyDict_GetItemWithError(info->overlay.get(), key) == values::deletedMarker()) {
    PyDict_DelItem(info->overlay.get(), key);
    if (!info->reborn) info->reborn = stealRef(PySet_New(nullptr));
    PySet_Add(info->reborn.get(), key);
  }
  PyDict_SetItem(info->overlay.get(), key, value);
}

void eraseOverlay(Tracer& tracer, values::Info* info, PyObject* key, bool there_before) {
  noteWrite(tracer, info->object.get());
  if (!info->overlay) info->overlay = stealRef(PyDict_New());
  if (info->reborn) PySet_Discard(info->reborn.get(), key);
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
    bool again = info->reborn && PySet_Contains(info->reborn.get(), key) == 1;
    if ((again || value == values::deletedMarker()) && !values::dictDelete(shadow, key))
      PyErr_Clear();
    if (value != values::deletedMarker()) values::dictSet(shadow, key, value);
  }
  info->overlay.reset();
  info->reborn.reset();
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
  const Source* source = info->source;
  auto guard_length = [&](Py_ssize_t length) {
    if (info->length_guarded) return;
    info->length_guarded = true;
    tracer.world.guard(Guard{GuardKind::kLength, source, nullptr, Ref<>(), length});
  };
  Ref<> shadow;
  if (PyTuple_Check(container)) {
    Py_ssize_t length = PyTuple_GET_SIZE(container);
    guard_length(length);
    shadow = stealRef(PyTuple_New(length));
    for (Py_ssize_t i = 0; i < length; ++i) {
      STATOR_VALUE(item,
                   fromOutside(tracer, PyTuple_GET_ITEM(container, i),
                               tracer.world.child(SourceKind::kTupleItem, source, nullptr, i)));
      PyTuple_SET_ITEM(shadow.get(), i, item.release());
    }
  } else if (PyList_Check(container)) {
    Py_ssize_t length = PyList_GET_SIZE(container);
    guard_length(length);
    shadow = stealRef(PyList_New(length));
    for (Py_ssize_t i = 0; i < length; ++i) {
      STATOR_VALUE(item,
                   fromOutside(tracer, PyList_GET_ITEM(container, i),
                               tracer.world.child(SourceKind::kListItem, source, nullptr, i)));
      PyList_SET_ITEM(shadow.get(), i, item.release());
    }
  } else if (PyDict_Check(container)) {
    Ref<> keys = values::dictKeys(container);
    if (!keys) return tracer.raiseCurrentError();
    // dict's own methods write to an OrderedDict past its order.
    if (PyList_GET_SIZE(keys.get()) != PyDict_GET_SIZE(container))
      return tracer.breakWith(breaks::Reason::kUnsupportedObject,
                              "an OrderedDict whose order is not that of its keys");
    bool all_static = true;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.get()); ++i) {
      PyObject* key = PyList_GET_ITEM(keys.get(), i);
      if (isStaticKey(key)) continue;
      all_static = false;
      if ((!isIdentityKey(key) && (PyTuple_Check(key) || !hasOwnKeys(tracer, key))) ||
          PyODict_Check(container) || info->attributes_of != nullptr) {
        return tracer.breakWith(breaks::Reason::kUnsupportedObject,
                                "a dict from outside with keys that are not constants");
      }
    }
    if (!all_static) return keyedByPosition(tracer, container);
    info->keys_open = keysDoNotMatter(tracer, info);
    if (info->keys_open) {
      guard_length(PyList_GET_SIZE(keys.get()));
    } else {
      Ref<> expected = stealRef(PyList_AsTuple(keys.get()));
      tracer.world.guard(Guard{GuardKind::kDictKeys, source, nullptr, expected});
    }
    info->length_guarded = true;
    values::Info* owner = info->attributes_of != nullptr
                              ? values::attributePart(tracer.values.find(info->attributes_of))
                              : nullptr;
    Ref<> read = stealRef(PyDict_New());
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.get()); ++i) {
      PyObject* key = PyList_GET_ITEM(keys.get(), i);
      PyObject* raw = PyDict_GetItemWithError(container, key);
      if (raw == nullptr)
        return tracer.breakWith(breaks::Reason::kUnsupportedObject,
                                "a dict that changes under its keys");
      bool attribute = owner != nullptr && PyUnicode_CheckExact(key);
      STATOR_VALUE(
          item, fromOutside(tracer, raw,
                            info->keys_open
                                ? tracer.world.child(SourceKind::kDictValue, source, nullptr, i)
                            : attribute ? tracer.world.child(SourceKind::kAttr, owner->source, key)
                                        : tracer.world.child(SourceKind::kDictItem, source, key)));
      PyDict_SetItem(read.get(), key, item.get());
    }
    if (PyODict_Check(container)) {
      // Both orders of the original.
      Ref<> copy = stealRef(PyODict_New());
      if (!values::dictFill(copy.get(), container)) return tracer.raiseCurrentError();
      PyObject *key = nullptr, *item = nullptr;
      Py_ssize_t position = 0;
      while (PyDict_Next(read.get(), &position, &key, &item))
        PyODict_SetItem(copy.get(), key, item);
      shadow = copy;
    } else {
      shadow = read;
    }
    info = tracer.values.find(container);
    // Single keys written before the whole was needed.
    if (owner != nullptr && owner->overlay) {
      Ref<> slots = stealRef(PyDict_New());
      PyObject *key = nullptr, *item = nullptr;
      Py_ssize_t position = 0;
      while (PyDict_Next(owner->overlay.get(), &position, &key, &item)) {
        PyObject* on_type = _PyType_Lookup(Py_TYPE(info->attributes_of), key);
        if (on_type != nullptr && Py_TYPE(on_type) == &PyMemberDescr_Type)
          PyDict_SetItem(slots.get(), key, item);
      }
      position = 0;
      while (PyDict_Next(slots.get(), &position, &key, &item))
        PyDict_DelItem(owner->overlay.get(), key);
      applyOverlay(tracer, owner, shadow.get());
      if (PyDict_Size(slots.get()) > 0) owner->overlay = std::move(slots);
      info->dirty = true;
    }
    if (info->overlay) {
      applyOverlay(tracer, info, shadow.get());
      info->dirty = true;
    }
  } else if (PyAnySet_Check(container)) {
    guard_length(PySet_GET_SIZE(container));
    Ref<> items = stealRef(PyList_New(0));
    PyObject* item = nullptr;
    Py_hash_t hash = 0;
    Py_ssize_t position = 0;
    int64_t n = 0;
    bool same_items = true, own = false;
    Ref<> hashes = stealRef(PyList_New(0));
    while (_PySet_NextEntry(container, &position, &item, &hash)) {
      const bool own_key = !isStaticKey(item) && !isIdentityKey(item);
      if (own_key && (PyTuple_Check(item) || PyAnySet_Check(item) || !hasOwnKeys(tracer, item))) {
        return tracer.breakWith(breaks::Reason::kUnsupportedObject,
                                "a set from outside with elements that are not constants");
      }
      STATOR_VALUE(value,
                   fromOutside(tracer, item,
                               tracer.world.child(SourceKind::kSetItem, source, nullptr, n++)));
      if (symbolic::isSymbol(value.get())) value = concrete(tracer, value.get());
      same_items &= value.get() == item || values::isScalar(value.get());
      own |= own_key;
      if (own_key) STATOR_FLOW(noteOwnKeys(tracer, item));
      Ref<> number = stealRef(own_key ? PyLong_FromSsize_t(hash) : Py_NewRef(Py_None));
      PyList_Append(hashes.get(), number.get());
      PyList_Append(items.get(), value.get());
    }
    if (own && !same_items)
      return tracer.breakWith(breaks::Reason::kUnsupportedObject,
                              "a set from outside with elements that are not constants");
    if (own) guardStoredHashes(tracer, source, hashes.get());
    // With the same order, and the class, which C's functions look at; unless they would run code of the user's then.
    PyTypeObject* type = Py_TYPE(container);
    PyTypeObject* base = PySet_Check(container) ? &PySet_Type : &PyFrozenSet_Type;
    const bool own_methods = type->tp_richcompare != base->tp_richcompare ||
                             type->tp_repr != base->tp_repr || type->tp_hash != base->tp_hash ||
                             type->tp_iter != base->tp_iter;
    shadow = stealRef(same_items            ? stator_set_like(own_methods ? base : type, container)
                      : base == &PySet_Type ? PySet_New(items.get())
                                            : PyFrozenSet_New(items.get()));
    if (!shadow) return tracer.raiseCurrentError();
  } else if (isDeque(container)) {
    // By C's own means, whatever a subclass has put over them.
    Ref<> iterator = stealRef(dequeType()->tp_iter(container));
    Ref<> items = iterator ? stealRef(PySequence_List(iterator.get())) : Ref<>();
    if (!items) return tracer.raiseCurrentError();
    guard_length(PyList_GET_SIZE(items.get()));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
      STATOR_VALUE(value,
                   fromOutside(tracer, PyList_GET_ITEM(items.get(), i),
                               tracer.world.child(SourceKind::kDequeItem, source, nullptr, i)));
      PyList_SetItem(items.get(), i, value.release());
    }
    PyObject* limit = torchObject("collections.deque.maxlen");
    Ref<> maxlen = stealRef(Py_TYPE(limit)->tp_descr_get(limit, container, nullptr));
    shadow = stealRef(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(dequeType()),
                                                   items.get(), maxlen.get(), nullptr));
  } else {
    return tracer.breakWith(breaks::Reason::kUnsupportedObject,
                            std::string("looks into a ") + Py_TYPE(container)->tp_name);
  }
  if (!shadow) return tracer.raiseCurrentError();
  info = tracer.values.find(container);
  info->shadow = shadow;
  if (info->appended) {
    PyList_SetSlice(shadow.get(), PyList_GET_SIZE(shadow.get()), PyList_GET_SIZE(shadow.get()),
                    info->appended.get());
    info->appended.reset();
  }
  return shadow;
}

// A dict some of whose keys (tensors, modules) are hashed by identity, or by methods of their class: each key is known by its position, and
// each value with it. What a key was hashed to when it was put there is a fact of its own.
Out keyedByPosition(Tracer& tracer, PyObject* dict) {
  const Source* source = tracer.values.find(dict)->source;
  tracer.world.guard(Guard{GuardKind::kLength, source, nullptr, Ref<>(), PyDict_Size(dict)});
  tracer.values.find(dict)->length_guarded = true;
  Ref<> shadow = stealRef(PyDict_New());
  Ref<> hashes = stealRef(PyList_New(0));
  bool any_own = false;
  PyObject *raw_key = nullptr, *raw = nullptr;
  Py_ssize_t position = 0;
  Py_hash_t hash = 0;
  for (int64_t i = 0; stator_dict_next(dict, &position, &raw_key, &raw, &hash); ++i) {
    const bool own = !isStaticKey(raw_key) && !isIdentityKey(raw_key);
    STATOR_VALUE(key, fromOutside(tracer, raw_key,
                                  tracer.world.child(SourceKind::kDictKey, source, nullptr, i)));
    STATOR_VALUE(item, fromOutside(tracer, raw,
                                   tracer.world.child(SourceKind::kDictValue, source, nullptr, i)));
    if (!isStaticKey(raw_key) && !own) {
      noteIdentity(tracer, key.get());
      if (!tensor::isTensor(raw_key)) guardDefaultHash(tracer, Py_TYPE(raw_key));
    }
    any_own |= own;
    if (own) STATOR_FLOW(noteOwnKeys(tracer, raw_key));
    Ref<> number = stealRef(own ? PyLong_FromSsize_t(hash) : Py_NewRef(Py_None));
    PyList_Append(hashes.get(), number.get());
    // They are different keys already, whatever their classes say.
    if (!addKey(tracer, shadow.get(), key.get(), item.get(), own ? hash : -1))
      return tracer.raiseCurrentError();
  }
  if (any_own) guardStoredHashes(tracer, source, hashes.get());
  values::Info* info = tracer.values.find(dict);
  if (info->overlay && any_own) {
    Ref<> overlay = std::move(info->overlay);
    if (info->reborn)
      return tracer.breakWith(Reason::kUnsupportedObject, "keys that were taken out and put back");
    PyObject *name = nullptr, *item = nullptr;
    position = 0;
    while (PyDict_Next(overlay.get(), &position, &name, &item)) {
      const bool gone = item == values::deletedMarker();
      STATOR_FLOW(keyed(tracer, shadow.get(), [&](PyObject* into) {
                    return (gone ? PyDict_DelItem(into, name) : PyDict_SetItem(into, name, item)) ==
                                   0
                               ? Py_NewRef(Py_None)
                               : nullptr;
                  }).flow());
    }
    info = tracer.values.find(dict);
    info->overlay.reset();
    info->dirty = true;
  } else if (info->overlay) {
    applyOverlay(tracer, info, shadow.get());
    info->dirty = true;
  }
  info->shadow = shadow;
  return shadow;
}

// While a list is sorted it is empty, and CPython finds out about writes to it: that there were any, not what came of them.
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

// Native code would see the class without what the trace has written to it, and would run what its metaclass says of its text.
bool isNativeSafeClass(Tracer& tracer, PyObject* object) {
  auto* type = reinterpret_cast<PyTypeObject*>(object);
  if (tracer.classes.anyWritten()) {
    PyObject* mro = stator_type_mro(type);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
      if (hasWrites(tracer.values.find(PyTuple_GET_ITEM(mro, i)))) return false;
    }
  }
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
  if (type == &PyList_Type) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i) {
      if (!isNativeSafe(tracer, PyList_GET_ITEM(object, i), depth + 1)) return false;
    }
    return true;
  }
  if (type == &PyTuple_Type || isNamedTuple(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
      if (!isNativeSafe(tracer, PyTuple_GET_ITEM(object, i), depth + 1)) return false;
    }
    return true;
  }
  if (type == &PyDict_Type) {
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(object, &position, &key, &value)) {
      if (!isNativeSafe(tracer, key, depth + 1) || !isNativeSafe(tracer, value, depth + 1))
        return false;
    }
    return true;
  }
  if (type == &PySet_Type || type == &PyFrozenSet_Type) {
    PyObject* item = nullptr;
    Py_hash_t hash = 0;
    Py_ssize_t position = 0;
    while (_PySet_NextEntry(object, &position, &item, &hash)) {
      if (!isNativeSafe(tracer, item, depth + 1)) return false;
    }
    return true;
  }
  if (type == &PySlice_Type) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    return isNativeSafe(tracer, slice->start, depth + 1) &&
           isNativeSafe(tracer, slice->stop, depth + 1) &&
           isNativeSafe(tracer, slice->step, depth + 1);
  }
  if (type == &PyByteArray_Type) return true;
  if (isDictView(object)) return isNativeSafe(tracer, stator_dict_of_view(object), depth + 1);
  if (type == &PyODict_Type) {
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(object, &position, &key, &value)) {
      if (!isNativeSafe(tracer, key, depth + 1) || !isNativeSafe(tracer, value, depth + 1))
        return false;
    }
    return true;
  }
  if (PyExceptionInstance_Check(object) && !guardedByIdentity(object)) {
    // Made in the trace: what native code looks at are its arguments and attributes.
    if (!isNativeSafe(tracer, reinterpret_cast<PyBaseExceptionObject*>(object)->args, depth + 1))
      return false;
    PyObject* attributes = reinterpret_cast<PyBaseExceptionObject*>(object)->dict;
    return attributes == nullptr || isNativeSafe(tracer, attributes, depth + 1);
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
  if (values::isScalar(value)) return false;
  if (PyTuple_Check(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
      if (hasStandIn(tracer, PyTuple_GET_ITEM(value, i), depth + 1)) return true;
    }
  } else if (PyList_Check(value)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); ++i) {
      if (hasStandIn(tracer, PyList_GET_ITEM(value, i), depth + 1)) return true;
    }
  } else if (PyDict_Check(value)) {
    PyObject *key = nullptr, *item = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(value, &position, &key, &item)) {
      if (hasStandIn(tracer, item, depth + 1)) return true;
    }
  }
  return false;
}

}  // namespace stator::interpret
