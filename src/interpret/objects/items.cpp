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
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/instance_attributes.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/iteration_changes.h"
#include "interpret/objects/keys.h"
#include "interpret/objects/known_scalars.h"
#include "interpret/objects/lookups.h"
#include "interpret/objects/native_containers.h"
#include "interpret/objects/next.h"
#include "interpret/objects/operators.h"
#include "interpret/objects/outside_numbers.h"
#include "interpret/objects/scalars.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/updates.h"
#include "python/objects.h"
#include "python/types.h"
#include "python/version.h"
#include "symbolic/sym_int.h"
#include "values/dicts.h"

#include <cstring>

namespace stator::interpret {

using symbolic::Dim;

namespace {

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

// `C[...]`: the metaclass's __getitem__, or __class_getitem__. typing's own is run for real: it only builds a
// description of the type.
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
      STATOR_VALUE(bound, tracer.above.runEntered(getAttr(tracer, object, class_getitem)));
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
      !isEnumMember(result.get()) && tracer.values.find(result.get()) == nullptr) {
    tracer.values.addOutside(result.get(), tracer.world.sources().pinned(result.get()));
  }
  return result;
}

// What an object with an __index__ of its own stands for, in a slice too; ok with null: it has none.
Out plainIndex(Tracer& tracer, PyObject* key) {
  if (PySlice_Check(key)) {
    auto* slice = reinterpret_cast<PySliceObject*>(key);
    Ref<> parts[3];
    bool any = false;
    static const char* const names[3] = {"start", "stop", "step"};
    PyObject* const bounds[3] = {slice->start, slice->stop, slice->step};
    const values::Info* info = tracer.values.find(key);
    const bool outside = info != nullptr && info->origin == values::Origin::kOutside;
    for (int i : {2, 0, 1}) {  // the step first, as CPython asks
      Ref<> given = newRef(bounds[i]);
      if (outside) {
        const Ref<> name = stealRef(PyUnicode_InternFromString(names[i]));
        STATOR_VALUE(read, getAttr(tracer, key, name.get()));
        given = std::move(read);
      }
      STATOR_VALUE(number, plainIndex(tracer, given.get()));
      any |= outside || static_cast<bool>(number);
      parts[i] = number ? std::move(number) : std::move(given);
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
                         typeOf(tracer, number.get())->tp_name);
}

// To torch an object that is both is no number but a sequence, which it reads itself.
bool isSequenceWithIndex(Tracer& tracer, PyObject* key) {
  return PySequence_Check(key) != 0 && !graph::isStandIn(key) && !values::isScalar(key) &&
         isUserOverride(tracer, key, "__index__");
}

Out getTensorItem(Tracer& tracer, PyObject* tensor, PyObject* key) {
  if (isSequenceWithIndex(tracer, key))
    return tracer.breakWith(Reason::kUnsupportedObject, "an index that is not a plain value");
  Ref<> plain_key = newRef(key);
  if (!graph::isStandIn(key) && !PyTuple_Check(key) && !values::isScalar(key)) {
    Out asked = plainIndex(tracer, key);
    if (asked.flow() == Flow::kRaise) {
      tracer.errors.dropRaised();
      // torch has words of its own
      return tracer.breakWith(Reason::kRaises, "an index of a tensor");
    }
    STATOR_VALUE(number, std::move(asked));
    if (number) plain_key = std::move(number);
  }
  Args args;
  args.values = {tensor, plain_key.get()};
  args.positional = 2;
  return tracer.above.tensorCall(graph::Op::kCallFunction, operatorFunction("getitem"), args);
}

// Of a list or tuple from outside that the trace has not looked into: this one item is read, and the length guarded.
Out outsideSequenceItem(Tracer& tracer, PyObject* container, values::Info* info, PyObject* key) {
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
    return tracer.raiseNew(PyExc_IndexError, PyList_Check(container) ? "list index out of range"
                                                                     : "tuple index out of range");
  }
  bool list = PyList_Check(container);
  return fromOutside(tracer,
                     list ? PyList_GET_ITEM(container, index) : PyTuple_GET_ITEM(container, index),
                     tracer.world.child(list ? SourceKind::kListItem : SourceKind::kTupleItem,
                                        info->source, nullptr, index));
}

// With a key that is no plain value.
Out getItemAt(Tracer& tracer, PyObject* container, PyObject* key) {
  if (graph::isStandIn(key)) {
    Ref<> known = knownTensor(tracer, key);
    STATOR_VALUE(outside, known ? Out(Ref<>()) : outsideSizes(tracer, key));
    if (outside) return getItem(tracer, container, outside.get());
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

// torch.Size makes one of its own of what is cut out, and takes nothing but ints for that.
Out cutSize(Tracer& tracer, PyObject* size, PyObject* key) {
  Ref<> list = stealRef(PySequence_List(size));
  Ref<> cut = list ? stealRef(PyObject_GetItem(list.get(), key)) : Ref<>();
  Ref<> args = cut ? stealRef(PyTuple_Pack(1, cut.get())) : Ref<>();
  return tracer.fromNative(args ? stealRef(PyTuple_Type.tp_new(sizeType(), args.get(), nullptr))
                                : Ref<>());
}

// A container other than a dict.
Out getSequenceItem(Tracer& tracer, PyObject* container, PyObject* key) {
  if (PySet_Check(container)) return tracer.breakWith(Reason::kRaises, "subscripts a set");
  values::Info* info = tracer.values.find(container);
  bool outside = info != nullptr && info->origin == values::Origin::kOutside && !info->constant;
  if (outside && !info->shadow && !info->appended && PyLong_CheckExact(key) &&
      (PyList_Check(container) || PyTuple_Check(container)))
    return outsideSequenceItem(tracer, container, info, key);
  if (!isNativeSafe(tracer, key)) return getItemAt(tracer, container, key);
  STATOR_VALUE(items, contents(tracer, container));
  if (Py_TYPE(items.get()) == sizeType() && PySlice_Check(key) &&
      !isNativeSafe(tracer, items.get()))
    return cutSize(tracer, items.get(), key);
  return tracer.fromNative(stealRef(PyObject_GetItem(items.get(), key)));
}

}  // namespace

Out getItem(Tracer& tracer, PyObject* container, PyObject* key) {
  static PyObject* method = PyUnicode_InternFromString("__getitem__");
  STATOR_VALUE(scalar, plainScalar(tracer, container));
  if (scalar && isTextLike(scalar.get())) return getItem(tracer, scalar.get(), key);
  if (graph::isStandIn(container)) return getTensorItem(tracer, container, key);
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
    if (!PyDict_Check(container)) return getSequenceItem(tracer, container, key);
    STATOR_VALUE(found, dictGet(tracer, container, key));
    if (found) return found;
    return missingItem(tracer, container, key);
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

namespace {

Flow setDictItem(Tracer& tracer, PyObject* container, PyObject* key, PyObject* value) {
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
  return withOwnKeys(tracer, items.get(),
                     [&](PyObject* dict) {
                       return values::dictSet(dict, key, value) ? Py_NewRef(Py_None) : nullptr;
                     })
      .flow();
}

// The class's own method; what it returns is dropped.
Flow callOwn(Tracer& tracer, PyObject* container, const char* method, std::vector<PyObject*> values,
             const char* does) {
  STATOR_VALUE(bound, special(tracer, container, method));
  if (!bound)
    return tracer.breakWith(Reason::kRaises,
                            std::string(does) + " an item of an object that has no " + method);
  tracer.world.keep(bound);
  Args args;
  args.positional = values.size();
  args.values = std::move(values);
  return tracer.above.call(bound.get(), args, Continuation::kDiscard).flow();
}

}  // namespace

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
    if (PyDict_Check(container)) return setDictItem(tracer, container, key, value);
    if (PyTuple_Check(container) || PyAnySet_Check(container))
      return tracer.breakWith(Reason::kRaises, "assigns to an item of a tuple or set");
    if (!isNativeSafe(tracer, key)) {
      STATOR_VALUE(number, plainIndex(tracer, key));
      if (number) return setItem(tracer, container, number.get(), value);
      return tracer.breakWith(Reason::kUnsupportedObject, "an index that is not a plain value");
    }
    Ref<> new_items = newRef(value);
    if (PySlice_Check(key)) {
      PyObject* step = reinterpret_cast<PySliceObject*>(key)->step;
      int overflow = 0;
      const bool each =
          step == Py_None || (PyLong_Check(step) && PyLong_AsLongAndOverflow(step, &overflow) == 1);
      STATOR_VALUE(list,
                   listOrError(tracer, value,
                               each ? kNotForSlice : "must assign iterable to extended slice"));
      new_items = std::move(list);
    }
    STATOR_VALUE(items, contentsForWrite(tracer, container));
    if (PyObject_SetItem(items.get(), key, new_items.get()) != 0) return tracer.raiseCurrentError();
    return Flow::kOk;
  }
  return callOwn(tracer, container, "__setitem__", {key, value}, "assigns to");
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
        return withOwnKeys(tracer, items.get(),
                           [&](PyObject* dict) {
                             return values::dictDelete(dict, key) ? Py_NewRef(Py_None) : nullptr;
                           })
            .flow();
      }
      STATOR_VALUE(found, dictGet(tracer, container, key));
      if (!found) return missingKey(tracer, key);
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
  return callOwn(tracer, container, "__delitem__", {key}, "deletes");
}

}  // namespace stator::interpret
