// Containers: subscripts, length, truth, membership.
#include "interpret/objects/items.h"

#include "base/check.h"
#include "base/stack_room.h"
#include "interpret/core/apparent_types.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/sym_scalars.h"
#include "interpret/core/symbols.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/attribute_writes.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/keys.h"
#include "interpret/objects/known_scalars.h"
#include "interpret/objects/operators.h"
#include "interpret/objects/scalars.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/updates.h"
#include "python/objects.h"
#include "python/types.h"
#include "symbolic/sym_int.h"
#include "values/dicts.h"

#include <cstring>

namespace stator::interpret {

using symbolic::Dim;

namespace {

// The type's entry for a special method is the C slot of `base` itself, not something that a subclass put over it.
bool usesNativeSlot(PyTypeObject* type, PyTypeObject* base, PyObject* name) {
  return type == base || _PyType_Lookup(type, name) == _PyType_Lookup(base, name);
}

// A slice with numbers in place of symbolic ints; null: it has none.
Ref<> concreteSlice(Tracer& tracer, PyObject* key) {
  auto* slice = reinterpret_cast<PySliceObject*>(key);
  bool any = false;
  auto part = [&](PyObject* value) {
    if (!symbolic::isSymbol(value)) return newRef(value);
    any = true;
    return concrete(tracer, value);
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
  static PyObject* getitem = PyUnicode_InternFromString("__getitem__");
  static PyObject* class_getitem = PyUnicode_InternFromString("__class_getitem__");
  PyObject* object = reinterpret_cast<PyObject*>(type);
  STATOR_VALUE(on_meta, typeLookup(tracer, Py_TYPE(object), getitem));
  if (on_meta && PyFunction_Check(on_meta.get()) && !PyType_IsSubtype(type, enumType())) {
    STATOR_VALUE(function, classAttrValue(tracer, Py_TYPE(object), getitem, on_meta.get()));
    Args args;
    args.values = {object, key};
    args.positional = 2;
    return tracer.above.call(function.get(), args);
  }
  STATOR_VALUE(own, typeLookup(tracer, type, class_getitem));
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
      STATOR_VALUE(bound, tracer.above.settle(getAttr(tracer, object, class_getitem)));
      tracer.world.keep(bound);
      Args args;
      args.values = {key};
      args.positional = 1;
      return tracer.above.call(bound.get(), args);
    }
  }
  if (!isNativeSafe(tracer, key))
    return tracer.breakWith(Reason::kUnsupportedObject, "subscripts a class");
  Ref<> result = stealRef(PyObject_GetItem(object, key));
  if (!result) return tracer.raiseCurrentError();
  // Descriptions of types are as good as constants.
  if (!PyType_Check(result.get()) && !values::isScalar(result.get()) &&
      !isEnumMember(result.get()) && tracer.values.find(result) == nullptr) {
    tracer.values.addOutside(result, tracer.world.sources().pinned(result));
  }
  return result;
}

}  // namespace

namespace {

// A C method of that name, of the class or a subclass: not `__getitem__ = dict.get`, nor one of object's.
bool isMethodOf(PyTypeObject* base, PyObject* found, PyObject* name) {
  if (found == nullptr ||
      (Py_TYPE(found) != &PyWrapperDescr_Type && Py_TYPE(found) != &PyMethodDescr_Type))
    return false;
  auto* descriptor = reinterpret_cast<PyDescrObject*>(found);
  return PyType_IsSubtype(descriptor->d_type, base) &&
         PyUnicode_Compare(descriptor->d_name, name) == 0;
}

}  // namespace

bool isNativeContainer(Tracer& tracer, PyObject* object, PyObject* method) {
  PyTypeObject* type = Py_TYPE(object);
  for (PyTypeObject* base :
       {&PyList_Type, &PyTuple_Type, &PyDict_Type, &PySet_Type, &PyFrozenSet_Type, dequeType()}) {
    if (PyType_IsSubtype(type, base)) {
      if (type != base && stator_is_user_class(type)) (void)typeLookup(tracer, type, method);
      // C subclasses (OrderedDict, defaultdict) have slots of their own that keep the same meaning.
      PyObject* found = _PyType_Lookup(type, method);
      return usesNativeSlot(type, base, method) || isMethodOf(base, found, method);
    }
  }
  return false;
}

bool isTextLike(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyRange_Type ||
         type == &PyByteArray_Type;
}

namespace {

PyObject* hasBytes(PyObject* expected, PyObject* array) {
  return PyBool_FromLong(PyByteArray_CheckExact(array) &&
                         PyByteArray_GET_SIZE(array) == PyBytes_GET_SIZE(expected) &&
                         std::memcmp(PyByteArray_AS_STRING(array), PyBytes_AS_STRING(expected),
                                     static_cast<size_t>(PyBytes_GET_SIZE(expected))) == 0);
}

}  // namespace

void guardBytes(Tracer& tracer, PyObject* object) {
  static PyMethodDef method = {"has_bytes", hasBytes, METH_O, nullptr};
  if (Py_TYPE(object) != &PyByteArray_Type) return;
  values::Info* info = tracer.values.find(object);
  if (info == nullptr || info->origin != values::Origin::kOutside || info->length_guarded) return;
  info->length_guarded = true;
  Ref<> expected = stealRef(PyBytes_FromObject(object));
  Ref<> check = expected ? stealRef(PyCFunction_New(&method, expected.get())) : Ref<>();
  if (!check) throw PythonError();
  tracer.world.guard(Guard{GuardKind::kIs,
                           tracer.world.child(SourceKind::kAsked, info->source, check), nullptr,
                           newRef(Py_True)});
}

// The class may get a __hash__ or __eq__ later.
void guardDefaultHash(Tracer& tracer, PyTypeObject* type) {
  static PyObject* const methods[] = {PyUnicode_InternFromString("__hash__"),
                                      PyUnicode_InternFromString("__eq__")};
  for (PyObject* name : methods) (void)typeLookup(tracer, type, name);
}

bool hashableNatively(Tracer& tracer, PyObject* key) {
  if (values::isScalar(key) || isStaticKey(key) || isAddress(key)) return true;
  needStack();
  if (graph::isStandIn(key)) {
    noteIdentity(tracer, key);
    return true;
  }
  if (PyTuple_CheckExact(key)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
      if (!hashableNatively(tracer, PyTuple_GET_ITEM(key, i))) return false;
    }
    return true;
  }
  if (Py_TYPE(key) == &PyFrozenSet_Type) {
    // The trace looked at its items when it made it.
    if (!tracer.isMade(key) || !tracer.own_keys.any()) return tracer.isMade(key);
    PyObject* item = nullptr;
    Py_hash_t hash = 0;
    Py_ssize_t position = 0;
    while (_PySet_NextEntry(key, &position, &item, &hash)) {
      if (!hashableNatively(tracer, item)) return false;
    }
    return true;
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

Flow requireHashable(Tracer& tracer, PyObject* key) {
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

Out dictGet(Tracer& tracer, PyObject* dict, PyObject* key) {
  if (symbolic::isSymbol(key)) {
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
    return keyed(tracer, nullptr,
                 [&](PyObject*) { return Py_XNewRef(PyDict_GetItemWithError(target, key)); });
  }
  if (info->attributes_of != nullptr && PyUnicode_CheckExact(key))
    return instanceAttr(tracer, info->attributes_of, key);
  if (!isStaticKey(key)) {
    STATOR_VALUE(shadow, contents(tracer, dict));
    return dictGet(tracer, dict, key);
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

namespace {

// What an object with an __index__ of its own stands for, in a slice too; ok with null: it has none.
Out plainIndex(Tracer& tracer, PyObject* key) {
  if (PySlice_Check(key)) {
    auto* slice = reinterpret_cast<PySliceObject*>(key);
    Ref<> parts[3];
    bool any = false;
    PyObject* const given[3] = {slice->start, slice->stop, slice->step};
    for (int i = 0; i < 3; ++i) {
      STATOR_VALUE(number, plainIndex(tracer, given[i]));
      any |= static_cast<bool>(number);
      parts[i] = number ? std::move(number) : newRef(given[i]);
    }
    return any ? stealRef(PySlice_New(parts[0].get(), parts[1].get(), parts[2].get())) : Ref<>();
  }
  if (graph::isStandIn(key) || values::isScalar(key) || symbolic::isSymbol(key) ||
      PyLong_Check(key) || !isUserOverride(tracer, key, "__index__"))
    return Ref<>();
  STATOR_VALUE(bound, special(tracer, key, "__index__"));
  STATOR_VALUE(number, tracer.above.callNested(bound.get(), {}));
  if (symbolic::isSymInt(number.get()) || PyLong_CheckExact(number.get())) return number;
  if (graph::isStandIn(number.get()) || PyLong_Check(number.get()))
    return tracer.breakWith(Reason::kUnsupportedObject, "an index that is not a plain value");
  return tracer.raiseNew(PyExc_TypeError, "__index__ returned non-int (type %.200s)",
                         Py_TYPE(number.get())->tp_name);
}

}  // namespace

Out getItem(Tracer& tracer, PyObject* container, PyObject* key) {
  static PyObject* method = PyUnicode_InternFromString("__getitem__");
  STATOR_VALUE(scalar, plainScalar(tracer, container));
  if (scalar && isTextLike(scalar.get())) return getItem(tracer, scalar.get(), key);
  if (graph::isStandIn(container)) {
    Ref<> plain_key = newRef(key);
    if (!graph::isStandIn(key) && !PyTuple_Check(key) && !values::isScalar(key)) {
      STATOR_VALUE(number, plainIndex(tracer, key));
      if (number) plain_key = std::move(number);
    }
    Args args;
    args.values = {container, plain_key.get()};
    args.positional = 2;
    return tracer.above.tensorCall(graph::Op::kCallFunction, operatorFunction("getitem"), args);
  }
  if (symbolic::isSymbol(key)) {
    Ref<> number = concrete(tracer, key);
    return getItem(tracer, container, number.get());
  }
  if (PySlice_Check(key) && !isNativeSafe(tracer, key)) {
    if (Ref<> number = concreteSlice(tracer, key)) return getItem(tracer, container, number.get());
  }
  if (PyType_Check(container))
    return subscriptClass(tracer, reinterpret_cast<PyTypeObject*>(container), key);
  if (isTextLike(container)) {
    guardBytes(tracer, container);
    if (!isNativeSafe(tracer, key)) {
      STATOR_VALUE(number, plainIndex(tracer, key));
      if (number) return getItem(tracer, container, number.get());
      return tracer.breakWith(Reason::kUnsupportedObject, "an index that is not a plain value");
    }
    return tracer.fromNative(stealRef(PyObject_GetItem(container, key)));
  }
  if (isNativeContainer(tracer, container, method)) {
    if (PyDict_Check(container)) {
      STATOR_VALUE(found, dictGet(tracer, container, key));
      if (found) return found;
      return missingItem(tracer, container, key);
    }
    if (PySet_Check(container)) return tracer.breakWith(Reason::kRaises, "subscripts a set");
    values::Info* info = tracer.values.find(container);
    bool outside = info != nullptr && info->origin == values::Origin::kOutside && !info->constant;
    if (outside && !info->shadow && !info->appended && PyLong_CheckExact(key) &&
        (PyList_Check(container) || PyTuple_Check(container))) {
      Py_ssize_t length = Py_SIZE(container);
      if (!info->length_guarded) {
        info->length_guarded = true;
        tracer.world.guard(Guard{GuardKind::kLength, info->source, nullptr, Ref<>(), length});
      }
      int overflow = 0;
      Py_ssize_t index = PyLong_AsLongLongAndOverflow(key, &overflow);
      if (overflow != 0) return tracer.breakWith(Reason::kRaises, "a very large index");
      if (index < 0) index += length;
      if (index < 0 || index >= length) {
        return tracer.raiseNew(PyExc_IndexError, PyList_Check(container)
                                                     ? "list index out of range"
                                                     : "tuple index out of range");
      }
      bool list = PyList_Check(container);
      return fromOutside(
          tracer, list ? PyList_GET_ITEM(container, index) : PyTuple_GET_ITEM(container, index),
          tracer.world.child(list ? SourceKind::kListItem : SourceKind::kTupleItem, info->source,
                             nullptr, index));
    }
    if (!isNativeSafe(tracer, key)) {
      if (graph::isStandIn(key)) {
        Ref<> known = knownTensor(tracer, key);
        if (!known)
          return tracer.breakWith(Reason::kDataDependentRead, "indexes a sequence with a tensor");
        Ref<> number = stealRef(PyNumber_Index(known.get()));
        if (!number) return tracer.raiseCurrentError();
        return getItem(tracer, container, number.get());
      }
      STATOR_VALUE(number, plainIndex(tracer, key));
      if (number) return getItem(tracer, container, number.get());
      return tracer.breakWith(Reason::kUnsupportedObject, "an index that is not a plain value");
    }
    STATOR_VALUE(items, contents(tracer, container));
    if (Py_TYPE(items.get()) == sizeType() && PySlice_Check(key) &&
        !isNativeSafe(tracer, items.get())) {
      // torch.Size makes one of its own of what is cut out, and takes nothing but ints for that.
      Ref<> list = stealRef(PySequence_List(items.get()));
      Ref<> cut = list ? stealRef(PyObject_GetItem(list.get(), key)) : Ref<>();
      Ref<> args = cut ? stealRef(PyTuple_Pack(1, cut.get())) : Ref<>();
      return tracer.fromNative(args ? stealRef(PyTuple_Type.tp_new(sizeType(), args.get(), nullptr))
                                    : Ref<>());
    }
    return tracer.fromNative(stealRef(PyObject_GetItem(items.get(), key)));
  }
  STATOR_VALUE(bound, special(tracer, container, "__getitem__"));
  if (!bound)
    return tracer.breakWith(Reason::kRaises, "subscripts an object that has no __getitem__");
  tracer.world.keep(bound);
  Args args;
  args.values = {key};
  args.positional = 1;
  return tracer.above.call(bound.get(), args);
}

Flow setItem(Tracer& tracer, PyObject* container, PyObject* key, PyObject* value) {
  if (symbolic::isSymbol(key) && !graph::isStandIn(container)) {
    Ref<> number = concrete(tracer, key);
    return setItem(tracer, container, number.get(), value);
  }
  static PyObject* method = PyUnicode_InternFromString("__setitem__");
  if (isProxied(tracer, container))
    return tracer.raiseNew(PyExc_TypeError,
                           "'mappingproxy' object does not support item assignment");
  if (graph::isStandIn(container)) {
    Args args;
    args.values = {container, key, value};
    args.positional = 3;
    return tracer.above.tensorCall(graph::Op::kCallFunction, operatorFunction("setitem"), args)
        .flow();
  }
  if (isNativeContainer(tracer, container, method)) {
    if (PyDict_Check(container)) {
      STATOR_FLOW(requireHashable(tracer, key));
      if (isAddress(key) && !tracer.isMade(container)) {
        STATOR_VALUE(number, pinnedAddress(tracer, key));
        return setItem(tracer, container, number.get(), value);
      }
      STATOR_FLOW(linkOwner(tracer, container));
      values::Info* info = tracer.values.find(container);
      // Attributes are looked up natively, which would ask such a key.
      if (info != nullptr && info->attributes_of != nullptr && hasOwnKeys(tracer, key))
        return tracer.breakWith(Reason::kUnsupportedMutation,
                                "a key with its own __hash__ or __eq__ in an object's __dict__");
      if (info != nullptr && info->origin == values::Origin::kOutside && !info->shadow &&
          isStaticKey(key)) {
        if (info->attributes_of != nullptr && PyUnicode_CheckExact(key))
          return storeInstanceAttr(tracer, info->attributes_of, key, value);
        if (info->attributes_of == nullptr) {
          writeOverlay(tracer, info, key, value);
          info->dirty = true;
          return Flow::kOk;
        }
      }
      STATOR_VALUE(items, contentsForWrite(tracer, container));
      return keyed(tracer, items.get(),
                   [&](PyObject* dict) {
                     return values::dictSet(dict, key, value) ? Py_NewRef(Py_None) : nullptr;
                   })
          .flow();
    }
    if (PyTuple_Check(container) || PyAnySet_Check(container))
      return tracer.breakWith(Reason::kRaises, "assigns to an item of a tuple or set");
    if (!isNativeSafe(tracer, key)) {
      STATOR_VALUE(number, plainIndex(tracer, key));
      if (number) return setItem(tracer, container, number.get(), value);
      return tracer.breakWith(Reason::kUnsupportedObject, "an index that is not a plain value");
    }
    Ref<> new_items = newRef(value);
    if (PySlice_Check(key)) {
      STATOR_VALUE(list, listOf(tracer, value));
      new_items = std::move(list);
    }
    STATOR_VALUE(items, contentsForWrite(tracer, container));
    if (PyObject_SetItem(items.get(), key, new_items.get()) != 0) return tracer.raiseCurrentError();
    return Flow::kOk;
  }
  STATOR_VALUE(bound, special(tracer, container, "__setitem__"));
  if (!bound)
    return tracer.breakWith(Reason::kRaises,
                            "assigns to an item of an object that has no __setitem__");
  tracer.world.keep(bound);
  Args args;
  args.values = {key, value};
  args.positional = 2;
  return tracer.above.call(bound.get(), args, Then::kDiscard).flow();
}

Flow delItem(Tracer& tracer, PyObject* container, PyObject* key) {
  if (isProxied(tracer, container))
    return tracer.raiseNew(PyExc_TypeError, "'mappingproxy' object doesn't support item deletion");
  if (symbolic::isSymbol(key) && !graph::isStandIn(container)) {
    Ref<> number = concrete(tracer, key);
    return delItem(tracer, container, number.get());
  }
  static PyObject* method = PyUnicode_InternFromString("__delitem__");
  if (graph::isStandIn(container))
    return tracer.breakWith(Reason::kRaises, "deletes an item of a tensor");
  if (isNativeContainer(tracer, container, method)) {
    if (PyDict_Check(container)) {
      STATOR_FLOW(linkOwner(tracer, container));
      if (hasOwnKeys(tracer, key) || (tracer.own_keys.any() && hasOwnKeys(tracer, container))) {
        STATOR_FLOW(requireHashable(tracer, key));
        STATOR_VALUE(items, contentsForWrite(tracer, container));
        return keyed(tracer, items.get(),
                     [&](PyObject* dict) {
                       return values::dictDelete(dict, key) ? Py_NewRef(Py_None) : nullptr;
                     })
            .flow();
      }
      STATOR_VALUE(found, dictGet(tracer, container, key));
      if (!found) {
        PyErr_SetObject(PyExc_KeyError, key);
        return tracer.raiseCurrentError();
      }
      values::Info* info = tracer.values.find(container);
      if (info != nullptr && info->origin == values::Origin::kOutside && !info->shadow &&
          isStaticKey(key)) {
        if (info->attributes_of != nullptr && PyUnicode_CheckExact(key))
          return storeInstanceAttr(tracer, info->attributes_of, key, nullptr);
        if (info->attributes_of == nullptr) {
          bool there = PyDict_Contains(container, key) == 1;
          tracer.world.guard(Guard{there ? GuardKind::kPresent : GuardKind::kAbsent,
                                   tracer.world.child(SourceKind::kDictItem, info->source, key)});
          eraseOverlay(tracer, info, key, there);
          info->dirty = true;
          return Flow::kOk;
        }
      }
      STATOR_VALUE(items, contentsForWrite(tracer, container));
      if (!values::dictDelete(items.get(), key)) return tracer.raiseCurrentError();
      return Flow::kOk;
    }
    if (!isNativeSafe(tracer, key)) {
      STATOR_VALUE(number, plainIndex(tracer, key));
      if (number) return delItem(tracer, container, number.get());
      return tracer.breakWith(Reason::kUnsupportedObject, "an index that is not a plain value");
    }
    STATOR_VALUE(items, contentsForWrite(tracer, container));
    if (PyObject_DelItem(items.get(), key) != 0) return tracer.raiseCurrentError();
    return Flow::kOk;
  }
  STATOR_VALUE(bound, special(tracer, container, "__delitem__"));
  if (!bound)
    return tracer.breakWith(Reason::kRaises,
                            "deletes an item of an object that has no __delitem__");
  tracer.world.keep(bound);
  Args args;
  args.values = {key};
  args.positional = 1;
  return tracer.above.call(bound.get(), args, Then::kDiscard).flow();
}

namespace {

// What a __len__ written in Python gives has to be a length.
Flow checkLength(Tracer& tracer, PyObject* given) {
  if (symbolic::isSymInt(given)) return Flow::kOk;
  if (graph::isStandIn(given) || !PyLong_Check(given))
    return tracer.breakWith(Reason::kRaises, "__len__ that gives no int");
  Py_ssize_t length = PyLong_AsSsize_t(given);
  if (length == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    return tracer.breakWith(Reason::kRaises, "__len__ that gives a very large number");
  }
  if (length >= 0) return Flow::kOk;
  return tracer.raiseNew(PyExc_ValueError, "__len__() should return >= 0");
}

}  // namespace

Out length(Tracer& tracer, PyObject* container) {
  static PyObject* method = PyUnicode_InternFromString("__len__");
  STATOR_VALUE(scalar, plainScalar(tracer, container));
  if (scalar && isTextLike(scalar.get())) return length(tracer, scalar.get());
  if (graph::isStandIn(container)) {
    const shapes::TensorMeta* meta = graph::asStandIn(container)->meta;
    if (meta == nullptr) return tracer.breakWith(Reason::kRaises, "len() of a number");
    if (meta->sizes.empty()) return tracer.raiseNew(PyExc_TypeError, "len() of a 0-d tensor");
    return symInt(tracer, meta->sizes[0]);
  }
  if (isTextLike(container)) {
    guardBytes(tracer, container);
    Py_ssize_t size = PyObject_Size(container);
    if (size < 0) return tracer.raiseCurrentError();  // a range longer than any sequence
    return stealRef(PyLong_FromSsize_t(size));
  }
  if (isNativeContainer(tracer, container, method)) {
    values::Info* info = tracer.values.find(container);
    if (info != nullptr && info->origin == values::Origin::kOutside && !info->constant) {
      if (PyDict_Check(container) && (info->overlay || info->attributes_of != nullptr)) {
        STATOR_VALUE(items, contents(tracer, container));
        return stealRef(PyLong_FromSsize_t(PyObject_Size(items.get())));
      }
      if (info->shadow) return stealRef(PyLong_FromSsize_t(PyObject_Size(info->shadow.get())));
      Py_ssize_t appended = info->appended ? PyList_GET_SIZE(info->appended.get()) : 0;
      Py_ssize_t n = PyDict_Check(container)     ? PyDict_Size(container)
                     : PyAnySet_Check(container) ? PySet_GET_SIZE(container)
                                                 : PyObject_Size(container);
      if (!info->length_guarded) {
        info->length_guarded = true;
        tracer.world.guard(Guard{GuardKind::kLength, info->source, nullptr, Ref<>(), n});
      }
      return stealRef(PyLong_FromSsize_t(n + appended));
    }
    return tracer.fromNative(stealRef(PyLong_FromSsize_t(PyObject_Size(container))));
  }
  PyTypeObject* type = Py_TYPE(container);
  if (isDictView(container)) {
    STATOR_VALUE(dict, viewedDict(tracer, container));
    return length(tracer, dict.get());
  }
  if (isTraceIterator(container))
    return tracer.raiseNew(PyExc_TypeError, "object of type '%s' has no len()",
                           typeOf(tracer, container)->tp_name);
  STATOR_VALUE(bound, slotMethod(tracer, container, "__len__"));
  if (!bound)
    return tracer.raiseNew(PyExc_TypeError, "object of type '%s' has no len()", type->tp_name);
  STATOR_VALUE(n, tracer.above.callNested(bound.get(), Args{}));
  STATOR_FLOW(checkLength(tracer, n.get()));
  return n;
}

Out truth(Tracer& tracer, PyObject* value) {
  auto boolean = [](bool b) { return newRef(b ? Py_True : Py_False); };
  if (value == Py_True || value == Py_False) return newRef(value);
  if (value == Py_None) return boolean(false);
  if (value == Py_NotImplemented)
    return tracer.breakWith(Reason::kUnsupportedObject, "the truth of NotImplemented, which warns");
  if (symbolic::isSymScalar(value)) {
    symbolic::SymScalar* scalar = symbolic::asSymScalar(value);
    if (!hasValue(tracer, value)) return tracer.breakWith(Reason::kDataDependentBranch);
    if (!scalar->backed) return truth(tracer, concrete(tracer, value).get());
    Ref<> zero = stealRef(PyFloat_FromDouble(0));
    if (Ref<> result = scalarCompare(tracer, Py_NE, value, zero.get())) return result;
    return truth(tracer, concrete(tracer, value).get());
  }
  if (symbolic::isSymInt(value)) return boolean(symbolic::dimOf(value) != Dim(0));
  if (graph::isStandIn(value)) {
    if (Ref<> known = knownTensor(tracer, value)) return boolean(PyObject_IsTrue(known.get()) == 1);
    return tracer.breakWith(Reason::kDataDependentBranch);
  }
  if (values::isScalar(value) || values::isConstantDeep(value)) {
    int result = PyObject_IsTrue(value);
    if (result < 0) return tracer.raiseCurrentError();
    return boolean(result != 0);
  }
  // A class asks its metaclass; an enumeration's says yes.
  const bool plain_class =
      PyType_Check(value) && (Py_TYPE(value) == &PyType_Type ||
                              PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(value), enumType()));
  if (plain_class || PyFunction_Check(value) || PyModule_Check(value) || PyCFunction_Check(value) ||
      isTraceIterator(value) || PyMethod_Check(value)) {
    return boolean(true);
  }
  PyTypeObject* type = Py_TYPE(value);
  static PyObject* dunder_bool = PyUnicode_InternFromString("__bool__");
  static PyObject* dunder_len = PyUnicode_InternFromString("__len__");
  STATOR_VALUE(scalar, plainScalar(tracer, value));
  if (scalar) return truth(tracer, scalar.get());
  STATOR_VALUE(has_bool, typeLookup(tracer, type, dunder_bool));
  if (has_bool) {
    if (!PyFunction_Check(has_bool.get())) {
      if (isNativeSafe(tracer, value)) return boolean(PyObject_IsTrue(value) == 1);
      return tracer.breakWith(Reason::kUnsupportedObject,
                              std::string("the truth of a ") + type->tp_name);
    }
    STATOR_VALUE(bound, special(tracer, value, "__bool__"));
    STATOR_VALUE(result, tracer.above.callNested(bound.get(), {}));
    if (!PyBool_Check(result.get()))
      return tracer.breakWith(Reason::kRaises, "__bool__ returned something else than a bool");
    return result;
  }
  STATOR_VALUE(has_len, typeLookup(tracer, type, dunder_len));
  if (has_len) {
    if (PyFunction_Check(has_len.get())) {
      STATOR_VALUE(bound, special(tracer, value, "__len__"));
      STATOR_VALUE(n, tracer.above.callNested(bound.get(), {}));
      STATOR_FLOW(checkLength(tracer, n.get()));
      return truth(tracer, n.get());
    }
    STATOR_VALUE(n, length(tracer, value));
    return boolean(PyObject_IsTrue(n.get()) == 1);
  }
  return boolean(true);
}

Out same(Tracer& tracer, PyObject* left, PyObject* right) {
  needStack();
  if (left == right) return newRef(Py_True);
  if (symbolic::isSymbol(left) || symbolic::isSymbol(right)) {
    auto isNumber = [](PyObject* value) {
      return symbolic::isSymbol(value) || PyLong_Check(value) || PyFloat_Check(value);
    };
    if (!isNumber(left) || !isNumber(right)) return newRef(Py_False);
    // Which numbers are one object depends on their values.
    Ref<> a = symbolic::isSymbol(left) ? concrete(tracer, left) : newRef(left),
          b = symbolic::isSymbol(right) ? concrete(tracer, right) : newRef(right);
    return same(tracer, a.get(), b.get());
  }
  values::Info* a = tracer.values.find(left);
  values::Info* b = tracer.values.find(right);
  auto outside = [](values::Info* info) {
    return info != nullptr && info->origin == values::Origin::kOutside && info->source != nullptr;
  };
  auto tensor_source = [](PyObject* value) -> const Source* {
    return graph::isStandIn(value) && !isCast(value) ? graph::asStandIn(value)->node->source
                                                     : nullptr;
  };
  const Source* first = outside(a) ? a->source : tensor_source(left);
  const Source* second = outside(b) ? b->source : tensor_source(right);
  if (first != nullptr && second != nullptr && !PyType_Check(left) && !PyType_Check(right)) {
    tracer.world.guard(Guard{GuardKind::kNotSameAs, first, second});
  }
  return newRef(Py_False);
}

namespace {
// `item in tensor`: whether any element equals it, which the graph knows.
Out tensorContains(Tracer& tracer, PyObject* tensor, PyObject* item) {
  static PyObject* const any = PyUnicode_InternFromString("any");
  static PyObject* const read = PyUnicode_InternFromString("item");
  const bool number = symbolic::isSymbol(item) || PyLong_Check(item) || PyFloat_CheckExact(item);
  if (tracer.options.capture_scalar_outputs && (number || graph::isStandIn(item))) {
    STATOR_VALUE(equal, tracer.above.settle(compare(tracer, Py_EQ, tensor, item)));
    if (graph::isStandIn(equal.get())) {
      Args args;
      args.values = {equal.get()};
      args.positional = 1;
      STATOR_VALUE(found, tracer.above.tensorCall(graph::Op::kCallMethod, any, args));
      STATOR_VALUE(answer, readIntoGraph(tracer, read, found.get()));
      if (symbolic::isSymScalar(answer.get())) return answer;
    }
  }
  return tracer.breakWith(Reason::kDataDependentBranch, "`in` over the elements of a tensor");
}
}  // namespace

Out contains(Tracer& tracer, PyObject* container, PyObject* item) {
  needStack();
  if (graph::isStandIn(container) && graph::asStandIn(container)->meta != nullptr &&
      symbolic::isSymbol(item))
    return tensorContains(tracer, container, item);
  if (symbolic::isSymbol(item) && !PyList_Check(container) && !PyTuple_Check(container)) {
    Ref<> number = concrete(tracer, item);
    return contains(tracer, container, number.get());
  }
  static PyObject* method = PyUnicode_InternFromString("__contains__");
  auto boolean = [](bool b) { return newRef(b ? Py_True : Py_False); };
  STATOR_VALUE(scalar, plainScalar(tracer, container));
  if (scalar && isTextLike(scalar.get())) return contains(tracer, scalar.get(), item);
  if (graph::isStandIn(container)) return tensorContains(tracer, container, item);
  if (isTextLike(container)) {
    guardBytes(tracer, container);
    if (!isNativeSafe(tracer, item))
      return tracer.breakWith(Reason::kUnsupportedObject, "`in` with a value that is not plain");
    int found = PySequence_Contains(container, item);
    if (found < 0) return tracer.raiseCurrentError();
    return boolean(found != 0);
  }
  if (PyDictKeys_Check(container)) {
    STATOR_VALUE(dict, viewedDict(tracer, container));
    return contains(tracer, dict.get(), item);
  }
  if (isNativeContainer(tracer, container, method)) {
    if (PyDict_Check(container)) {
      STATOR_VALUE(found, dictGet(tracer, container, item));
      return boolean(static_cast<bool>(found));
    }
    STATOR_VALUE(items, contents(tracer, container));
    if (PyAnySet_Check(container)) {
      STATOR_FLOW(requireHashable(tracer, item));
      return keyed(tracer, nullptr, [&](PyObject*) -> PyObject* {
        int found = PySet_Contains(items.get(), item);
        return found < 0 ? nullptr : PyBool_FromLong(found);
      });
    }
    if (isNativeSafe(tracer, items.get()) && isNativeSafe(tracer, item)) {
      int found = PySequence_Contains(items.get(), item);
      if (found < 0) return tracer.raiseCurrentError();
      return boolean(found != 0);
    }
    // By the C layout, whatever a subclass puts over __iter__; a list may change while its items are compared.
    const bool by_layout = PyList_Check(items.get()) || PyTuple_Check(items.get());
    Ref<> list = by_layout ? items : stealRef(PySequence_List(items.get()));
    const Ref<> watch = watchDeque(items.get());
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i) {
      Ref<> keep = newRef(PySequence_Fast_GET_ITEM(list.get(), i));
      PyObject* element = keep.get();
      // Whether symbolic numbers are one object would ask for their values; equal is all that counts.
      if (!symbolic::isSymbol(element) && !symbolic::isSymbol(item)) {
        STATOR_VALUE(identical, same(tracer, element, item));
        if (identical.get() == Py_True) return identical;
      }
      STATOR_VALUE(compared, tracer.above.settle(compare(tracer, Py_EQ, element, item)));
      if (sawChange(watch))
        return tracer.breakWith(Reason::kUnsupportedIterator,
                                "a deque changes while it is searched");
      if (i + 1 == PySequence_Fast_GET_SIZE(list.get()) && graph::isStandIn(compared.get()) &&
          (tracer.options.runs_as_captured || tracer.options.capture_scalar_outputs)) {
        // Nothing depends on it yet: the graph computes the answer.
        static PyObject* const read = PyUnicode_InternFromString("item");
        STATOR_VALUE(answer, readIntoGraph(tracer, read, compared.get()));
        if (symbolic::isSymScalar(answer.get()) &&
            symbolic::asSymScalar(answer.get())->of == &PyBool_Type)
          return answer;
      }
      STATOR_VALUE(equal, truth(tracer, compared.get()));
      if (equal.get() == Py_True) return equal;
    }
    return boolean(false);
  }
  STATOR_VALUE(bound, special(tracer, container, "__contains__"));
  if (bound) {
    STATOR_VALUE(result, tracer.above.callNested(bound.get(), {item}));
    return truth(tracer, result.get());
  }
  if (_PyType_Lookup(typeOf(tracer, container), method) == Py_None)
    return tracer.raiseNew(PyExc_TypeError, "'%.200s' object is not a container",
                           typeOf(tracer, container)->tp_name);
  Out over = iterate(tracer, container);
  if (over.flow() == Flow::kRaise && tracer.errors.raisedIs(PyExc_TypeError)) {
    tracer.errors.dropRaised();
    return tracer.raiseNew(PyExc_TypeError, "argument of type '%.200s' is not iterable",
                           typeOf(tracer, container)->tp_name);
  }
  STATOR_VALUE(iterator, std::move(over));
  for (;;) {
    STATOR_VALUE(element, next(tracer, iterator.get()));
    if (!element) return boolean(false);
    STATOR_VALUE(identical, same(tracer, element.get(), item));
    if (identical.get() == Py_True) return identical;
    STATOR_VALUE(compared, tracer.above.settle(compare(tracer, Py_EQ, element.get(), item)));
    STATOR_VALUE(equal, truth(tracer, compared.get()));
    if (equal.get() == Py_True) return equal;
  }
}

}  // namespace stator::interpret
