// Instances: what calling a class does, native bases included, and what isinstance() and issubclass() say.
#include "interpret/calls/instances.h"

#include "base/parts.h"
#include "base/stack_room.h"
#include "interpret/calls/calls.h"
#include "interpret/calls/classes.h"
#include "interpret/calls/enumerations.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/keys.h"
#include "interpret/objects/lookups.h"
#include "interpret/objects/native_calls.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/truth.h"
#include "interpret/objects/updates.h"
#include "interpret/tensors/tensor_call.h"
#include "interpret/tensors/torch_function.h"
#include "interpret/tensors/wrapper_tensors.h"
#include "python/objects.h"
#include "python/types.h"
#include "symbolic/sym_int.h"

namespace stator::interpret {

namespace {

bool hasFinalizer(PyTypeObject* type) {
  static PyObject* name = PyUnicode_InternFromString("__del__");
  return _PyType_Lookup(type, name) != nullptr;
}

bool isStructSequenceType(PyTypeObject* type) {
  static PyObject* const fields = PyUnicode_InternFromString("n_sequence_fields");
  return PyType_IsSubtype(type, &PyTuple_Type) && _PyType_Lookup(type, fields) != nullptr;
}

// torch.return_types.max((values, indices)), time.struct_time(...): from the items of one sequence.
Out makeStructSequence(Tracer& t, PyTypeObject* type, const Args& args) {
  if (args.positional != 1 || args.keywordCount() != 0)
    return t.breakWith(Reason::kCallsOutside, std::string(type->tp_name) + "()");
  STATOR_VALUE(items, sizedListOf(t, args.values[0]));
  return fromNativeMade(
      t, stealRef(PyObject_CallOneArg(reinterpret_cast<PyObject*>(type), items.get())));
}

// Types on the heap that C has made free their instances by functions of their own: what lies in these no plan knows.
bool isLaidOutByC(PyTypeObject* type) {
  static const destructor by_python =
      reinterpret_cast<PyTypeObject*>(torchObject("abc.ABC"))->tp_dealloc;
  for (; type != nullptr && stator_is_user_class(type); type = type->tp_base) {
    // Nothing lies in those that are no larger than an object (typing.Generic, 3.12 on).
    if (type->tp_dealloc != by_python && type->tp_basicsize > PyBaseObject_Type.tp_basicsize)
      return true;
  }
  return false;
}

// Exceptions that take their arguments apart in C (a SyntaxError's place, an OSError's number, a UnicodeError's bytes)
// may do so with these.
bool mayLookInto(Tracer& tracer, PyTypeObject* exception, const Args& args) {
  const bool looks =
      PyType_IsSubtype(exception, reinterpret_cast<PyTypeObject*>(PyExc_SyntaxError)) ||
      PyType_IsSubtype(exception, reinterpret_cast<PyTypeObject*>(PyExc_OSError)) ||
      PyType_IsSubtype(exception, reinterpret_cast<PyTypeObject*>(PyExc_UnicodeError));
  if (!looks || args.positional < 3) return true;
  for (size_t i = 1; i < args.positional; ++i) {
    if (!isNativeSafe(tracer, args.values[i])) return false;
  }
  return true;
}

}  // namespace

Out nativeNew(Tracer& tracer, PyTypeObject* base, const Args& args) {
  if (args.positional == 0 || !PyType_Check(args.values[0]))
    return tracer.breakWith(Reason::kRaises, "__new__ without a class");
  auto* type = reinterpret_cast<PyTypeObject*>(args.values[0]);
  if (base == &PyType_Type) return makeClass(tracer, type, args.withoutFirst());
  // As CPython asks: no other __new__ of C's may lie between.
  PyTypeObject* solid = stator_native_base(type);
  if (solid->tp_new != base->tp_new)
    return tracer.breakWith(Reason::kRaises, std::string(base->tp_name) + ".__new__ is not safe");
  if (hasFinalizer(type))
    return tracer.breakWith(Reason::kUnsupportedClass, std::string(type->tp_name) + " has __del__");
  if (base == &PyBaseObject_Type && isLaidOutByC(type))
    return tracer.breakWith(Reason::kUnsupportedClass, std::string(type->tp_name) + " is of C");
  Ref<> empty = stealRef(PyTuple_New(0));
  if (base == &PyBaseObject_Type && args.values.size() > 1 &&
      (type->tp_new != PyBaseObject_Type.tp_new || type->tp_init == PyBaseObject_Type.tp_init))
    return tracer.breakWith(Reason::kRaises, "object.__new__() takes exactly one argument");
  if (base == &PyBaseObject_Type || base == &PyList_Type || base == &PyDict_Type ||
      base == &PySet_Type || base == dequeType() || base == &PyODict_Type ||
      base == defaultDictType() || base == &PyProperty_Type ||
      std::string_view(base->tp_name) == "torch._C._FunctionBase") {
    return fromNativeMade(tracer, stealRef(base->tp_new(type, empty.get(), nullptr)));
  }
  if (base == &PyTuple_Type || base == &PyFrozenSet_Type) {
    // Keywords are for an __init__ of the class's own.
    if (args.positional > 2 || (args.keywordCount() != 0 && type->tp_init == base->tp_init))
      return tracer.breakWith(Reason::kRaises,
                              std::string(base->tp_name) + "() with other arguments");
    Ref<> items = stealRef(PyTuple_New(0));
    if (args.positional > 1 && base == &PyFrozenSet_Type) {
      STATOR_VALUE(operand, setOperand(tracer, args.values[1]));
      STATOR_VALUE(set, withOwnKeys(tracer, nullptr, [&](PyObject*) {
                     Ref<> one = stealRef(PyTuple_Pack(1, operand.get()));
                     return one ? base->tp_new(type, one.get(), nullptr) : nullptr;
                   }));
      return fromNativeMade(tracer, set);
    }
    if (args.positional > 1) {
      STATOR_VALUE(list, sizedListOf(tracer, args.values[1]));
      items = stealRef(PyList_AsTuple(list.get()));
    }
    Ref<> packed = stealRef(PyTuple_Pack(1, items.get()));
    return fromNativeMade(tracer, stealRef(base->tp_new(type, packed.get(), nullptr)));
  }
  if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException))) {
    if (!mayLookInto(tracer, type, args))
      return tracer.breakWith(Reason::kUnsupportedObject, std::string(base->tp_name) + ".__new__");
    Ref<> tuple = stealRef(PyTuple_New(static_cast<Py_ssize_t>(args.positional - 1)));
    for (size_t i = 1; i < args.positional; ++i)
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i - 1), Py_NewRef(args.values[i]));
    return fromNativeMade(tracer, stealRef(base->tp_new(type, tuple.get(), nullptr)));
  }
  bool scalar = base == &PyLong_Type || base == &PyFloat_Type || base == &PyUnicode_Type ||
                base == &PyBytes_Type || base == &PyComplex_Type;
  if (scalar) {
    Args rest = args.withoutFirst();
    for (PyObject* value : rest.values) {
      if (!isNativeSafe(tracer, value))
        return tracer.breakWith(Reason::kUnsupportedObject,
                                std::string(base->tp_name) + ".__new__");
    }
    Ref<> tuple = stealRef(PyTuple_New(static_cast<Py_ssize_t>(rest.positional)));
    for (size_t i = 0; i < rest.positional; ++i)
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(rest.values[i]));
    Ref<> keywords;
    if (rest.keywordCount() != 0) {
      keywords = stealRef(PyDict_New());
      for (size_t i = 0; i < rest.keywordCount(); ++i) {
        PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(rest.names, static_cast<Py_ssize_t>(i)),
                       rest.values[rest.positional + i]);
      }
    }
    return fromNativeMade(tracer, stealRef(base->tp_new(type, tuple.get(), keywords.get())));
  }
  return tracer.breakWith(Reason::kUnsupportedClass, std::string(base->tp_name) + ".__new__");
}

// The C __init__ of a built-in base, on an object made in the trace.
Out nativeInit(Tracer& tracer, PyTypeObject* owner, const Args& args) {
  PyObject* self = args.values[0];
  if (!tracer.isMade(self))
    return tracer.breakWith(Reason::kUnsupportedMutation,
                            std::string(owner->tp_name) + ".__init__ of an object from outside");
  if (args.keywordCount() != 0 && owner != &PyDict_Type && owner != &PyODict_Type) {
    return tracer.breakWith(Reason::kRaises,
                            std::string(owner->tp_name) + ".__init__ with keywords");
  }
  if (owner == &PyList_Type && args.positional == 1) {
    if (PyList_SetSlice(self, 0, PyList_GET_SIZE(self), nullptr) != 0)
      return tracer.raiseCurrentError();
    return newRef(Py_None);
  }
  if (owner == &PyList_Type) {
    if (args.positional > 1) {
      STATOR_VALUE(items, sizedListOf(tracer, args.values[1]));
      if (PyList_SetSlice(self, 0, PyList_GET_SIZE(self), items.get()) != 0)
        return tracer.raiseCurrentError();
    }
    return newRef(Py_None);
  }
  if (owner == &PyODict_Type && isUserOverride(tracer, self, "__setitem__"))
    return callNested(tracer, torchObject("stator.polyfills.functions.ordered_update"), args);
  if (owner == &PyDict_Type || owner == &PyODict_Type) {
    STATOR_FLOW(dictUpdate(tracer, self, args.withoutFirst()));
    return newRef(Py_None);
  }
  if (owner == &PySet_Type) {
    if (args.positional > 1) {
      STATOR_VALUE(items, setOperand(tracer, args.values[1]));
      STATOR_FLOW(withOwnKeys(tracer, self, [&](PyObject* set) {
                    return _PySet_Update(set, items.get()) == 0 ? Py_NewRef(Py_None) : nullptr;
                  }).flow());
    }
    return newRef(Py_None);
  }
  if (PyType_IsSubtype(owner, reinterpret_cast<PyTypeObject*>(PyExc_BaseException))) {
    if (!mayLookInto(tracer, owner, args))
      return tracer.breakWith(Reason::kUnsupportedObject,
                              std::string(owner->tp_name) + ".__init__");
    Ref<> tuple = stealRef(PyTuple_New(static_cast<Py_ssize_t>(args.positional - 1)));
    for (size_t i = 1; i < args.positional; ++i)
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i - 1), Py_NewRef(args.values[i]));
    if (owner->tp_init(self, tuple.get(), nullptr) != 0) return tracer.raiseCurrentError();
    return newRef(Py_None);
  }
  if (owner == &PyProperty_Type && Py_TYPE(self)->tp_setattro == PyObject_GenericSetAttr) {
    // Of a subclass it sets __doc__.
    Ref<> tuple = stealRef(PyTuple_New(static_cast<Py_ssize_t>(args.positional - 1)));
    bool functions = true;
    for (size_t i = 1; i < args.positional; ++i) {
      functions &= PyFunction_Check(args.values[i]) || args.values[i] == Py_None;
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i - 1), Py_NewRef(args.values[i]));
    }
    if (functions)
      return owner->tp_init(self, tuple.get(), nullptr) == 0 ? Out(newRef(Py_None))
                                                             : Out(tracer.raiseCurrentError());
  }
  if (owner == &PyType_Type || owner == &PySuper_Type || owner == &PyTuple_Type ||
      owner == &PyLong_Type || owner == &PyFloat_Type || owner == &PyUnicode_Type)
    return newRef(Py_None);
  return tracer.breakWith(Reason::kUnsupportedClass, std::string(owner->tp_name) + ".__init__");
}

namespace {

PyObject* hasRoom(PyObject* wanted, PyObject* cache) {
  if (Py_TYPE(cache) != lruCacheType() || !stator_lru_known(cache)) Py_RETURN_FALSE;
  Py_ssize_t room = stator_lru_room(cache);
  return PyBool_FromLong(room < 0 || room >= PyLong_AsSsize_t(wanted));
}

// What was there at the start, or was stored since, is still there: the calls so far have dropped nothing.
Flow needRoom(Tracer& t, PyObject* cache, const Source* source) {
  static PyMethodDef method = {"has_room", hasRoom, METH_O, nullptr};
  Py_ssize_t misses = 0;
  for (const Effects::LruUse& use : t.effects.lruUses())
    misses += use.cache.get() == cache && use.value;
  Py_ssize_t room = stator_lru_room(cache);
  if (misses == 0 || room < 0) return Flow::kOk;
  if (room < misses) return t.breakWith(Reason::kCallsOutside, "a cached function that is full");
  Ref<> number = stealRef(PyLong_FromSsize_t(misses));
  Ref<> check = stealRef(PyCFunction_New(&method, number.get()));
  t.world.guard(Guard{GuardKind::kIs, t.world.child(SourceKind::kAsked, source, check.get()),
                      nullptr, newRef(Py_True)});
  return Flow::kOk;
}

// Whether the next call's argument equals this one: its parts are guarded where they were read, or are the same in
// every call.
bool isKept(Tracer& t, PyObject* value) {
  needStack();
  if (values::isScalar(value) || stator_is_plain_key(value)) return true;
  if (!PyTuple_CheckExact(value))
    return !PyFunction_Check(value) && !PyTuple_Check(value) && isStaticKey(value) &&
           !isMadeClass(t, value);
  return everyItem(value, [&](PyObject* item) { return isKept(t, item); });
}

}  // namespace

namespace {

// A key of which no later call has an equal one, as far as the trace knows: sizes that are symbols, and objects made in
// the trace that are hashed by their identity. `new_parts`: there is one.
bool isNewKey(Tracer& t, PyObject* value, bool& new_parts) {
  needStack();
  if (symbolic::isSymbol(value)) return new_parts = true;
  if (PyTuple_CheckExact(value) || Py_TYPE(value) == sizeType())
    return everyItem(value, [&](PyObject* item) { return isNewKey(t, item, new_parts); });
  if (isTraceIterator(value) || graph::isStandIn(value)) return false;
  if (t.isMade(value) && stator_is_user_class(Py_TYPE(value)) &&
      Py_TYPE(value)->tp_hash == PyBaseObject_Type.tp_hash &&
      Py_TYPE(value)->tp_richcompare == PyBaseObject_Type.tp_richcompare)
    return new_parts = true;
  return isKept(t, value);
}

// The function behind the cache, which is left as it is: what it holds for other keys stays, and a later call computes
// the same again.
Out callBehindCache(Tracer& tracer, PyObject* cache, const Source* source, const Args& args) {
  static PyObject* const wrapped_name = PyUnicode_InternFromString("__wrapped__");
  Ref<> wrapped = stealRef(PyObject_GetAttr(cache, wrapped_name));
  if (!wrapped) return tracer.raiseCurrentError();
  STATOR_VALUE(function,
               fromOutside(tracer, wrapped.get(),
                           tracer.world.child(SourceKind::kGenericAttr, source, wrapped_name)));
  return callNested(tracer, function.get(), args);
}

}  // namespace

Out callCached(Tracer& tracer, PyObject* cache, const Args& args) {
  const Source* source = tracer.sourceOf(cache);
  if (source == nullptr || !stator_lru_known(cache))
    return tracer.breakWith(Reason::kCallsOutside, "a cached function");
  bool new_parts = false, all = true;
  for (PyObject* value : args.values) {
    const bool by_identity = tracer.values.isOutside(value) && !graph::isStandIn(value);
    // Of a number alone the cache is asked, which fixes it; shapes are what libraries keep recipes for.
    all &= !symbolic::isSymbol(value) && (by_identity || isNewKey(tracer, value, new_parts));
  }
  if (all && new_parts) {
    const uint64_t effects = tracer.effects.count();
    STATOR_VALUE(value, callBehindCache(tracer, cache, source, args));
    if (tracer.effects.count() == effects) return value;
    return tracer.breakWith(Reason::kCallsOutside, "a cached function that changes something");
  }
  Ref<> key = stealRef(stator_lru_key(cache, args.values.data(),
                                      static_cast<Py_ssize_t>(args.positional), args.names));
  if (!key) return tracer.raiseCurrentError();
  if (args.keywordCount() > 0) {
    // What stands in all such keys between the positional arguments and the others: one object of functools'.
    PyObject* mark = PyTuple_GET_ITEM(key.get(), args.positional);
    if (tracer.values.find(mark) == nullptr)
      tracer.values.addOutside(mark, tracer.world.sources().pinned(mark));
  }
  for (PyObject* value : args.values) {
    Ref<> read = newRef(value);
    STATOR_FLOW(knowKey(tracer, value, true));
    if (PyTuple_CheckExact(value) && !stator_is_plain_key(value)) {
      STATOR_VALUE(items, plain(tracer, value));
      read = std::move(items);
    }
    if (isKept(tracer, read.get())) continue;
    // An object that is hashed by its identity (`self`, a logger): the entry is about this very one.
    values::Info* info = tracer.values.find(value);
    bool by_identity = info != nullptr && info->origin == values::Origin::kOutside &&
                       !graph::isStandIn(value) && !info->stand_in &&
                       Py_TYPE(value)->tp_hash == PyBaseObject_Type.tp_hash &&
                       Py_TYPE(value)->tp_richcompare == PyBaseObject_Type.tp_richcompare &&
                       PyType_SUPPORTS_WEAKREFS(Py_TYPE(value));
    if (!by_identity)
      return tracer.breakWith(Reason::kCallsOutside,
                              "a cached function, with arguments that are not plain");
    tracer.world.guard(Guard{GuardKind::kIsWeak, info->source, nullptr, newRef(value)});
  }
  for (const Effects::LruUse& use : tracer.effects.lruUses()) {
    // Stored earlier in the trace, or found there.
    if (use.cache.get() != cache || !use.value ||
        PyObject_RichCompareBool(use.key.get(), key.get(), Py_EQ) != 1)
      continue;
    Ref<> value = use.value;
    STATOR_FLOW(needRoom(tracer, cache, source));
    tracer.effects.note();
    tracer.effects.useLru({newRef(cache), key, Ref<>()});
    return value;
  }
  const Source* entry = tracer.world.child(SourceKind::kLruEntry, source, key.get());
  PyObject* stored = nullptr;
  int found = stator_lru_get(cache, key.get(), entry->hash, &stored);
  if (found == STATOR_FOUND) {
    STATOR_FLOW(needRoom(tracer, cache, source));
    STATOR_VALUE(value, fromOutside(tracer, stored, entry));
    tracer.effects.note();
    tracer.effects.useLru({newRef(cache), key, Ref<>()});
    return value;
  }
  if (found != STATOR_MISSING) return tracer.breakWith(Reason::kCallsOutside, "a cached function");
  tracer.world.guard(Guard{GuardKind::kAbsent, entry});
  STATOR_VALUE(value, callBehindCache(tracer, cache, source, args));
  tracer.effects.note();
  tracer.effects.useLru({newRef(cache), key, value});
  return value;
}

Out instantiate(Tracer& tracer, PyTypeObject* type, const Args& args, Continuation then,
                bool metaclass_call) {
  PyTypeObject* meta = Py_TYPE(reinterpret_cast<PyObject*>(type));
  PyObject* type_object = reinterpret_cast<PyObject*>(type);
  if (PyType_IsSubtype(type, enumType())) return enumMember(tracer, type, args);
  if (std::string_view(type->tp_name) == "decimal.Decimal" || isPlacementType(type))
    return callNative(tracer, type_object, args);
  if (metaclass_call && meta->tp_call != PyType_Type.tp_call) {
    PyObject* hook = _PyType_Lookup(meta, names().dunder_call);
    // TypedDict's `__call__ = dict`: no descriptor, so that it is called without the class.
    if (hook != nullptr && PyType_Check(hook)) {
      STATOR_VALUE(other, classAttrValue(tracer, meta, names().dunder_call, hook));
      return call(tracer, other.get(), args, then);
    }
    if (hook == nullptr || !PyFunction_Check(hook))
      return tracer.breakWith(Reason::kUnsupportedClass, nameOf(type_object));
    STATOR_VALUE(function, classAttrValue(tracer, meta, names().dunder_call, hook));
    return call(tracer, function.get(), args.withFirst(type_object), then);
  }
  if (hasFinalizer(type))
    return tracer.breakWith(Reason::kUnsupportedClass, nameOf(type_object) + " has __del__");
  // One that is there but not initialised yet has no form in which it could be rebuilt.
  if (type != &PySuper_Type && PyType_IsSubtype(type, &PySuper_Type))
    return tracer.breakWith(Reason::kUnsupportedClass, nameOf(type_object) + " is a kind of super");
  const bool is_tensor = PyType_IsSubtype(type, tensorType());
  if (is_tensor && hasOwnDispatch(type)) return makeWrapper(tracer, type, args);
  STATOR_VALUE(new_raw, typeLookup(tracer, type, names().dunder_new));
  STATOR_VALUE(init_raw, typeLookup(tracer, type, names().dunder_init));
  Ref<> instance;
  PyObject* new_function = new_raw.get();
  Ref<> unwrapped;
  if (Py_TYPE(new_function) == &PyStaticMethod_Type) {
    unwrapped = stealRef(PyObject_GetAttr(new_function, names().func));
    new_function = unwrapped.get();
  }
  if (PyFunction_Check(new_function)) {
    if (tracer.values.find(new_function) == nullptr) {
      STATOR_VALUE(ignored,
                   fromOutside(tracer, new_function, tracer.world.sources().pinned(new_function)));
    }
    STATOR_VALUE(object, callNested(tracer, new_function, args.withFirst(type_object)));
    instance = std::move(object);
    if (!PyType_IsSubtype(typeOf(tracer, instance.get()), type)) return instance;
  } else if (is_tensor) {
    STATOR_VALUE(object, newTensorOf(tracer, type, args));
    instance = std::move(object);
  } else if (PyCFunction_Check(new_function)) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyCFunction_GET_SELF(new_function));
    if (isStructSequenceType(type)) return makeStructSequence(tracer, type, args);
    if (!stator_is_user_class(type) &&
        !PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException)) &&
        type != &PyBaseObject_Type) {
      return tracer.breakWith(Reason::kCallsOutside, nameOf(type_object) + "()");
    }
    STATOR_VALUE(object, nativeNew(tracer, base, args.withFirst(type_object)));
    instance = std::move(object);
  } else {
    return tracer.breakWith(Reason::kUnsupportedClass, nameOf(type_object));
  }
  if (is_tensor && !PyFunction_Check(init_raw.get())) return instance;
  PyTypeObject* init_type = type;
  if (Py_TYPE(instance.get()) != type && PyFunction_Check(new_function)) {
    // __new__ gave an instance of a subclass: it is that class's __init__ that CPython calls.
    init_type = Py_TYPE(instance.get());
    STATOR_VALUE(own, typeLookup(tracer, init_type, names().dunder_init));
    init_raw = std::move(own);
  }
  if (PyFunction_Check(init_raw.get())) {
    STATOR_VALUE(init, classAttrValue(tracer, init_type, names().dunder_init, init_raw.get()));
    tracer.world.keep(instance);
    Args with_self = args.withFirst(instance.get());
    if (then == Continuation::kPush) {
      Out entered = call(tracer, init.get(), with_self, Continuation::kPushInstance);
      if (entered.flow() == Flow::kEntered) {
        tracer.frames.innermost().instance = std::move(instance);
        return entered;
      }
      if (!entered.ok()) return entered;
      return instance;
    }
    STATOR_VALUE(ignored, callNested(tracer, init.get(), with_self));
    return instance;
  }
  if (Py_TYPE(init_raw.get()) == &PyWrapperDescr_Type) {
    PyTypeObject* owner = PyDescr_TYPE(init_raw.get());
    if (owner == &PyBaseObject_Type) {
      if (!args.values.empty() && PyCFunction_Check(new_function) &&
          PyCFunction_GET_SELF(new_function) == reinterpret_cast<PyObject*>(&PyBaseObject_Type)) {
        return tracer.breakWith(Reason::kRaises, nameOf(type_object) + "() takes no arguments");
      }
      return instance;
    }
    STATOR_VALUE(done, nativeInit(tracer, owner, args.withFirst(instance.get())));
    return instance;
  }
  return tracer.breakWith(Reason::kUnsupportedClass, nameOf(type_object));
}

}  // namespace stator::interpret
