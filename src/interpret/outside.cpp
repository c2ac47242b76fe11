// Values that existed before the trace: giving them sources and guards as they are read, and working copies once their contents matter.
#include "base/check.h"
#include "interpret/attributes.h"
#include "interpret/exceptions.h"
#include "interpret/known_types.h"
#include "interpret/names.h"
#include "interpret/torch_names.h"
#include "interpret/trace_iterator.h"
#include "interpret/tracer.h"
#include "python/objects.h"
#include "symbolic/sym_int.h"
#include "tensor/meta_of.h"
#include "values/dicts.h"

namespace stator::interpret {

namespace {

// Objects that are the same for every call unless somebody rebinds a name: guarded by identity.
bool guardedByIdentity(PyObject* object) {
  return PyType_Check(object) || PyModule_Check(object) ||
         (PyCFunction_Check(object) && !isBoundBuiltin(object)) || PyCode_Check(object) ||
         Py_TYPE(object) == &PyMethodDescr_Type || Py_TYPE(object) == &PyWrapperDescr_Type ||
         Py_TYPE(object) == &PyGetSetDescr_Type || Py_TYPE(object) == &PyMemberDescr_Type ||
         Py_TYPE(object) == &PyClassMethodDescr_Type || Py_TYPE(object) == &PyProperty_Type ||
         Py_TYPE(object) == &PyStaticMethod_Type || Py_TYPE(object) == &PyClassMethod_Type ||
         isEnumMember(object) || isOpaqueConstant(object);
}

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
  while (dict ? _PyDict_Next(container, &position, &key, &value, &hash)
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
  t.guards->add(Guard{GuardKind::kIs, t.sources->child(SourceKind::kAsked, source, check), nullptr,
                      newRef(Py_True)});
}

}  // namespace

// Immutable: the value is guarded whole. dtypes and layouts are singletons. The guard keeps a copy of a tuple, not the program's own object.
void Tracer::guardConstant(PyObject* raw, const Source* source) {
  Ref<> expected = newRef(raw);
  if (PyTuple_CheckExact(raw) && PyTuple_GET_SIZE(raw) > 0) {
    Ref<> list = stealRef(PySequence_List(raw));
    expected = stealRef(PyList_AsTuple(list.get()));
  }
  bool singleton =
      values::isTorchConstant(raw) && !PyTuple_Check(raw) && Py_TYPE(raw) != deviceType();
  guards->add(Guard{singleton ? GuardKind::kIs : GuardKind::kEquals, source, nullptr, expected});
}

Out Tracer::fromOutside(BorrowedRef<> object, const Source* source) {
  PyObject* raw = object.get();
  if (values::isScalar(raw)) {
    if (PyLong_CheckExact(raw) && options.dynamic != DynamicMode::kStatic) {
      STATOR_VALUE(symbol, intFromOutside(raw, source));
      if (symbol) return symbol;
    }
    if (PyFloat_CheckExact(raw) && options.symbolic_floats) {
      STATOR_VALUE(symbol, floatFromOutside(raw, source));
      if (symbol) return symbol;
    }
    guards->add(Guard{GuardKind::kEquals, source, nullptr, newRef(raw)});
    return newRef(raw);
  }
  if (PyType_Check(raw) && reinterpret_cast<PyTypeObject*>(raw)->tp_mro == nullptr)
    return breakWith(breaks::Reason::kUnsupportedClass, "a class whose mro() is being asked for");
  if (values::Info* info = values.find(raw)) {
    if (info->source != nullptr &&
        (info->source->kind == SourceKind::kProxied) != (source->kind == SourceKind::kProxied))
      return breakWith(breaks::Reason::kUnsupportedObject, "a dict beside a read-only view of it");
    if (info->constant) {
      guardConstant(raw, source);
    } else if (info->source != source && info->source != nullptr) {
      guards->add(Guard{GuardKind::kSameAs, source, info->source});
    }
    if (info->unpacked) return info->shadow;
    if (!info->stand_in) return newRef(raw);
    if (source->kind == SourceKind::kParameter || source->kind == SourceKind::kBuffer)
      graph::asStandIn(info->stand_in.get())->node->of_module = true;
    return info->stand_in;
  }
  if (graph::isStandIn(raw) || isTraceIterator(raw) || symbolic::isSymbol(raw)) return newRef(raw);
  if (Py_TYPE(raw) == mappingProxyType()) {
    // A read-only view: what is behind it serves, since the program cannot write through the view.
    PyObject* mapping = reinterpret_cast<PyObject**>(raw)[2];
    if (PyDict_Check(mapping)) {
      if (source->kind != SourceKind::kObjectDict) {
        guards->add(Guard{GuardKind::kType, source, nullptr,
                          newRef(reinterpret_cast<PyObject*>(Py_TYPE(raw)))});
      }
      return fromOutside(mapping, sources->child(SourceKind::kProxied, source));
    }
  }
  if (tensor::isTensor(raw)) {
    if (!isPlainTensorType(Py_TYPE(raw))) {
      noteOverloads(Py_TYPE(raw));
      if (hasOwnDispatch(Py_TYPE(raw))) return wrapperFromOutside(raw, source);
    }
    if (!tensor::hasPlainFacts(raw)) {
      return breakWith(breaks::Reason::kSubclass,
                       std::string("an input is a ") + Py_TYPE(raw)->tp_name);
    }
    values::Info& info = values.addOutside(raw, source);
    graph::Graph& root = rootGraph();
    root.metas.push_back(tensor::metaOf(raw));
    shapes::TensorMeta& meta = root.metas.back();
    std::shared_ptr<tensor::TensorGuard> guard = tensor::TensorGuard::of(raw);
    shapeFromOutside(raw, source, *guard, meta);
    guards->add(Guard{GuardKind::kTensor, source, nullptr, Ref<>(), 0, std::move(guard)});
    if (uintptr_t storage = tensor::storageOf(raw)) {
      uint32_t& id = input_storages[storage];
      if (id == 0) id = next_storage++;
      meta.storage_id = id;
      storage_grads[id] |= meta.requires_grad ? kWithGrad : kWithoutGrad;
      if (wasWrittenThrough(id))
        return breakWith(Reason::kSubclass, "memory that was written to by way of another input");
    }
    graph::Node* node = root.addInput(source, newRef(raw), &meta);
    node->location = location();  // where the program first came to it
    node->scope = frames.back()->scope;
    if (options.own_parameters &&
        (source->kind == SourceKind::kParameter || source->kind == SourceKind::kBuffer)) {
      node->specialised = true;
      guards->add(Guard{GuardKind::kIs, source, nullptr, newRef(raw)});
    }
    node->of_module = source->kind == SourceKind::kParameter || source->kind == SourceKind::kBuffer;
    info.stand_in = graph::makeStandIn(node, &meta, reinterpret_cast<PyObject*>(Py_TYPE(raw)));
    // owned until the trace ends, as the graph's arguments refer to it
    values.addMade(info.stand_in, 0);
    return info.stand_in;
  }
  {
    STATOR_VALUE(array, arrayFromOutside(raw, source));
    if (array) return array;
  }
  if (values::isConstantDeep(raw)) {
    if (tupleChanged(raw, source)) {
      // Item by item: some are symbols. The tuple that the trace works with stands for the one outside.
      guards->add(Guard{GuardKind::kType, source, nullptr,
                        newRef(reinterpret_cast<PyObject*>(&PyTuple_Type))});
      values.addOutside(raw, source);
      guards->add(Guard{GuardKind::kLength, source, nullptr, Ref<>(), PyTuple_GET_SIZE(raw)});
      Ref<> items = stealRef(PyTuple_New(PyTuple_GET_SIZE(raw)));
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(raw); ++i) {
        STATOR_VALUE(item, fromOutside(PyTuple_GET_ITEM(raw, i),
                                       sources->child(SourceKind::kTupleItem, source, nullptr, i)));
        PyTuple_SET_ITEM(items.get(), i, item.release());
      }
      values::Info* info = values.find(raw);
      info->shadow = items;
      info->unpacked = true;
      return items;
    }
    guardConstant(raw, source);
    // The value is known; but what the program puts somewhere is its own object, not an equal one of an earlier call.
    if (PyTuple_Check(raw) || PyFrozenSet_CheckExact(raw) || PyRange_Check(raw) ||
        PySlice_Check(raw))
      values.addOutside(raw, source).constant = true;
    return newRef(raw);
  }
  if (guardedByIdentity(raw)) {
    if (isPlacement(raw)) {
      Ref<> check = stealRef(PyObject_CallOneArg(torchObject("stator._wrappers.equals"), raw));
      if (!check) return raiseCurrentError();
      guards->add(Guard{GuardKind::kIs, sources->child(SourceKind::kAsked, source, check), nullptr,
                        newRef(Py_True)});
    } else {
      guards->add(Guard{GuardKind::kIs, source, nullptr, newRef(raw)});
    }
    values.addOutside(raw, source);
    return newRef(raw);
  }
  if (PyFunction_Check(raw)) {
    guards->add(Guard{GuardKind::kIs, sources->child(SourceKind::kCode, source), nullptr,
                      newRef(PyFunction_GET_CODE(raw))});
    values.addOutside(raw, source);
    return newRef(raw);
  }
  guards->add(
      Guard{GuardKind::kType, source, nullptr, newRef(reinterpret_cast<PyObject*>(Py_TYPE(raw)))});
  values.addOutside(raw, source);
  return newRef(raw);
}

const Source* Tracer::sourceOf(PyObject* object) {
  if (values::Info* info = values.find(object))
    return info->origin == values::Origin::kOutside ? info->source : nullptr;
  if (PyType_Check(object) || PyModule_Check(object) || PyFunction_Check(object))
    return sources->pinned(object);
  return nullptr;
}

Ref<> Tracer::made(Ref<> object) {
  if (object && !values::isScalar(object.get())) values.addMade(object, instruction_start);
  return object;
}

bool Tracer::isMade(PyObject* object) {
  values::Info* info = values.find(object);
  return info == nullptr || info->origin == values::Origin::kMade;
}

bool Tracer::isProxied(PyObject* value) {
  if (!PyDict_Check(value)) return false;
  const Source* source = sourceOf(value);
  return source != nullptr && source->kind == SourceKind::kProxied;
}

PyTypeObject* Tracer::typeOf(PyObject* value) {
  if (graph::isStandIn(value))
    return reinterpret_cast<PyTypeObject*>(graph::asStandIn(value)->apparent_type);
  if (symbolic::isSymScalar(value)) return symbolic::asSymScalar(value)->of;
  if (symbolic::isSymInt(value)) return &PyLong_Type;
  if (isTraceIterator(value)) return iteratorType(asTraceIterator(value));
  if (isAddress(value)) return &PyLong_Type;
  if (isTraceTraceback(value)) return &PyTraceBack_Type;
  if (isProxied(value)) return mappingProxyType();
  return Py_TYPE(value);
}

void Tracer::noteWrite(PyObject* object) {
  values::Info* info = values.find(object);
  if (info != nullptr && (info->origin == values::Origin::kOutside || info->born <= fold_started))
    ++effects;
}

void Tracer::writeOverlay(values::Info* info, PyObject* key, PyObject* value) {
  noteWrite(info->object.get());
  if (!info->overlay) info->overlay = stealRef(PyDict_New());
  if (PyDict_GetItemWithError(info->overlay.get(), key) == values::deletedMarker()) {
    PyDict_DelItem(info->overlay.get(), key);
    if (!info->reborn) info->reborn = stealRef(PySet_New(nullptr));
    PySet_Add(info->reborn.get(), key);
  }
  PyDict_SetItem(info->overlay.get(), key, value);
}

void Tracer::eraseOverlay(values::Info* info, PyObject* key, bool there_before) {
  noteWrite(info->object.get());
  if (!info->overlay) info->overlay = stealRef(PyDict_New());
  if (info->reborn) PySet_Discard(info->reborn.get(), key);
  if (there_before) {
    PyDict_SetItem(info->overlay.get(), key, values::deletedMarker());
  } else if (PyDict_DelItem(info->overlay.get(), key) != 0) {
    PyErr_Clear();
  }
}

// The overlay's entries go into the working copy, which takes its place.
void Tracer::applyOverlay(values::Info* info, PyObject* shadow) {
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

namespace {

// nn.Module._call_impl looks hook ids up in the dicts of flags beside the hooks; where these are empty, it does not matter what the ids are.
bool keysDoNotMatter(Tracer& t, values::Info* info) {
  const Source* source = info->source;
  if (!t.runsModuleCall() || source->kind != SourceKind::kAttr || info->overlay) return false;
  static PyObject* const after = PyUnicode_InternFromString("_forward_hooks");
  static PyObject* const before = PyUnicode_InternFromString("_forward_pre_hooks");
  static PyObject* const flags[] = {PyUnicode_InternFromString("_forward_hooks_with_kwargs"),
                                    PyUnicode_InternFromString("_forward_hooks_always_called"),
                                    PyUnicode_InternFromString("_forward_pre_hooks_with_kwargs")};
  bool is_after = PyUnicode_Compare(source->key.get(), after) == 0;
  if (!is_after && PyUnicode_Compare(source->key.get(), before) != 0) return false;
  std::vector<const Source*> beside;
  for (int i = is_after ? 0 : 2; i < (is_after ? 2 : 3); ++i) {
    const Source* child = t.sources->child(SourceKind::kAttr, source->base, flags[i]);
    Ref<> dict = sources::read(*child, t.roots);
    if (!dict) PyErr_Clear();
    if (!dict || !PyDict_Check(dict.get()) || PyDict_Size(dict.get()) != 0) return false;
    values::Info* known = t.values.find(dict);
    if (known != nullptr && (known->overlay || known->dirty)) return false;
    beside.push_back(child);
  }
  for (const Source* child : beside) t.guards->add(Guard{GuardKind::kDictEmpty, child});
  return true;
}

}  // namespace

bool Tracer::runsModuleCall() {
  auto* code = reinterpret_cast<PyObject*>(frames.back()->code->code());
  return code == names().nn_module_call_impl || code == names().nn_module_call_inner;
}

void Tracer::knowKeys(values::Info* info) {
  if (!info->keys_open || runsModuleCall()) return;
  info->keys_open = false;
  Ref<> keys = values::dictKeys(info->object.get());
  guards->add(
      Guard{GuardKind::kDictKeys, info->source, nullptr, stealRef(PyList_AsTuple(keys.get()))});
}

Out Tracer::contents(PyObject* container) {
  values::Info* info = values.find(container);
  if (info == nullptr || info->origin == values::Origin::kMade || info->constant)
    return newRef(container);
  if (info->shadow) {
    knowKeys(info);
    return info->shadow;
  }
  const Source* source = info->source;
  auto guard_length = [&](Py_ssize_t length) {
    if (info->length_guarded) return;
    info->length_guarded = true;
    guards->add(Guard{GuardKind::kLength, source, nullptr, Ref<>(), length});
  };
  Ref<> shadow;
  if (PyTuple_Check(container)) {
    Py_ssize_t length = PyTuple_GET_SIZE(container);
    guard_length(length);
    shadow = stealRef(PyTuple_New(length));
    for (Py_ssize_t i = 0; i < length; ++i) {
      STATOR_VALUE(item, fromOutside(PyTuple_GET_ITEM(container, i),
                                     sources->child(SourceKind::kTupleItem, source, nullptr, i)));
      PyTuple_SET_ITEM(shadow.get(), i, item.release());
    }
  } else if (PyList_Check(container)) {
    Py_ssize_t length = PyList_GET_SIZE(container);
    guard_length(length);
    shadow = stealRef(PyList_New(length));
    for (Py_ssize_t i = 0; i < length; ++i) {
      STATOR_VALUE(item, fromOutside(PyList_GET_ITEM(container, i),
                                     sources->child(SourceKind::kListItem, source, nullptr, i)));
      PyList_SET_ITEM(shadow.get(), i, item.release());
    }
  } else if (PyDict_Check(container)) {
    Ref<> keys = values::dictKeys(container);
    if (!keys) return raiseCurrentError();
    bool all_static = true;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.get()); ++i) {
      PyObject* key = PyList_GET_ITEM(keys.get(), i);
      if (isStaticKey(key)) continue;
      all_static = false;
      if ((!isIdentityKey(key) && (PyTuple_Check(key) || !hasOwnKeys(key))) ||
          PyODict_Check(container) || info->attributes_of != nullptr) {
        return breakWith(breaks::Reason::kUnsupportedObject,
                         "a dict from outside with keys that are not constants");
      }
    }
    if (!all_static) return keyedByPosition(container);
    info->keys_open = keysDoNotMatter(*this, info);
    if (info->keys_open) {
      guard_length(PyList_GET_SIZE(keys.get()));
    } else {
      Ref<> expected = stealRef(PyList_AsTuple(keys.get()));
      guards->add(Guard{GuardKind::kDictKeys, source, nullptr, expected});
    }
    info->length_guarded = true;
    values::Info* owner = info->attributes_of != nullptr
                              ? values::attributePart(values.find(info->attributes_of))
                              : nullptr;
    Ref<> read = stealRef(PyDict_New());
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.get()); ++i) {
      PyObject* key = PyList_GET_ITEM(keys.get(), i);
      PyObject* raw = PyDict_GetItemWithError(container, key);
      if (raw == nullptr)
        return breakWith(breaks::Reason::kUnsupportedObject, "a dict that changes under its keys");
      bool attribute = owner != nullptr && PyUnicode_CheckExact(key);
      STATOR_VALUE(
          item, fromOutside(raw, info->keys_open
                                     ? sources->child(SourceKind::kDictValue, source, nullptr, i)
                                 : attribute ? sources->child(SourceKind::kAttr, owner->source, key)
                                             : sources->child(SourceKind::kDictItem, source, key)));
      PyDict_SetItem(read.get(), key, item.get());
    }
    if (PyODict_Check(container)) {
      // Both orders of the original.
      Ref<> copy = stealRef(PyODict_New());
      if (!values::dictFill(copy.get(), container)) return raiseCurrentError();
      PyObject *key = nullptr, *item = nullptr;
      Py_ssize_t position = 0;
      while (PyDict_Next(read.get(), &position, &key, &item))
        PyODict_SetItem(copy.get(), key, item);
      shadow = copy;
    } else {
      shadow = read;
    }
    info = values.find(container);
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
      applyOverlay(owner, shadow.get());
      if (PyDict_Size(slots.get()) > 0) owner->overlay = std::move(slots);
      info->dirty = true;
    }
    if (info->overlay) {
      applyOverlay(info, shadow.get());
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
      if (own_key && (PyTuple_Check(item) || PyAnySet_Check(item) || !hasOwnKeys(item))) {
        return breakWith(breaks::Reason::kUnsupportedObject,
                         "a set from outside with elements that are not constants");
      }
      STATOR_VALUE(value,
                   fromOutside(item, sources->child(SourceKind::kSetItem, source, nullptr, n++)));
      if (symbolic::isSymbol(value.get())) value = concrete(value.get());
      same_items &= value.get() == item || values::isScalar(value.get());
      own |= own_key;
      if (own_key) STATOR_FLOW(noteOwnKeys(item));
      Ref<> number = stealRef(own_key ? PyLong_FromSsize_t(hash) : Py_NewRef(Py_None));
      PyList_Append(hashes.get(), number.get());
      PyList_Append(items.get(), value.get());
    }
    if (own && !same_items)
      return breakWith(breaks::Reason::kUnsupportedObject,
                       "a set from outside with elements that are not constants");
    if (own) guardStoredHashes(*this, source, hashes.get());
    // With the same order, and the class, which C's functions look at; unless they would run code of the user's then.
    PyTypeObject* type = Py_TYPE(container);
    PyTypeObject* base = PySet_Check(container) ? &PySet_Type : &PyFrozenSet_Type;
    const bool own_methods = type->tp_richcompare != base->tp_richcompare ||
                             type->tp_repr != base->tp_repr || type->tp_hash != base->tp_hash ||
                             type->tp_iter != base->tp_iter;
    shadow = stealRef(same_items            ? stator_set_like(own_methods ? base : type, container)
                      : base == &PySet_Type ? PySet_New(items.get())
                                            : PyFrozenSet_New(items.get()));
    if (!shadow) return raiseCurrentError();
  } else if (isDeque(container)) {
    Ref<> items = stealRef(PySequence_List(container));
    guard_length(PyList_GET_SIZE(items.get()));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
      STATOR_VALUE(value, fromOutside(PyList_GET_ITEM(items.get(), i),
                                      sources->child(SourceKind::kDequeItem, source, nullptr, i)));
      PyList_SetItem(items.get(), i, value.release());
    }
    Ref<> maxlen = stealRef(PyObject_GetAttrString(container, "maxlen"));
    shadow = stealRef(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(Py_TYPE(container)),
                                                   items.get(), maxlen.get(), nullptr));
  } else {
    return breakWith(breaks::Reason::kUnsupportedObject,
                     std::string("looks into a ") + Py_TYPE(container)->tp_name);
  }
  if (!shadow) return raiseCurrentError();
  info = values.find(container);
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
Out Tracer::keyedByPosition(PyObject* dict) {
  const Source* source = values.find(dict)->source;
  guards->add(Guard{GuardKind::kLength, source, nullptr, Ref<>(), PyDict_Size(dict)});
  values.find(dict)->length_guarded = true;
  Ref<> shadow = stealRef(PyDict_New());
  Ref<> hashes = stealRef(PyList_New(0));
  bool any_own = false;
  PyObject *raw_key = nullptr, *raw = nullptr;
  Py_ssize_t position = 0;
  Py_hash_t hash = 0;
  for (int64_t i = 0; _PyDict_Next(dict, &position, &raw_key, &raw, &hash); ++i) {
    const bool own = !isStaticKey(raw_key) && !isIdentityKey(raw_key);
    STATOR_VALUE(key,
                 fromOutside(raw_key, sources->child(SourceKind::kDictKey, source, nullptr, i)));
    STATOR_VALUE(item,
                 fromOutside(raw, sources->child(SourceKind::kDictValue, source, nullptr, i)));
    if (!isStaticKey(raw_key) && !own) {
      noteIdentity(key.get());
      if (!tensor::isTensor(raw_key)) guardDefaultHash(Py_TYPE(raw_key));
    }
    any_own |= own;
    if (own) STATOR_FLOW(noteOwnKeys(raw_key));
    Ref<> number = stealRef(own ? PyLong_FromSsize_t(hash) : Py_NewRef(Py_None));
    PyList_Append(hashes.get(), number.get());
    // They are different keys already, whatever their classes say.
    if (!addKey(shadow.get(), key.get(), item.get(), own ? hash : -1)) return raiseCurrentError();
  }
  if (any_own) guardStoredHashes(*this, source, hashes.get());
  values::Info* info = values.find(dict);
  if (info->overlay && any_own) {
    Ref<> overlay = std::move(info->overlay);
    if (info->reborn)
      return breakWith(Reason::kUnsupportedObject, "keys that were taken out and put back");
    PyObject *name = nullptr, *item = nullptr;
    position = 0;
    while (PyDict_Next(overlay.get(), &position, &name, &item)) {
      const bool gone = item == values::deletedMarker();
      STATOR_FLOW(keyed(shadow.get(), [&](PyObject* into) {
                    return (gone ? PyDict_DelItem(into, name) : PyDict_SetItem(into, name, item)) ==
                                   0
                               ? Py_NewRef(Py_None)
                               : nullptr;
                  }).flow());
    }
    info = values.find(dict);
    info->overlay.reset();
    info->dirty = true;
  } else if (info->overlay) {
    applyOverlay(info, shadow.get());
    info->dirty = true;
  }
  info->shadow = shadow;
  return shadow;
}

Out Tracer::contentsForWrite(PyObject* container) {
  noteWrite(container);
  if (PyDict_CheckExact(container)) STATOR_FLOW(linkOwner(*this, container));
  STATOR_VALUE(shadow, contents(container));
  nested_ran = true;
  if (values::Info* info = values.find(container);
      info != nullptr && info->origin == values::Origin::kOutside)
    info->dirty = true;
  return shadow;
}

Out Tracer::viewedDict(PyObject* view) {
  auto* dict = reinterpret_cast<PyObject*>(reinterpret_cast<_PyDictViewObject*>(view)->dv_dict);
  if (const Source* source = sourceOf(view))
    return fromOutside(dict, sources->child(SourceKind::kViewDict, source));
  return newRef(dict);
}

Out Tracer::viewContents(PyObject* view) {
  STATOR_VALUE(dict, viewedDict(view));
  STATOR_VALUE(items, contents(dict.get()));
  const char* name = PyDictKeys_Check(view)     ? "keys"
                     : PyDictValues_Check(view) ? "values"
                                                : "items";
  PyTypeObject* home = PyODict_Check(items.get()) ? &PyODict_Type : &PyDict_Type;
  return fromNative(
      stealRef(PyObject_CallMethod(reinterpret_cast<PyObject*>(home), name, "O", items.get())));
}

bool Tracer::isNativeSafe(PyObject* object, int depth) {
  if (object == nullptr) return false;
  if (values::isScalar(object)) return true;
  if (graph::isStandIn(object) || isTraceIterator(object) || isAddress(object) || depth > 8)
    return false;
  if (values::isConstantDeep(object)) return true;
  if (PyType_Check(object) || (PyCFunction_Check(object) && !isBoundBuiltin(object)) ||
      PyModule_Check(object))
    return true;
  values::Info* info = values.find(object);
  if (info != nullptr && info->origin == values::Origin::kOutside) {
    return isEnumMember(object) || guardedByIdentity(object);
  }
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyList_Type) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i) {
      if (!isNativeSafe(PyList_GET_ITEM(object, i), depth + 1)) return false;
    }
    return true;
  }
  if (type == &PyTuple_Type || isNamedTuple(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
      if (!isNativeSafe(PyTuple_GET_ITEM(object, i), depth + 1)) return false;
    }
    return true;
  }
  if (type == &PyDict_Type) {
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(object, &position, &key, &value)) {
      if (!isNativeSafe(key, depth + 1) || !isNativeSafe(value, depth + 1)) return false;
    }
    return true;
  }
  if (type == &PySet_Type || type == &PyFrozenSet_Type) {
    PyObject* item = nullptr;
    Py_hash_t hash = 0;
    Py_ssize_t position = 0;
    while (_PySet_NextEntry(object, &position, &item, &hash)) {
      if (!isNativeSafe(item, depth + 1)) return false;
    }
    return true;
  }
  if (type == &PySlice_Type) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    return isNativeSafe(slice->start, depth + 1) && isNativeSafe(slice->stop, depth + 1) &&
           isNativeSafe(slice->step, depth + 1);
  }
  if (type == &PyByteArray_Type) return true;
  if (isDictView(object))
    return isNativeSafe(
        reinterpret_cast<PyObject*>(reinterpret_cast<_PyDictViewObject*>(object)->dv_dict),
        depth + 1);
  if (type == &PyODict_Type) {
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(object, &position, &key, &value)) {
      if (!isNativeSafe(key, depth + 1) || !isNativeSafe(value, depth + 1)) return false;
    }
    return true;
  }
  if (PyExceptionInstance_Check(object) && !guardedByIdentity(object)) {
    // Made in the trace: what native code looks at are its arguments and attributes.
    if (!isNativeSafe(reinterpret_cast<PyBaseExceptionObject*>(object)->args, depth + 1))
      return false;
    PyObject* attributes = reinterpret_cast<PyBaseExceptionObject*>(object)->dict;
    return attributes == nullptr || isNativeSafe(attributes, depth + 1);
  }
  return guardedByIdentity(object);
}

Out Tracer::plain(PyObject* value) {
  if (isDictView(value)) return viewContents(value);
  if (symbolic::isSymbol(value)) return concrete(value);
  if (isAddress(value)) return pinnedAddress(value);
  if (!values::isScalar(value)) {
    STATOR_VALUE(exact, plainScalar(value));
    if (exact) return exact;
  }
  values::Info* info = values.find(value);
  if (info == nullptr || info->origin == values::Origin::kMade) return newRef(value);
  if (PyTuple_Check(value) || PyList_Check(value) || PyDict_Check(value) || PyAnySet_Check(value) ||
      isDeque(value)) {
    return contents(value);
  }
  return newRef(value);
}

Out Tracer::readSlot(SymbolicFrame& frame, size_t slot) {
  if (!frame.untouched.empty() && frame.untouched[slot]) {
    PyObject* raw = roots.slots[slot];
    const Source* source = sources->root(SourceKind::kLocal, static_cast<int64_t>(slot));
    if (raw == nullptr) {
      guards->add(Guard{GuardKind::kAbsent, source});
      frame.untouched[slot] = false;
      return Ref<>();
    }
    STATOR_VALUE(value, fromOutside(raw, source));
    frame.slots[slot] = value;
    frame.untouched[slot] = false;
    return value;
  }
  return frame.slots[slot];
}

Out Tracer::cellContents(PyObject* cell) {
  values::Info* info = values.find(cell);
  if (info == nullptr || info->origin == values::Origin::kMade)
    return Ref<>::create(PyCell_GET(cell));
  if (info->dirty) return info->shadow;
  if (info->known) return info->known;
  const Source* source = sources->child(SourceKind::kCell, info->source);
  PyObject* raw = PyCell_GET(cell);
  if (raw == nullptr) {
    guards->add(Guard{GuardKind::kAbsent, source});
    return Ref<>();
  }
  STATOR_VALUE(value, fromOutside(raw, source));
  values.find(cell)->known = value;
  return value;
}

Flow Tracer::storeCell(PyObject* cell, Ref<> value) {
  noteWrite(cell);
  values::Info* info = values.find(cell);
  if (info == nullptr || info->origin == values::Origin::kMade) {
    PyCell_Set(cell, value.get());
    return Flow::kOk;
  }
  info->dirty = true;
  info->shadow = std::move(value);
  return Flow::kOk;
}

}  // namespace stator::interpret
