// Containers and iteration: subscripts, length, truth, membership, iterators.
#include "base/check.h"
#include "interpret/known_types.h"
#include "interpret/names.h"
#include "interpret/torch_names.h"
#include "interpret/trace_iterator.h"
#include "interpret/tracer.h"
#include "python/objects.h"
#include "symbolic/sym_int.h"
#include "values/dicts.h"

namespace stator::interpret {

using breaks::Reason;
using guards::Guard;
using guards::GuardKind;
using sources::Source;
using sources::SourceKind;
using symbolic::Dim;

namespace {

PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }

// The type's entry for a special method is the C slot of `base` itself, not something that a subclass put over it.
bool usesNativeSlot(PyTypeObject* type, PyTypeObject* base, PyObject* name) {
  return type == base || _PyType_Lookup(type, name) == _PyType_Lookup(base, name);
}

bool isNativeContainer(Tracer& tracer, PyObject* object, PyObject* method) {
  PyTypeObject* type = Py_TYPE(object);
  for (PyTypeObject* base :
       {&PyList_Type, &PyTuple_Type, &PyDict_Type, &PySet_Type, &PyFrozenSet_Type, dequeType()}) {
    if (PyType_IsSubtype(type, base)) {
      if (type != base && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0)
        (void)tracer.typeLookup(type, method);
      // C subclasses (OrderedDict, defaultdict) have slots of their own that keep the same meaning.
      PyObject* found = _PyType_Lookup(type, method);
      return usesNativeSlot(type, base, method) || (found != nullptr && !PyFunction_Check(found));
    }
  }
  return false;
}

bool isTextLike(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyRange_Type ||
         type == &PyByteArray_Type;
}

// A slice with numbers in place of symbolic ints; null: it has none.
Ref<> concreteSlice(Tracer& tracer, PyObject* key) {
  auto* slice = reinterpret_cast<PySliceObject*>(key);
  bool any = false;
  auto part = [&](PyObject* value) {
    if (!symbolic::isSymbol(value)) return newRef(value);
    any = true;
    return tracer.concrete(value);
  };
  Ref<> start = part(slice->start), stop = part(slice->stop), step = part(slice->step);
  return any ? stealRef(PySlice_New(start.get(), stop.get(), step.get())) : Ref<>();
}

bool defaultHash(PyTypeObject* type) {
  return type->tp_hash == PyBaseObject_Type.tp_hash &&
         type->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

// `C[...]`: the metaclass's __getitem__, or __class_getitem__. typing's own is run for real: it only builds a description of the type.
Out subscriptClass(Tracer& tracer, PyTypeObject* type, PyObject* key) {
  static PyObject* getitem = interned("__getitem__");
  static PyObject* class_getitem = interned("__class_getitem__");
  PyObject* object = reinterpret_cast<PyObject*>(type);
  STATOR_VALUE(on_meta, tracer.typeLookup(Py_TYPE(object), getitem));
  if (on_meta && PyFunction_Check(on_meta.get()) && !PyType_IsSubtype(type, enumType())) {
    STATOR_VALUE(function, tracer.classAttrValue(Py_TYPE(object), getitem, on_meta.get()));
    Args args;
    args.values = {object, key};
    args.positional = 2;
    return tracer.call(function.get(), args);
  }
  STATOR_VALUE(own, tracer.typeLookup(type, class_getitem));
  if (!on_meta && own && Py_TYPE(own.get()) == &PyClassMethod_Type) {
    Ref<> function = stealRef(PyObject_GetAttr(own.get(), names().func));
    PyObject* code = function && PyFunction_Check(function.get())
                         ? PyFunction_GET_CODE(function.get())
                         : nullptr;
    Ref<> module =
        function ? stealRef(PyObject_GetAttrString(function.get(), "__module__")) : Ref<>();
    bool typing = module && PyUnicode_Check(module.get()) &&
                  PyUnicode_CompareWithASCIIString(module.get(), "typing") == 0;
    PyErr_Clear();
    if (code != nullptr && !typing) {
      STATOR_VALUE(bound, tracer.settle(tracer.getAttr(object, class_getitem)));
      tracer.keep_alive.push_back(bound);
      Args args;
      args.values = {key};
      args.positional = 1;
      return tracer.call(bound.get(), args);
    }
  }
  if (!tracer.isNativeSafe(key))
    return tracer.breakWith(Reason::kUnsupportedObject, "subscripts a class");
  Ref<> result = stealRef(PyObject_GetItem(object, key));
  if (!result) return tracer.raiseCurrentError();
  // Descriptions of types are as good as constants.
  if (!PyType_Check(result.get()) && !values::isScalar(result.get()) &&
      !isEnumMember(result.get()) && tracer.values.find(result) == nullptr) {
    tracer.values.addOutside(result, tracer.sources->pinned(result));
  }
  return result;
}

}  // namespace

bool Tracer::hashableNatively(PyObject* key) {
  if (values::isScalar(key) || isStaticKey(key) || isAddress(key)) return true;
  if (graph::isStandIn(key)) {
    noteIdentity(key);
    return true;
  }
  if (PyTuple_CheckExact(key)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
      if (!hashableNatively(PyTuple_GET_ITEM(key, i))) return false;
    }
    return true;
  }
  if (Py_TYPE(key) == &PyFrozenSet_Type) {
    PyObject* item = nullptr;
    Py_hash_t hash = 0;
    Py_ssize_t position = 0;
    while (_PySet_NextEntry(key, &position, &item, &hash)) {
      if (!hashableNatively(item)) return false;
    }
    return isMade(key);
  }
  if (isTraceIterator(key)) return false;
  if (defaultHash(Py_TYPE(key))) {
    noteIdentity(key);
    return true;
  }
  Out scalar = plainScalar(key);
  return scalar.ok() && scalar.get() != nullptr;
}

Flow Tracer::requireHashable(PyObject* key) {
  if (hashableNatively(key)) return Flow::kOk;
  PyObject* unhashable = key;
  if (PyTuple_CheckExact(key)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key) && unhashable == key; ++i) {
      PyObject* item = PyTuple_GET_ITEM(key, i);
      if (!graph::isStandIn(item) && Py_TYPE(item)->tp_hash == PyObject_HashNotImplemented)
        unhashable = item;
    }
  }
  if (Py_TYPE(unhashable)->tp_hash == PyObject_HashNotImplemented)
    return raiseNew(PyExc_TypeError, "unhashable type: '%.200s'", Py_TYPE(unhashable)->tp_name);
  return breakWith(Reason::kUnsupportedObject, "a key or element with its own __hash__ or __eq__");
}

Out Tracer::dictGet(PyObject* dict, PyObject* key) {
  if (symbolic::isSymbol(key)) {
    Ref<> number = concrete(key);
    return dictGet(dict, number.get());
  }
  values::Info* info = values.find(dict);
  if (isAddress(key) && !isMade(dict)) {
    STATOR_VALUE(number, pinnedAddress(key));
    return dictGet(dict, number.get());
  }
  if (info == nullptr || info->origin == values::Origin::kMade || info->shadow) {
    PyObject* target = info != nullptr && info->shadow ? info->shadow.get() : dict;
    if (info != nullptr) knowKeys(info);
    if (target == dict && needsOwnHash(dict, key)) return userKeyGet(dict, key);
    STATOR_FLOW(requireHashable(key));
    PyObject* found = PyDict_GetItemWithError(target, key);
    if (found == nullptr && PyErr_Occurred()) return raiseCurrentError();
    return Ref<>::create(found);
  }
  if (info->attributes_of != nullptr && PyUnicode_CheckExact(key))
    return instanceAttr(info->attributes_of, key);
  if (!isStaticKey(key)) {
    STATOR_VALUE(shadow, contents(dict));
    return dictGet(dict, key);
  }
  if (info->overlay) {
    if (PyObject* written = PyDict_GetItemWithError(info->overlay.get(), key)) {
      return written == values::deletedMarker() ? Ref<>() : newRef(written);
    }
  }
  if (!info->known) info->known = stealRef(PyDict_New());
  Ref<> known = info->known;
  if (PyObject* seen = PyDict_GetItemWithError(known.get(), key)) {
    // 1, True and 1.0 are one key, here as in the dict itself.
    return seen == values::deletedMarker() ? Ref<>() : newRef(seen);
  }
  const Source* source = sources->child(SourceKind::kDictItem, info->source, key);
  PyObject* raw = PyDict_GetItemWithError(dict, key);
  if (raw == nullptr) {
    if (PyErr_Occurred()) return raiseCurrentError();
    // The id of a hook is another one in each module.
    bool any_key = PyLong_CheckExact(key) && PyDict_Size(dict) == 0 && runsModuleCall();
    guards->add(any_key ? Guard{GuardKind::kDictEmpty, info->source}
                        : Guard{GuardKind::kAbsent, source});
    PyDict_SetItem(known.get(), key, values::deletedMarker());
    return Ref<>();
  }
  STATOR_VALUE(value, fromOutside(raw, source));
  PyDict_SetItem(known.get(), key, value.get());
  return value;
}

Out Tracer::getItem(PyObject* container, PyObject* key) {
  static PyObject* method = interned("__getitem__");
  STATOR_VALUE(scalar, plainScalar(container));
  if (scalar) return getItem(scalar.get(), key);
  if (graph::isStandIn(container)) {
    Args args;
    args.values = {container, key};
    args.positional = 2;
    return tensorCall(graph::Op::kCallFunction, operatorFunction("getitem"), args);
  }
  if (symbolic::isSymbol(key)) {
    Ref<> number = concrete(key);
    return getItem(container, number.get());
  }
  if (PySlice_Check(key) && !isNativeSafe(key)) {
    if (Ref<> number = concreteSlice(*this, key)) return getItem(container, number.get());
  }
  if (PyType_Check(container))
    return subscriptClass(*this, reinterpret_cast<PyTypeObject*>(container), key);
  if (isTextLike(container)) {
    if (!isNativeSafe(key))
      return breakWith(Reason::kUnsupportedObject, "an index that is not a plain value");
    return fromNative(stealRef(PyObject_GetItem(container, key)));
  }
  if (isNativeContainer(*this, container, method)) {
    if (PyDict_Check(container)) {
      STATOR_VALUE(found, dictGet(container, key));
      if (found) return found;
      if (PyObject_TypeCheck(container, defaultDictType())) {
        Ref<> factory = stealRef(PyObject_GetAttrString(container, "default_factory"));
        if (factory && factory.get() != Py_None) {
          if (const Source* source = sourceOf(container)) {
            STATOR_VALUE(read, fromOutside(factory, sources->child(SourceKind::kGenericAttr, source,
                                                                   interned("default_factory"))));
          }
          STATOR_VALUE(value, callNested(factory.get(), {}));
          STATOR_FLOW(setItem(container, key, value.get()));
          return value;
        }
      }
      static PyObject* missing = interned("__missing__");
      if (!PyDict_CheckExact(container)) {
        PyObject* hook = _PyType_Lookup(Py_TYPE(container), missing);
        if (hook != nullptr && PyFunction_Check(hook)) {
          STATOR_VALUE(bound, special(container, "__missing__"));
          Args args;
          args.values = {key};
          args.positional = 1;
          keep_alive.push_back(bound);
          return call(bound.get(), args);
        }
      }
      PyErr_SetObject(PyExc_KeyError, key);
      return raiseCurrentError();
    }
    if (PySet_Check(container)) return breakWith(Reason::kRaises, "subscripts a set");
    values::Info* info = values.find(container);
    bool outside = info != nullptr && info->origin == values::Origin::kOutside && !info->constant;
    if (outside && !info->shadow && !info->appended && PyLong_CheckExact(key) &&
        (PyList_Check(container) || PyTuple_Check(container))) {
      Py_ssize_t length = Py_SIZE(container);
      if (!info->length_guarded) {
        info->length_guarded = true;
        guards->add(Guard{GuardKind::kLength, info->source, nullptr, Ref<>(), length});
      }
      Py_ssize_t index = PyLong_AsSsize_t(key);
      if (index < 0) index += length;
      if (index < 0 || index >= length) {
        PyErr_Clear();
        return raiseNew(PyExc_IndexError, PyList_Check(container) ? "list index out of range"
                                                                  : "tuple index out of range");
      }
      bool list = PyList_Check(container);
      return fromOutside(
          list ? PyList_GET_ITEM(container, index) : PyTuple_GET_ITEM(container, index),
          sources->child(list ? SourceKind::kListItem : SourceKind::kTupleItem, info->source,
                         nullptr, index));
    }
    if (!isNativeSafe(key)) {
      if (graph::isStandIn(key)) {
        Ref<> known = knownTensor(key);
        if (!known)
          return breakWith(Reason::kDataDependentRead, "indexes a sequence with a tensor");
        Ref<> number = stealRef(PyNumber_Index(known.get()));
        if (!number) return raiseCurrentError();
        return getItem(container, number.get());
      }
      static PyObject* index_name = interned("__index__");
      if (_PyType_Lookup(Py_TYPE(key), index_name) != nullptr && !PySlice_Check(key)) {
        STATOR_VALUE(bound, special(key, "__index__"));
        STATOR_VALUE(number, callNested(bound.get(), {}));
        return getItem(container, number.get());
      }
      return breakWith(Reason::kUnsupportedObject, "an index that is not a plain value");
    }
    STATOR_VALUE(items, contents(container));
    if (Py_TYPE(items.get()) == sizeType() && PySlice_Check(key) && !isNativeSafe(items.get())) {
      // torch.Size makes one of its own of what is cut out, and takes nothing but ints for that.
      Ref<> list = stealRef(PySequence_List(items.get()));
      Ref<> cut = list ? stealRef(PyObject_GetItem(list.get(), key)) : Ref<>();
      Ref<> args = cut ? stealRef(PyTuple_Pack(1, cut.get())) : Ref<>();
      return fromNative(args ? stealRef(PyTuple_Type.tp_new(sizeType(), args.get(), nullptr))
                             : Ref<>());
    }
    return fromNative(stealRef(PyObject_GetItem(items.get(), key)));
  }
  STATOR_VALUE(bound, special(container, "__getitem__"));
  if (!bound) return breakWith(Reason::kRaises, "subscripts an object that has no __getitem__");
  keep_alive.push_back(bound);
  Args args;
  args.values = {key};
  args.positional = 1;
  return call(bound.get(), args);
}

Flow Tracer::setItem(PyObject* container, PyObject* key, PyObject* value) {
  if (symbolic::isSymbol(key) && !graph::isStandIn(container)) {
    Ref<> number = concrete(key);
    return setItem(container, number.get(), value);
  }
  static PyObject* method = interned("__setitem__");
  if (isProxied(container))
    return raiseNew(PyExc_TypeError, "'mappingproxy' object does not support item assignment");
  if (graph::isStandIn(container)) {
    Args args;
    args.values = {container, key, value};
    args.positional = 3;
    return tensorCall(graph::Op::kCallFunction, operatorFunction("setitem"), args).flow();
  }
  if (isNativeContainer(*this, container, method)) {
    if (PyDict_Check(container)) {
      if (isMade(container) && needsOwnHash(container, key))
        return userKeySet(container, key, value);
      STATOR_FLOW(requireHashable(key));
      if (isAddress(key) && !isMade(container)) {
        STATOR_VALUE(number, pinnedAddress(key));
        return setItem(container, number.get(), value);
      }
      values::Info* info = values.find(container);
      if (info != nullptr && info->origin == values::Origin::kOutside && !info->shadow &&
          isStaticKey(key)) {
        if (info->attributes_of != nullptr && PyUnicode_CheckExact(key))
          return storeInstanceAttr(info->attributes_of, key, value);
        if (info->attributes_of == nullptr) {
          writeOverlay(info, key, value);
          info->dirty = true;
          return Flow::kOk;
        }
      }
      STATOR_VALUE(items, contentsForWrite(container));
      if (!values::dictSet(items.get(), key, value)) return raiseCurrentError();
      return Flow::kOk;
    }
    if (PyTuple_Check(container) || PyAnySet_Check(container))
      return breakWith(Reason::kRaises, "assigns to an item of a tuple or set");
    if (!isNativeSafe(key))
      return breakWith(Reason::kUnsupportedObject, "an index that is not a plain value");
    Ref<> new_items = newRef(value);
    if (PySlice_Check(key)) {
      STATOR_VALUE(list, listOf(value));
      new_items = list;
    }
    STATOR_VALUE(items, contentsForWrite(container));
    if (PyObject_SetItem(items.get(), key, new_items.get()) != 0) return raiseCurrentError();
    return Flow::kOk;
  }
  STATOR_VALUE(bound, special(container, "__setitem__"));
  if (!bound)
    return breakWith(Reason::kRaises, "assigns to an item of an object that has no __setitem__");
  keep_alive.push_back(bound);
  Args args;
  args.values = {key, value};
  args.positional = 2;
  return call(bound.get(), args, Then::kDiscard).flow();
}

Flow Tracer::delItem(PyObject* container, PyObject* key) {
  if (isProxied(container))
    return raiseNew(PyExc_TypeError, "'mappingproxy' object doesn't support item deletion");
  if (symbolic::isSymbol(key) && !graph::isStandIn(container)) {
    Ref<> number = concrete(key);
    return delItem(container, number.get());
  }
  static PyObject* method = interned("__delitem__");
  if (graph::isStandIn(container)) return breakWith(Reason::kRaises, "deletes an item of a tensor");
  if (isNativeContainer(*this, container, method)) {
    if (PyDict_Check(container)) {
      if (isMade(container) && needsOwnHash(container, key)) return userKeyDelete(container, key);
      STATOR_VALUE(found, dictGet(container, key));
      if (!found) {
        PyErr_SetObject(PyExc_KeyError, key);
        return raiseCurrentError();
      }
      values::Info* info = values.find(container);
      if (info != nullptr && info->origin == values::Origin::kOutside && !info->shadow &&
          isStaticKey(key)) {
        if (info->attributes_of != nullptr && PyUnicode_CheckExact(key))
          return storeInstanceAttr(info->attributes_of, key, nullptr);
        if (info->attributes_of == nullptr) {
          bool there = PyDict_Contains(container, key) == 1;
          guards->add(Guard{there ? GuardKind::kPresent : GuardKind::kAbsent,
                            sources->child(SourceKind::kDictItem, info->source, key)});
          eraseOverlay(info, key, there);
          info->dirty = true;
          return Flow::kOk;
        }
      }
      STATOR_VALUE(items, contentsForWrite(container));
      if (!values::dictDelete(items.get(), key)) return raiseCurrentError();
      return Flow::kOk;
    }
    if (!isNativeSafe(key))
      return breakWith(Reason::kUnsupportedObject, "an index that is not a plain value");
    STATOR_VALUE(items, contentsForWrite(container));
    if (PyObject_DelItem(items.get(), key) != 0) return raiseCurrentError();
    return Flow::kOk;
  }
  STATOR_VALUE(bound, special(container, "__delitem__"));
  if (!bound)
    return breakWith(Reason::kRaises, "deletes an item of an object that has no __delitem__");
  keep_alive.push_back(bound);
  Args args;
  args.values = {key};
  args.positional = 1;
  return call(bound.get(), args, Then::kDiscard).flow();
}

Out Tracer::length(PyObject* container) {
  static PyObject* method = interned("__len__");
  STATOR_VALUE(scalar, plainScalar(container));
  if (scalar) return length(scalar.get());
  if (graph::isStandIn(container)) {
    const shapes::TensorMeta* meta = graph::asStandIn(container)->meta;
    if (meta == nullptr) return breakWith(Reason::kRaises, "len() of a number");
    if (meta->sizes.empty()) return raiseNew(PyExc_TypeError, "len() of a 0-d tensor");
    return symInt(meta->sizes[0]);
  }
  if (isTextLike(container)) {
    Py_ssize_t size = PyObject_Size(container);
    if (size < 0) return raiseCurrentError();  // a range longer than any sequence
    return stealRef(PyLong_FromSsize_t(size));
  }
  if (isNativeContainer(*this, container, method)) {
    values::Info* info = values.find(container);
    if (info != nullptr && info->origin == values::Origin::kOutside && !info->constant) {
      if (PyDict_Check(container) && (info->overlay || info->attributes_of != nullptr)) {
        STATOR_VALUE(items, contents(container));
        return stealRef(PyLong_FromSsize_t(PyObject_Size(items.get())));
      }
      if (info->shadow) return stealRef(PyLong_FromSsize_t(PyObject_Size(info->shadow.get())));
      Py_ssize_t appended = info->appended ? PyList_GET_SIZE(info->appended.get()) : 0;
      Py_ssize_t n = PyDict_Check(container)     ? PyDict_Size(container)
                     : PyAnySet_Check(container) ? PySet_GET_SIZE(container)
                                                 : PyObject_Size(container);
      if (!info->length_guarded) {
        info->length_guarded = true;
        guards->add(Guard{GuardKind::kLength, info->source, nullptr, Ref<>(), n});
      }
      return stealRef(PyLong_FromSsize_t(n + appended));
    }
    return fromNative(stealRef(PyLong_FromSsize_t(PyObject_Size(container))));
  }
  PyTypeObject* type = Py_TYPE(container);
  if (isDictView(container)) {
    STATOR_VALUE(dict, viewedDict(container));
    return length(dict.get());
  }
  if (isTraceIterator(container))
    return raiseNew(PyExc_TypeError, "object of type '%s' has no len()",
                    typeOf(container)->tp_name);
  STATOR_VALUE(bound, special(container, "__len__"));
  if (!bound) return raiseNew(PyExc_TypeError, "object of type '%s' has no len()", type->tp_name);
  keep_alive.push_back(bound);
  return call(bound.get(), Args{});
}

Out Tracer::truth(PyObject* value) {
  auto boolean = [](bool b) { return newRef(b ? Py_True : Py_False); };
  if (value == Py_True || value == Py_False) return newRef(value);
  if (value == Py_None) return boolean(false);
  if (symbolic::isSymScalar(value)) {
    symbolic::SymScalar* scalar = symbolic::asSymScalar(value);
    if (!scalar->backed) return breakWith(Reason::kDataDependentBranch);
    Ref<> zero = stealRef(PyFloat_FromDouble(0));
    if (Ref<> result = scalarCompare(Py_NE, value, zero.get())) return result;
    return truth(concrete(value).get());
  }
  if (symbolic::isSymInt(value)) return boolean(symbolic::dimOf(value) != Dim(0));
  if (graph::isStandIn(value)) {
    if (Ref<> known = knownTensor(value)) return boolean(PyObject_IsTrue(known.get()) == 1);
    return breakWith(Reason::kDataDependentBranch);
  }
  if (values::isScalar(value) || values::isConstantDeep(value)) {
    int result = PyObject_IsTrue(value);
    if (result < 0) return raiseCurrentError();
    return boolean(result != 0);
  }
  if (PyType_Check(value) || PyFunction_Check(value) || PyModule_Check(value) ||
      PyCFunction_Check(value) || isTraceIterator(value) || PyMethod_Check(value)) {
    return boolean(true);
  }
  PyTypeObject* type = Py_TYPE(value);
  static PyObject* dunder_bool = interned("__bool__");
  static PyObject* dunder_len = interned("__len__");
  STATOR_VALUE(scalar, plainScalar(value));
  if (scalar) return truth(scalar.get());
  STATOR_VALUE(has_bool, typeLookup(type, dunder_bool));
  if (has_bool) {
    if (!PyFunction_Check(has_bool.get())) {
      if (isNativeSafe(value)) return boolean(PyObject_IsTrue(value) == 1);
      return breakWith(Reason::kUnsupportedObject, std::string("the truth of a ") + type->tp_name);
    }
    STATOR_VALUE(bound, special(value, "__bool__"));
    STATOR_VALUE(result, callNested(bound.get(), {}));
    if (!PyBool_Check(result.get()))
      return breakWith(Reason::kRaises, "__bool__ returned something else than a bool");
    return result;
  }
  STATOR_VALUE(has_len, typeLookup(type, dunder_len));
  if (has_len) {
    if (PyFunction_Check(has_len.get())) {
      STATOR_VALUE(bound, special(value, "__len__"));
      STATOR_VALUE(n, callNested(bound.get(), {}));
      if (!PyLong_Check(n.get())) return breakWith(Reason::kDataDependentBranch);
      return boolean(PyObject_IsTrue(n.get()) == 1);
    }
    STATOR_VALUE(n, length(value));
    return boolean(PyObject_IsTrue(n.get()) == 1);
  }
  return boolean(true);
}

Out Tracer::same(PyObject* left, PyObject* right) {
  if (left == right) return newRef(Py_True);
  if (symbolic::isSymbol(left) || symbolic::isSymbol(right)) {
    // Which ints are one object depends on their values.
    Ref<> a = symbolic::isSymbol(left) ? concrete(left) : newRef(left),
          b = symbolic::isSymbol(right) ? concrete(right) : newRef(right);
    return same(a.get(), b.get());
  }
  values::Info* a = values.find(left);
  values::Info* b = values.find(right);
  auto outside = [](values::Info* info) {
    return info != nullptr && info->origin == values::Origin::kOutside && info->source != nullptr;
  };
  auto tensorSource = [](PyObject* value) -> const Source* {
    return graph::isStandIn(value) && !isCast(value) ? graph::asStandIn(value)->node->source
                                                     : nullptr;
  };
  const Source* first = outside(a) ? a->source : tensorSource(left);
  const Source* second = outside(b) ? b->source : tensorSource(right);
  if (first != nullptr && second != nullptr && !PyType_Check(left) && !PyType_Check(right)) {
    guards->add(Guard{GuardKind::kNotSameAs, first, second});
  }
  return newRef(Py_False);
}

Out Tracer::contains(PyObject* container, PyObject* item) {
  if (symbolic::isSymbol(item) && !PyList_Check(container) && !PyTuple_Check(container)) {
    Ref<> number = concrete(item);
    return contains(container, number.get());
  }
  static PyObject* method = interned("__contains__");
  auto boolean = [](bool b) { return newRef(b ? Py_True : Py_False); };
  STATOR_VALUE(scalar, plainScalar(container));
  if (scalar) return contains(scalar.get(), item);
  if (graph::isStandIn(container))
    return breakWith(Reason::kDataDependentBranch, "`in` over the elements of a tensor");
  if (isTextLike(container)) {
    if (!isNativeSafe(item))
      return breakWith(Reason::kUnsupportedObject, "`in` with a value that is not plain");
    int found = PySequence_Contains(container, item);
    if (found < 0) return raiseCurrentError();
    return boolean(found != 0);
  }
  if (PyDictKeys_Check(container)) {
    STATOR_VALUE(dict, viewedDict(container));
    return contains(dict.get(), item);
  }
  if (isNativeContainer(*this, container, method)) {
    if (PyDict_Check(container)) {
      STATOR_VALUE(found, dictGet(container, item));
      return boolean(static_cast<bool>(found));
    }
    STATOR_VALUE(items, contents(container));
    if (PyAnySet_Check(container)) {
      STATOR_FLOW(requireHashable(item));
      int found = PySequence_Contains(items.get(), item);
      if (found < 0) return raiseCurrentError();
      return boolean(found != 0);
    }
    if (isNativeSafe(items.get()) && isNativeSafe(item)) {
      int found = PySequence_Contains(items.get(), item);
      if (found < 0) return raiseCurrentError();
      return boolean(found != 0);
    }
    Ref<> list = stealRef(PySequence_List(items.get()));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
      PyObject* element = PyList_GET_ITEM(list.get(), i);
      STATOR_VALUE(identical, same(element, item));
      if (identical.get() == Py_True) return identical;
      STATOR_VALUE(compared, settle(compare(Py_EQ, element, item)));
      STATOR_VALUE(equal, truth(compared.get()));
      if (equal.get() == Py_True) return equal;
    }
    return boolean(false);
  }
  STATOR_VALUE(bound, special(container, "__contains__"));
  if (bound) {
    STATOR_VALUE(result, callNested(bound.get(), {item}));
    return truth(result.get());
  }
  STATOR_VALUE(iterator, iterate(container));
  for (;;) {
    STATOR_VALUE(element, next(iterator.get()));
    if (!element) return boolean(false);
    STATOR_VALUE(identical, same(element.get(), item));
    if (identical.get() == Py_True) return identical;
    STATOR_VALUE(compared, settle(compare(Py_EQ, element.get(), item)));
    STATOR_VALUE(equal, truth(compared.get()));
    if (equal.get() == Py_True) return equal;
  }
}

namespace {

// By the C layout, whatever a subclass puts over __len__ and __getitem__.
Py_ssize_t lengthOf(PyObject* sequence) {
  return PyList_Check(sequence)    ? PyList_GET_SIZE(sequence)
         : PyTuple_Check(sequence) ? PyTuple_GET_SIZE(sequence)
                                   : PyObject_Size(sequence);
}
Ref<> itemAt(PyObject* sequence, Py_ssize_t index) {
  if (PyList_Check(sequence)) return newRef(PyList_GET_ITEM(sequence, index));
  if (PyTuple_Check(sequence)) return newRef(PyTuple_GET_ITEM(sequence, index));
  return stealRef(PySequence_GetItem(sequence, index));
}

// How many entries a dict has handed out so far, deleted ones included: a key that comes back after it was deleted gets a new one.
Ref<> entriesHandedOut(PyObject* container) {
  if (!PyDict_Check(container)) return Ref<>();
  StatorView view;
  stator_view_dict(&view, container);
  return stealRef(PyLong_FromSsize_t(view.keys != nullptr ? view.keys->used : 0));
}

// Of a dict or set that has as many entries as when the iteration began: CPython goes by the places of its table, the trace does not.
bool keysChanged(PyObject* container, const std::vector<Ref<>>& parts, int64_t index) {
  if (PyAnySet_Check(container)) {
    return index < PyTuple_GET_SIZE(parts[0].get()) &&
           PySet_Contains(container, PyTuple_GET_ITEM(parts[0].get(), index)) == 0;
  }
  if (parts.size() < 4 || !parts[3]) return false;
  Ref<> now = entriesHandedOut(container);
  return PyObject_RichCompareBool(now.get(), parts[3].get(), Py_EQ) != 1;
}

}  // namespace

Out Tracer::iterate(PyObject* iterable) {
  static PyObject* method = interned("__iter__");
  if (isTraceIterator(iterable)) return newRef(iterable);
  if (graph::isStandIn(iterable)) {
    if (torch_function.relevant) {
      Args args;
      args.values = {iterable};
      args.positional = 1;
      bool handled = false;
      Out out = dispatchTorchFunction(graph::Op::kCallMethod, method, args, handled);
      if (handled) return out;
    }
    const shapes::TensorMeta* meta = graph::asStandIn(iterable)->meta;
    if (meta == nullptr || meta->sizes.empty())
      return breakWith(Reason::kRaises, "iterates over a 0-d tensor");
    return made(makeTraceIterator(IteratorKind::kSequence, {newRef(iterable)}));
  }
  PyTypeObject* type = Py_TYPE(iterable);
  STATOR_VALUE(scalar, plainScalar(iterable));
  if (scalar) return iterate(scalar.get());
  if (isTextLike(iterable)) {
    if (PyObject_Size(iterable) < 0) {
      PyErr_Clear();
      return breakWith(Reason::kUnsupportedIterator, "a range longer than any sequence");
    }
    return made(makeTraceIterator(IteratorKind::kSequence, {newRef(iterable)}));
  }
  if (isNativeContainer(*this, iterable, method)) {
    if (PyList_Check(iterable) || PyTuple_Check(iterable)) {
      STATOR_VALUE(items, contents(iterable));
      return made(makeTraceIterator(IteratorKind::kSequence, {newRef(iterable)}));
    }
    STATOR_VALUE(items,
                 user_keyed.count(iterable) != 0 ? Out(newRef(iterable)) : contents(iterable));
    Ref<> snapshot = stealRef(PySequence_Tuple(items.get()));
    return made(makeTraceIterator(IteratorKind::kSnapshot, {snapshot, newRef(iterable), Ref<>(),
                                                            entriesHandedOut(items.get())}));
  }
  if (isDictView(iterable)) {
    STATOR_VALUE(view, viewContents(iterable));
    Ref<> snapshot = stealRef(PySequence_Tuple(view.get()));
    STATOR_VALUE(dict, viewedDict(iterable));
    STATOR_VALUE(items, contents(dict.get()));
    Ref<> keys = PyDictKeys_Check(iterable) ? Ref<>() : stealRef(PySequence_Tuple(items.get()));
    return made(makeTraceIterator(IteratorKind::kSnapshot, {snapshot, newRef(iterable), keys,
                                                            entriesHandedOut(items.get())}));
  }
  if (PyType_Check(iterable)) {
    // Iterating over an Enum class yields its members.
    if (PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(iterable), enumType())) {
      Ref<> snapshot = stealRef(PySequence_Tuple(iterable));
      if (!snapshot) return raiseCurrentError();
      return made(makeTraceIterator(IteratorKind::kSnapshot, {snapshot, newRef(iterable)}));
    }
  }
  STATOR_VALUE(bound, special(iterable, "__iter__"));
  if (!bound) {
    static PyObject* getitem = interned("__getitem__");
    STATOR_VALUE(by_index, typeLookup(type, getitem));
    if (by_index) {
      if (!PyFunction_Check(by_index.get()))
        return breakWith(Reason::kUnsupportedIterator, "iterates by __getitem__");
      return callNested(torchObject("stator.polyfills.iteration.by_index"), {iterable});
    }
    return raiseNew(PyExc_TypeError, "'%.200s' object is not iterable", type->tp_name);
  }
  if (PyMethod_Check(bound.get()) && PyFunction_Check(PyMethod_GET_FUNCTION(bound.get())))
    return callNested(bound.get(), {});
  if (type->tp_iter == PyObject_SelfIter) return newRef(iterable);
  return breakWith(Reason::kUnsupportedIterator, std::string("iterates over a ") + type->tp_name);
}

// Items that an iterator from outside has not given yet: they are known by how far ahead they lie, wherever it stands.
Out Tracer::nextFromOutside(PyObject* iterator) {
  values::Info* info = values.find(iterator);
  if (info == nullptr || info->source == nullptr)
    return breakWith(Reason::kUnsupportedIterator, Py_TYPE(iterator)->tp_name);
  if (PyObject* list = stator_iterator_list(iterator)) {
    // The trace's own changes to the list are not in it yet.
    values::Info* changed = values.find(list);
    if (changed != nullptr && changed->dirty)
      return breakWith(Reason::kUnsupportedIterator, "an iterator over a list that was changed");
  }
  nested_ran = true;
  noteWrite(iterator);
  const Source* ahead = sources->child(SourceKind::kAhead, info->source, nullptr, info->taken);
  Ref<> raw = stealRef(stator_iterator_ahead(iterator, info->taken));
  if (!raw) {
    guards->add(Guard{GuardKind::kAbsent, ahead});
  } else {
    STATOR_VALUE(item, fromOutside(raw, ahead));
    keep_alive.push_back(raw);
    raw = item;
    info = values.find(iterator);
  }
  info->taken++;
  info->dirty = true;
  return raw;
}

Out Tracer::next(PyObject* object) {
  if (!isTraceIterator(object)) {
    PyTypeObject* type = Py_TYPE(object);
    PyObject* method = _PyType_Lookup(type, names().dunder_next);
    if (method == nullptr)
      return raiseNew(PyExc_TypeError, "'%.200s' object is not an iterator", type->tp_name);
    if (stator_iterator_known(object)) return nextFromOutside(object);
    if (!PyFunction_Check(method)) return breakWith(Reason::kUnsupportedIterator, type->tp_name);
    STATOR_VALUE(bound, special(object, "__next__"));
    Out result = callNested(bound.get(), {});
    if (result.flow() == Flow::kRaise &&
        PyErr_GivenExceptionMatches(raised.get(), PyExc_StopIteration)) {
      raised.reset();
      return Ref<>();
    }
    return result;
  }
  TraceIterator* iterator = asTraceIterator(object);
  if (iterator->exhausted) {
    // what it returned was told once
    if (iterator->kind == IteratorKind::kGenerator) iterator->sources->clear();
    return Ref<>();
  }
  nested_ran = true;
  auto& parts = *iterator->sources;
  auto finish = [&]() -> Out {
    iterator->exhausted = true;
    return Ref<>();
  };
  switch (iterator->kind) {
    case IteratorKind::kSequence: {
      PyObject* sequence = parts[0].get();
      if (graph::isStandIn(sequence)) {
        if (iterator->index >= graph::asStandIn(sequence)->meta->sizes[0].value()) return finish();
        Ref<> index = stealRef(PyLong_FromLongLong(iterator->index));
        STATOR_VALUE(item, getItem(sequence, index.get()));
        iterator->index++;
        return item;
      }
      STATOR_VALUE(items, contents(sequence));
      if (iterator->index >= lengthOf(items.get())) return finish();
      return fromNative(itemAt(items.get(), iterator->index++));
    }
    case IteratorKind::kReversed: {
      STATOR_VALUE(items, contents(parts[0].get()));
      if (iterator->index < 0 || iterator->index >= lengthOf(items.get())) return finish();
      return fromNative(itemAt(items.get(), iterator->index--));
    }
    case IteratorKind::kSnapshot: {
      Py_ssize_t size = PyTuple_GET_SIZE(parts[0].get());
      PyObject* owner = parts[1].get();
      if (PyDict_Check(owner) || PyAnySet_Check(owner)) {
        STATOR_VALUE(items, user_keyed.count(owner) != 0 ? Out(newRef(owner)) : contents(owner));
        if (PyObject_Size(items.get()) != size) {
          return raiseNew(PyExc_RuntimeError, PyDict_Check(owner)
                                                  ? "dictionary changed size during iteration"
                                                  : "Set changed size during iteration");
        }
        if (keysChanged(items.get(), parts, iterator->index)) {
          // The real interpreter is to do the whole loop: a dict that is rebuilt half way would not know.
          restart_at = values.find(object)->born;
          restart_reason = Reason::kUnsupportedIterator;
          return breakWith(Reason::kUnsupportedIterator,
                           "keys change while they are iterated over");
        }
      } else if (isDictView(owner)) {
        STATOR_VALUE(n, length(owner));
        if (PyLong_AsSsize_t(n.get()) != size)
          return raiseNew(PyExc_RuntimeError, "dictionary changed size during iteration");
        STATOR_VALUE(dict, viewedDict(owner));
        STATOR_VALUE(items, contents(dict.get()));
        if (keysChanged(items.get(), parts, iterator->index)) {
          // The real interpreter is to do the whole loop: a dict that is rebuilt half way would not know.
          restart_at = values.find(object)->born;
          restart_reason = Reason::kUnsupportedIterator;
          return breakWith(Reason::kUnsupportedIterator,
                           "keys change while they are iterated over");
        }
      }
      if (iterator->index >= size) return finish();
      if (parts.size() > 2 && parts[2]) {
        // The value that the key has now.
        STATOR_VALUE(dict, viewedDict(owner));
        STATOR_VALUE(items, contents(dict.get()));
        PyObject* key = PyTuple_GET_ITEM(parts[2].get(), iterator->index);
        PyObject* value = PyDict_GetItemWithError(items.get(), key);
        if (value == nullptr && PyErr_Occurred()) return raiseCurrentError();
        if (value == nullptr)
          return breakWith(Reason::kUnsupportedIterator,
                           "a dict whose keys change while it is iterated over");
        iterator->index++;
        return PyDictValues_Check(owner) ? newRef(value) : stealRef(PyTuple_Pack(2, key, value));
      }
      return newRef(PyTuple_GET_ITEM(parts[0].get(), iterator->index++));
    }
    case IteratorKind::kZip: {
      if (parts.empty()) return finish();
      Ref<> tuple = stealRef(PyTuple_New(static_cast<Py_ssize_t>(parts.size())));
      for (size_t i = 0; i < parts.size(); ++i) {
        STATOR_VALUE(item, next(parts[i].get()));
        if (!item) {
          if (iterator->flag) {
            if (i > 0) {
              return raiseNew(PyExc_ValueError, "zip() argument %zu is shorter than argument%s%zu",
                              i + 1, i == 1 ? " " : "s 1-", i);
            }
            for (size_t j = 1; j < parts.size(); ++j) {
              STATOR_VALUE(extra, next(parts[j].get()));
              if (extra) {
                return raiseNew(PyExc_ValueError, "zip() argument %zu is longer than argument%s%zu",
                                j + 1, j == 1 ? " " : "s 1-", j);
              }
            }
          }
          return finish();
        }
        PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item.release());
      }
      return tuple;
    }
    case IteratorKind::kEnumerate: {
      STATOR_VALUE(item, next(parts[0].get()));
      if (!item) return finish();
      Ref<> number = stealRef(PyLong_FromLongLong(iterator->index++));
      return stealRef(PyTuple_Pack(2, number.get(), item.get()));
    }
    case IteratorKind::kMap: {
      std::vector<Ref<>> items;
      Args args;
      for (size_t i = 1; i < parts.size(); ++i) {
        STATOR_VALUE(item, next(parts[i].get()));
        if (!item) return finish();
        args.values.push_back(item.get());
        items.push_back(std::move(item));
      }
      args.positional = args.values.size();
      return callNested(parts[0].get(), args);
    }
    case IteratorKind::kFilter:
      for (;;) {
        STATOR_VALUE(item, next(parts[1].get()));
        if (!item) return finish();
        Ref<> verdict = item;
        if (parts[0].get() != Py_None &&
            parts[0].get() != reinterpret_cast<PyObject*>(&PyBool_Type)) {
          STATOR_VALUE(result, callNested(parts[0].get(), {item.get()}));
          verdict = result;
        }
        STATOR_VALUE(keep, truth(verdict.get()));
        if (keep.get() == Py_True) return item;
      }
    case IteratorKind::kCallable: {
      STATOR_VALUE(item, callNested(parts[0].get(), {}));
      if (!isNativeSafe(item.get()) || !isNativeSafe(parts[1].get()))
        return breakWith(Reason::kUnsupportedIterator, "iter() with a sentinel");
      int equal = PyObject_RichCompareBool(item.get(), parts[1].get(), Py_EQ);
      if (equal < 0) return raiseCurrentError();
      if (equal == 1) return finish();
      return item;
    }
    case IteratorKind::kGenerator:
      return runGenerator(object, newRef(Py_None));
    default:
      return nextOfItertools(object);
  }
}

Out Tracer::listOf(PyObject* iterable) {
  Ref<> list = stealRef(PyList_New(0));
  if (!isTraceIterator(iterable) && !graph::isStandIn(iterable) &&
      (PyList_CheckExact(iterable) || PyTuple_CheckExact(iterable))) {
    STATOR_VALUE(items, contents(iterable));
    return stealRef(PySequence_List(items.get()));
  }
  STATOR_VALUE(iterator, iterate(iterable));
  for (;;) {
    STATOR_VALUE(item, next(iterator.get()));
    if (!item) return list;
    PyList_Append(list.get(), item.get());
    if (PyList_GET_SIZE(list.get()) > 1'000'000)
      return breakWith(Reason::kTraceLimit, "a very long iteration");
  }
}

}  // namespace stator::interpret
