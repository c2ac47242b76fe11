// Working copies of containers from outside: their items as trace values, and guards on the whole.
#include "interpret/objects/outside_contents.h"

#include "base/check.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/rebuilt_values.h"
#include "interpret/core/symbols.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/keys.h"
#include "interpret/objects/lookups.h"
#include "interpret/objects/scalars.h"
#include "python/dict_views.h"
#include "python/objects.h"
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
  t.world.guard(Guard{GuardKind::kIs, t.world.child(SourceKind::kAsked, source, check.get()),
                      nullptr, newRef(Py_True)});
}

// nn.Module._call_impl looks hook ids up in the dicts of flags beside the hooks; where these are empty, it does not
// matter what the ids are.
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
    values::Info* known = t.values.find(dict.get());
    if (known != nullptr && (known->overlay || known->dirty)) return false;
    beside.push_back(child);
  }
  for (const Source* child : beside) t.world.guard(Guard{GuardKind::kDictEmpty, child});
  return true;
}

void guardLength(Tracer& tracer, values::Info* info, Py_ssize_t length) {
  if (info->length_guarded) return;
  info->length_guarded = true;
  tracer.world.guard(Guard{GuardKind::kLength, info->source, nullptr, Ref<>(), length});
}

// Of a tuple or list.
Out sequenceContents(Tracer& tracer, values::Info* info) {
  PyObject* container = info->object.get();
  guardLength(tracer, info, PySequence_Fast_GET_SIZE(container));
  const SourceKind kind = PyTuple_Check(container) ? SourceKind::kTupleItem : SourceKind::kListItem;
  int64_t i = 0;
  return rebuiltValues(container, [&](PyObject* item) {
    return fromOutside(tracer, item, tracer.world.child(kind, info->source, nullptr, i++));
  });
}

// A dict some of whose keys (tensors, modules) are hashed by identity, or by methods of their class: each key is known
// by its position, and each value with it. What a key was hashed to when it was put there is a fact of its own.
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
    if (info->set_again)
      return tracer.breakWith(Reason::kUnsupportedObject, "keys that were taken out and put back");
    PyObject *name = nullptr, *item = nullptr;
    position = 0;
    while (PyDict_Next(overlay.get(), &position, &name, &item)) {
      const bool gone = item == values::deletedMarker();
      STATOR_FLOW(withOwnKeys(tracer, shadow.get(), [&](PyObject* into) {
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

// Each key is a constant, or one that can be told from others by its position.
Flow requireKnownKeys(Tracer& tracer, const values::Info* info, PyObject* keys, bool& all_static) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys); ++i) {
    PyObject* key = PyList_GET_ITEM(keys, i);
    if (isStaticKey(key)) continue;
    all_static = false;
    if ((!isIdentityKey(key) && (PyTuple_Check(key) || !hasOwnKeys(tracer, key))) ||
        PyODict_Check(info->object.get()) || info->attributes_of != nullptr) {
      return tracer.breakWith(breaks::Reason::kUnsupportedObject,
                              "a dict from outside with keys that are not constants");
    }
  }
  return Flow::kOk;
}

// Where the value of the i-th key is read. owner: what has the dict as its attributes, or null.
const Source* sourceOfValue(Tracer& tracer, const values::Info* info, const values::Info* owner,
                            PyObject* key, Py_ssize_t i) {
  if (info->keys_open) return tracer.world.child(SourceKind::kDictValue, info->source, nullptr, i);
  if (owner != nullptr && PyUnicode_CheckExact(key))
    return tracer.world.child(SourceKind::kAttr, owner->source, key);
  return tracer.world.child(SourceKind::kDictItem, info->source, key);
}

// An OrderedDict with both orders of the original, and the values that were read.
Out orderedCopy(Tracer& tracer, PyObject* original, PyObject* read) {
  Ref<> copy = stealRef(PyODict_New());
  if (!values::dictFill(copy.get(), original)) return tracer.raiseCurrentError();
  PyObject *key = nullptr, *item = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(read, &position, &key, &item)) PyODict_SetItem(copy.get(), key, item);
  return copy;
}

// Attributes that were written before the dict of all was needed. Slots are no entries of it.
void applyAttributes(Tracer& tracer, values::Info* owner, PyTypeObject* type, PyObject* shadow) {
  Ref<> slots = stealRef(PyDict_New());
  PyObject *key = nullptr, *item = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(owner->overlay.get(), &position, &key, &item)) {
    PyObject* on_type = _PyType_Lookup(type, key);
    if (on_type != nullptr && Py_TYPE(on_type) == &PyMemberDescr_Type)
      PyDict_SetItem(slots.get(), key, item);
  }
  position = 0;
  while (PyDict_Next(slots.get(), &position, &key, &item))
    PyDict_DelItem(owner->overlay.get(), key);
  applyOverlay(tracer, owner, shadow);
  if (PyDict_Size(slots.get()) > 0) owner->overlay = std::move(slots);
}

// A key that is no plain value is an object of its own, to which other ways may lead.
Flow noteKey(Tracer& tracer, const values::Info* dict, PyObject* key, Py_ssize_t i) {
  if (!PyTuple_Check(key) && !PyFunction_Check(key)) return Flow::kOk;
  const Source* source = tracer.world.child(SourceKind::kDictKey, dict->source, nullptr, i);
  if (tracer.values.find(key) == nullptr) {
    tracer.values.addOutside(key, source).constant = values::isConstantDeep(key);
  } else {
    STATOR_VALUE(ignored, fromOutside(tracer, key, source));
  }
  return knowKey(tracer, key);
}

Out dictContents(Tracer& tracer, values::Info* info) {
  PyObject* dict = info->object.get();
  Ref<> keys = values::dictKeys(dict);
  if (!keys) return tracer.raiseCurrentError();
  // dict's own methods write to an OrderedDict past its order.
  if (PyList_GET_SIZE(keys.get()) != PyDict_GET_SIZE(dict))
    return tracer.breakWith(Reason::kUnsupportedObject,
                            "an OrderedDict whose order is not that of its keys");
  bool all_static = true;
  STATOR_FLOW(requireKnownKeys(tracer, info, keys.get(), all_static));
  if (!all_static) return keyedByPosition(tracer, dict);
  info->keys_open = keysDoNotMatter(tracer, info);
  if (info->keys_open) {
    guardLength(tracer, info, PyList_GET_SIZE(keys.get()));
  } else {
    Ref<> expected = stealRef(PyList_AsTuple(keys.get()));
    tracer.world.guard(Guard{GuardKind::kDictKeys, info->source, nullptr, expected});
  }
  info->length_guarded = true;
  values::Info* owner = info->attributes_of != nullptr
                            ? values::attributePart(tracer.values.find(info->attributes_of))
                            : nullptr;
  Ref<> shadow = stealRef(PyDict_New());
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.get()); ++i) {
    PyObject* key = PyList_GET_ITEM(keys.get(), i);
    STATOR_FLOW(noteKey(tracer, info, key, i));
    PyObject* raw = PyDict_GetItemWithError(dict, key);
    if (raw == nullptr)
      return tracer.breakWith(breaks::Reason::kUnsupportedObject,
                              "a dict that changes under its keys");
    STATOR_VALUE(item, fromOutside(tracer, raw, sourceOfValue(tracer, info, owner, key, i)));
    PyDict_SetItem(shadow.get(), key, item.get());
  }
  if (PyODict_Check(dict)) {
    STATOR_VALUE(ordered, orderedCopy(tracer, dict, shadow.get()));
    shadow = std::move(ordered);
  }
  // Single keys written before the whole was needed.
  if (owner != nullptr && owner->overlay) {
    applyAttributes(tracer, owner, Py_TYPE(info->attributes_of), shadow.get());
    info->dirty = true;
    tracer.effects.write(info);
  }
  if (info->overlay) {
    applyOverlay(tracer, info, shadow.get());
    info->dirty = true;
  }
  return shadow;
}

Flow strangeElements(Tracer& tracer) {
  return tracer.breakWith(breaks::Reason::kUnsupportedObject,
                          "a set from outside with elements that are not constants");
}

// With the same order, and the class, which C's functions look at; unless they would run code of the user's then.
// items: in place of the original's, or null.
Ref<> copyOfSet(PyObject* set, PyObject* items) {
  PyTypeObject* type = Py_TYPE(set);
  PyTypeObject* base = PySet_Check(set) ? &PySet_Type : &PyFrozenSet_Type;
  if (items != nullptr)
    return stealRef(base == &PySet_Type ? PySet_New(items) : PyFrozenSet_New(items));
  const bool own_methods = type->tp_richcompare != base->tp_richcompare ||
                           type->tp_repr != base->tp_repr || type->tp_hash != base->tp_hash ||
                           type->tp_iter != base->tp_iter;
  return stealRef(stator_set_like(own_methods ? base : type, set));
}

Out setContents(Tracer& tracer, values::Info* info) {
  PyObject* set = info->object.get();
  guardLength(tracer, info, PySet_GET_SIZE(set));
  Ref<> items = stealRef(PyList_New(0));
  PyObject* item = nullptr;
  Py_hash_t hash = 0;
  Py_ssize_t position = 0;
  int64_t n = 0;
  bool same_items = true, own = false;
  Ref<> hashes = stealRef(PyList_New(0));
  while (_PySet_NextEntry(set, &position, &item, &hash)) {
    const bool own_key = !isStaticKey(item) && !isIdentityKey(item);
    if (own_key && (PyTuple_Check(item) || PyAnySet_Check(item) || !hasOwnKeys(tracer, item)))
      return strangeElements(tracer);
    STATOR_VALUE(value,
                 fromOutside(tracer, item,
                             tracer.world.child(SourceKind::kSetItem, info->source, nullptr, n++)));
    // Where an element lies is its value: numbers that changed are constants here, in tuples too.
    if (symbolic::isSymbol(value.get())) {
      value = concrete(tracer, value.get());
    } else {
      if (tracer.sizes.any() && PyTuple_Check(value.get())) makeConcrete(tracer, value.get());
      STATOR_FLOW(knowKey(tracer, value.get()));
      if (isIdentityKey(item)) noteIdentity(tracer, value.get());
    }
    same_items &= value.get() == item || values::isScalar(value.get());
    own |= own_key;
    if (own_key) STATOR_FLOW(noteOwnKeys(tracer, item));
    Ref<> number = stealRef(own_key ? PyLong_FromSsize_t(hash) : Py_NewRef(Py_None));
    PyList_Append(hashes.get(), number.get());
    PyList_Append(items.get(), value.get());
  }
  if (own && !same_items) return strangeElements(tracer);
  if (own) guardStoredHashes(tracer, info->source, hashes.get());
  return tracer.fromNative(copyOfSet(set, same_items ? nullptr : items.get()));
}

Out dequeContents(Tracer& tracer, values::Info* info) {
  PyObject* deque = info->object.get();
  // By C's own means, whatever a subclass has put over them.
  Ref<> iterator = stealRef(dequeType()->tp_iter(deque));
  Ref<> items = iterator ? stealRef(PySequence_List(iterator.get())) : Ref<>();
  if (!items) return tracer.raiseCurrentError();
  guardLength(tracer, info, PyList_GET_SIZE(items.get()));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    STATOR_VALUE(value,
                 fromOutside(tracer, PyList_GET_ITEM(items.get(), i),
                             tracer.world.child(SourceKind::kDequeItem, info->source, nullptr, i)));
    PyList_SetItem(items.get(), i, value.release());
  }
  PyObject* limit = torchObject("collections.deque.maxlen");
  Ref<> maxlen = stealRef(Py_TYPE(limit)->tp_descr_get(limit, deque, nullptr));
  return tracer.fromNative(stealRef(PyObject_CallFunctionObjArgs(
      reinterpret_cast<PyObject*>(dequeType()), items.get(), maxlen.get(), nullptr)));
}

}  // namespace

Out outsideContents(Tracer& tracer, values::Info* info) {
  PyObject* container = info->object.get();
  if (PyTuple_Check(container) || PyList_Check(container)) return sequenceContents(tracer, info);
  if (PyDict_Check(container)) return dictContents(tracer, info);
  if (PyAnySet_Check(container)) return setContents(tracer, info);
  if (isDeque(container)) return dequeContents(tracer, info);
  return tracer.breakWith(breaks::Reason::kUnsupportedObject,
                          std::string("looks into a ") + Py_TYPE(container)->tp_name);
}

}  // namespace stator::interpret
