// One resolution for every call: what is called, with what, and whether it is inlined, computed, put into the graph or left to CPython.
#include "interpret/calls/calls.h"

#include "base/stack_room.h"
#include "base/text.h"
#include "interpret/calls/getters.h"
#include "interpret/calls/inlining.h"
#include "interpret/calls/instances.h"
#include "interpret/calls/modules.h"
#include "interpret/calls/owners.h"
#include "interpret/calls/switches.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/symbols.h"
#include "interpret/core/tables.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/attribute_writes.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/descriptors.h"
#include "interpret/objects/drops.h"
#include "interpret/objects/errors.h"
#include "interpret/objects/items.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/keys.h"
#include "interpret/objects/native_calls.h"
#include "interpret/objects/operators.h"
#include "interpret/objects/scalars.h"
#include "interpret/objects/texts.h"
#include "interpret/objects/updates.h"
#include "interpret/tensors/arrays.h"
#include "interpret/tensors/tensor_call.h"
#include "interpret/tensors/torch_function.h"
#include "python/objects.h"
#include "python/types.h"
#include "symbolic/sym_int.h"
#include "values/dicts.h"

#include <algorithm>

namespace stator::interpret {

Out settle(Tracer& tracer, Out out) {
  if (out.flow() != Flow::kEntered) return out;
  tracer.frames.commit();
  tracer.frames.innermost().nested = true;
  size_t base = tracer.frames.size() - 1;
  Flow flow = Flow::kOk;
  {
    FrameStack::Nested nested(tracer.frames);
    flow = tracer.above.runUntil(base);
  }
  if (flow == Flow::kBreak) {
    tracer.frames.leaveTo(base);
    tracer.ending.nameReason();
    return Flow::kBreak;
  }
  if (flow != Flow::kOk) return flow;
  return tracer.frames.takeReturned();
}

Out callNested(Tracer& tracer, PyObject* callable, const Args& args) {
  needStack();
  Ref<> keep = newRef(callable);
  return settle(tracer, call(tracer, callable, args));
}

Out callNested(Tracer& tracer, PyObject* callable, std::initializer_list<PyObject*> list) {
  Args args;
  args.values = list;
  args.positional = args.values.size();
  return callNested(tracer, callable, args);
}

namespace {

// bound: the first argument is the self of a method, by which the callable was found.
Out callAs(Tracer& tracer, PyObject* callable, const Args& args, Then then, bool bound) {
  if (graph::isStandIn(callable)) return tracer.breakWith(Reason::kRaises, "calls a tensor");
  auto deliver = [&](Out out) -> Out {
    if (out.flow() == Flow::kEntered) tracer.frames.innermost().then = then;
    return out;
  };
  if (PyMethod_Check(callable)) {
    PyObject* function = PyMethod_GET_FUNCTION(callable);
    PyObject* self = PyMethod_GET_SELF(callable);
    if (const Source* source = tracer.sourceOf(callable)) {
      STATOR_VALUE(read_function, fromOutside(tracer, function,
                                              tracer.world.child(SourceKind::kMethodFunc, source)));
      STATOR_VALUE(read_self,
                   fromOutside(tracer, self, tracer.world.child(SourceKind::kMethodSelf, source)));
      tracer.world.keep(read_self);
      return callAs(tracer, read_function.get(), args.withFirst(read_self.get()), then, true);
    }
    Ref<> keep_function = newRef(function), keep_self = newRef(self);
    return callAs(tracer, function, args.withFirst(self), then, true);
  }
  if (!fitsItsOwner(tracer, callable, args, bound))
    return tracer.breakWith(Reason::kRaises, "a method of a type that its object is not of");
  if (const CallRow* rule = findUserRule(callable)) {
    if (const Source* source = tracer.sourceOf(callable))
      tracer.world.guard(Guard{GuardKind::kIs, source, nullptr, newRef(callable)});
    return callByRule(tracer, *rule, callable, args, then);
  }
  if (tracer.torch.hasArrays() && holdsArray(args)) {
    if (PyObject* polyfill = fromArrays(callable)) return callNested(tracer, polyfill, args);
  }
  if (const CallRow* row = findCall(callable)) {
    if (tracer.sizes.any() && row->kind == CallKind::kHandler && !row->takes_symbols) {
      for (PyObject* value : args.values) {
        if (!symbolic::isSymbol(value)) continue;
        // A handler that knows nothing of symbolic ints gets numbers.
        Args numbers = args;
        for (PyObject*& item : numbers.values) {
          if (!symbolic::isSymbol(item)) continue;
          item = tracer.world.keep(concrete(tracer, item));
        }
        return call(tracer, callable, numbers, then);
      }
    }
    if (values::Info* info = tracer.values.find(callable);
        info != nullptr && PyFunction_Check(callable) && info->source != nullptr) {
      tracer.world.guard(Guard{GuardKind::kIs, info->source, nullptr, newRef(callable)});
    }
    if (tracer.torch_function.relevant() && row->kind != CallKind::kGraph &&
        Py_TYPE(callable) == &PyMethodDescr_Type &&
        PyType_IsSubtype(tensorType(), reinterpret_cast<PyDescrObject*>(callable)->d_type)) {
      bool handled = false;
      Out out =
          dispatchTorchFunction(tracer, graph::Op::kCallMethod,
                                reinterpret_cast<PyDescrObject*>(callable)->d_name, args, handled);
      if (handled) return out;
    }
    switch (row->kind) {
      case CallKind::kHandler: {
        Out out = row->handler(tracer, args);
        if (out.flow() == Flow::kBreak && tracer.ending.broke().reason == Reason::kRaises &&
            !tracer.frames.committed())
          return raiseNatively(tracer, callable, args);
        return deliver(std::move(out));
      }
      case CallKind::kPolyfill:
        if (!tracer.options.trace_numpy && PyFunction_Check(row->polyfill) &&
            isArrayCode(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(row->polyfill))))
          return tracer.breakWith(Reason::kCallsOutside, nameOf(callable));
        return row->whole ? callNested(tracer, row->polyfill, args)
                          : call(tracer, row->polyfill, args, then);
      case CallKind::kPure:
        return callNative(tracer, callable, args);
      case CallKind::kGraph: {
        bool method =
            Py_TYPE(callable) == &PyMethodDescr_Type || Py_TYPE(callable) == &PyWrapperDescr_Type;
        if (method && args.positional > 0 && graph::isStandIn(args.values[0])) {
          Ref<> name = stealRef(PyObject_GetAttr(callable, names().name));
          return tensorCall(tracer, graph::Op::kCallMethod, name.get(), args);
        }
        // Tensor.split and others are written in Python: caches of compiled graphs know them as methods only.
        if (PyFunction_Check(callable) && args.positional > 0 && graph::isStandIn(args.values[0])) {
          PyObject* name = reinterpret_cast<PyFunctionObject*>(callable)->func_name;
          if (_PyType_Lookup(tensorType(), name) == callable)
            return tensorCall(tracer, graph::Op::kCallMethod, name, args);
        }
        return tensorCall(tracer, graph::Op::kCallFunction, callable, args);
      }
      case CallKind::kRefuse:
        return tracer.breakWith(Reason::kCallsOutside, nameOf(callable));
      case CallKind::kForbid:
      case CallKind::kConstantResult:
      case CallKind::kUnknown:
        break;
    }
  }
  if (PyFunction_Check(callable)) return deliver(inlineFunction(tracer, callable, args, then));
  if (PyType_Check(callable))
    return instantiate(tracer, reinterpret_cast<PyTypeObject*>(callable), args, then);
  PyTypeObject* type = Py_TYPE(callable);
  if (type == partialType()) {
    Ref<> function = stealRef(PyObject_GetAttrString(callable, "func"));
    Ref<> bound = stealRef(PyObject_GetAttrString(callable, "args"));
    Ref<> keywords = stealRef(PyObject_GetAttrString(callable, "keywords"));
    if (!function || !bound || !keywords) return tracer.raiseCurrentError();
    if (const Source* source = tracer.sourceOf(callable)) {
      STATOR_VALUE(
          f, fromOutside(tracer, function, tracer.world.child(SourceKind::kPartialFunc, source)));
      STATOR_VALUE(
          a, fromOutside(tracer, bound, tracer.world.child(SourceKind::kPartialArgs, source)));
      STATOR_VALUE(k, fromOutside(tracer, keywords,
                                  tracer.world.child(SourceKind::kPartialKeywords, source)));
      function = f, bound = a, keywords = k;
    }
    STATOR_VALUE(items, contents(tracer, bound.get()));
    STATOR_VALUE(named, contents(tracer, keywords.get()));
    Args merged;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i)
      merged.values.push_back(PyTuple_GET_ITEM(items.get(), i));
    merged.values.insert(merged.values.end(), args.values.begin(),
                         args.values.begin() + static_cast<std::ptrdiff_t>(args.positional));
    merged.positional = merged.values.size();
    Ref<> all = stealRef(PyDict_Copy(named.get()));
    for (size_t i = 0; i < args.keywordCount(); ++i)
      PyDict_SetItem(all.get(), args.name(i), args.values[args.positional + i]);
    Ref<> key_list = stealRef(PyDict_Keys(all.get()));
    Ref<> key_tuple = stealRef(PyList_AsTuple(key_list.get()));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key_tuple.get()); ++i) {
      merged.values.push_back(PyDict_GetItem(all.get(), PyTuple_GET_ITEM(key_tuple.get(), i)));
    }
    merged.names = key_tuple.get();
    tracer.world.keepAll({function, items, all, key_tuple});
    return call(tracer, function.get(), merged, then);
  }
  if (type == compiledFunctionType()) return callCompiled(tracer, callable, args, then);
  if (type == lruCacheType()) {
    return callCached(tracer, callable, args);
  }
  if (type == itemGetterType() || type == attrGetterType() || type == methodCallerType())
    return deliver(callGetter(tracer, callable, args));
  if (type == &PyStaticMethod_Type) {
    Ref<> function = stealRef(PyObject_GetAttr(callable, names().func));
    tracer.world.keep(function);
    return call(tracer, function.get(), args, then);
  }
  if (PyWeakref_CheckRefExact(callable)) {
    PyObject* target = PyWeakref_GET_OBJECT(callable);
    const Source* source = tracer.sourceOf(callable);
    if (mayBeGone(tracer, target))
      return tracer.breakWith(Reason::kCallsOutside,
                              "a weak reference to what may have been dropped");
    if (source == nullptr) return newRef(target);
    const Source* child = tracer.world.child(SourceKind::kWeakTarget, source);
    if (target == Py_None) {
      tracer.world.guard(Guard{GuardKind::kAbsent, child});
      return newRef(Py_None);
    }
    return fromOutside(tracer, target, child);
  }
  std::string_view type_name = type->tp_name;
  if (type_name == "method-wrapper") return callMethodWrapper(tracer, callable, args);
  if (type_name == "OpOverloadPacket" || type_name == "OpOverload") {
    if (const Source* source = tracer.sourceOf(callable))
      tracer.world.guard(Guard{GuardKind::kIs, source, nullptr, newRef(callable)});
    return tensorCall(tracer, graph::Op::kCallFunction, callable, args);
  }
  if (type_name == "CustomOpDef") {
    // What torch.library.custom_op makes: the operator behind it is what the graph calls.
    static PyObject* overload_name = PyUnicode_InternFromString("_opoverload");
    Ref<> overload = stealRef(PyObject_GetAttr(callable, overload_name));
    if (!overload) return tracer.raiseCurrentError();
    if (const Source* source = tracer.sourceOf(callable))
      tracer.world.guard(Guard{GuardKind::kIs, source, nullptr, newRef(callable)});
    tracer.world.keep(overload);
    return tensorCall(tracer, graph::Op::kCallFunction, overload.get(), args);
  }
  if (type_name == "torch.jit.ScriptFunction" || type_name == "torch._C.ScriptFunction" ||
      type_name == "ScriptFunction") {
    // torch.jit.script keeps the function that it was made from for front ends such as this one.
    Ref<> original = stealRef(PyObject_GetAttrString(callable, "_torchdynamo_inline"));
    if (!original) {
      PyErr_Clear();
      return tracer.breakWith(Reason::kCallsOutside, "a scripted function");
    }
    if (const Source* source = tracer.sourceOf(callable))
      tracer.world.guard(Guard{GuardKind::kIs, source, nullptr, newRef(callable)});
    if (tracer.values.find(original) == nullptr) {
      STATOR_VALUE(ignored, fromOutside(tracer, original, tracer.world.sources().pinned(original)));
    }
    tracer.world.keep(original);
    return call(tracer, original.get(), args, then);
  }
  if (PyCFunction_Check(callable)) {
    PyObject* self = PyCFunction_GET_SELF(callable);
    // tp_new wrappers: object.__new__, tuple.__new__, dict.__new__ ...
    if (self != nullptr && PyType_Check(self) &&
        std::string_view(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name) ==
            "__new__") {
      return nativeNew(tracer, reinterpret_cast<PyTypeObject*>(self), args);
    }
    if (self != nullptr && !PyModule_Check(self)) {
      // Bound to an object, whose type and the method's name are guarded; or a class method in C, of which each access makes a new object
      // while the descriptor is the same.
      Ref<> name = stealRef(PyUnicode_InternFromString(
          reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name));
      bool of_type = PyType_Check(self);
      PyObject* descriptor = _PyType_Lookup(
          of_type ? reinterpret_cast<PyTypeObject*>(self) : Py_TYPE(self), name.get());
      if (of_type) {
        // A class further down may have another one of that name, from which super() led here.
        PyObject* mro = stator_type_mro(reinterpret_cast<PyTypeObject*>(self));
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
          auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
          PyObject* entry = PyDict_GetItemWithError(stator_type_entries(base), name.get());
          if (entry == nullptr || Py_TYPE(entry) != &PyClassMethodDescr_Type ||
              reinterpret_cast<PyMethodDescrObject*>(entry)->d_method !=
                  reinterpret_cast<PyCFunctionObject*>(callable)->m_ml)
            continue;
          descriptor = entry;
          break;
        }
      }
      if (of_type && descriptor != nullptr && Py_TYPE(descriptor) == &PyClassMethodDescr_Type) {
        const CallRow* row = findCall(descriptor);
        if (row != nullptr && row->kind == CallKind::kHandler)
          return deliver(row->handler(tracer, args.withFirst(self)));
        if (!stator_is_user_class(reinterpret_cast<PyTypeObject*>(self)))
          return callNative(tracer, callable, args);
      }
      if (!of_type && descriptor != nullptr && Py_TYPE(descriptor) == &PyMethodDescr_Type) {
        Ref<> object = newRef(self);
        if (const Source* source = tracer.sourceOf(callable)) {
          STATOR_VALUE(named, fromOutside(tracer, name,
                                          tracer.world.child(SourceKind::kGenericAttr, source,
                                                             names().name)));
          STATOR_VALUE(
              read, fromOutside(tracer, self, tracer.world.child(SourceKind::kMethodSelf, source)));
          object = std::move(read);
        }
        tracer.world.keep(object);
        return call(tracer, descriptor, args.withFirst(object.get()), then);
      }
    }
    // What a placement says of itself: C++ that looks at nothing else.
    if (args.positional > 0 && isPlacement(args.values[0]))
      return callNative(tracer, callable, args);
    return tracer.breakWith(Reason::kCallsOutside, nameOf(callable));
  }
  if (type == &PyInstanceMethod_Type && args.positional > 0 && isPlacement(args.values[0]))
    return callNative(tracer, callable, args);
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type)
    return callDescriptor(tracer, callable, args, then);
  if (type == &PyClassMethodDescr_Type)
    return tracer.breakWith(Reason::kCallsOutside, nameOf(callable));
  if (isModule(callable)) return callModule(tracer, callable, args, then);
  STATOR_VALUE(bound, special(tracer, callable, "__call__"));
  if (!bound)
    return tracer.breakWith(Reason::kRaises,
                            std::string("a ") + type->tp_name + " is not callable");
  if (!PyFunction_Check(PyMethod_Check(bound.get()) ? PyMethod_GET_FUNCTION(bound.get())
                                                    : bound.get()))
    return tracer.breakWith(Reason::kCallsOutside, std::string("a ") + type->tp_name);
  tracer.world.keep(bound);
  return call(tracer, bound.get(), args, then);
}

}  // namespace

Out call(Tracer& tracer, PyObject* callable, const Args& args, Then then) {
  return callAs(tracer, callable, args, then, false);
}

// Slot wrappers and method descriptors without a row of their own, by the name of what they do.
Out callDescriptor(Tracer& tracer, PyObject* descriptor, const Args& args, Then then) {
  std::string name = utf8(reinterpret_cast<PyDescrObject*>(descriptor)->d_name);
  PyTypeObject* owner = reinterpret_cast<PyDescrObject*>(descriptor)->d_type;
  if (args.positional == 0) return tracer.breakWith(Reason::kRaises, "a method without its object");
  PyObject* self = args.values[0];
  size_t n = args.positional;
  if (owner == &PyUnicode_Type || owner == &PyLong_Type || owner == &PyFloat_Type ||
      owner == &PyBytes_Type || owner == &PyComplex_Type) {
    // The base type's own method, of an instance of a subclass: it sees the built-in value alone.
    STATOR_VALUE(exact, exactScalar(tracer, self));
    if (exact) {
      Args replaced = args;
      replaced.values[0] = exact.get();
      return callNative(tracer, descriptor, replaced);
    }
  }
  if (name == "__call__") {
    Args rest = args.withoutFirst();
    if (owner == &PyType_Type && PyType_Check(self))
      return instantiate(tracer, reinterpret_cast<PyTypeObject*>(self), rest, then, false);
    if (!isUserOverride(tracer, self, name)) return call(tracer, self, rest, then);
  }
  if (graph::isStandIn(self)) {
    if (PyType_IsSubtype(tensorType(), owner) && owner != &PyBaseObject_Type) {
      return tensorCall(tracer, graph::Op::kCallMethod,
                        reinterpret_cast<PyDescrObject*>(descriptor)->d_name, args);
    }
    return tracer.breakWith(Reason::kUnsupportedTensorOp, name);
  }
  if (args.keywordCount() != 0 && name == "__init__" &&
      (owner == &PyDict_Type || owner == &PyODict_Type))
    return nativeInit(tracer, owner, args);
  if (args.keywordCount() == 0) {
    if (name == "__init__" && owner == &PyBaseObject_Type) {
      PyTypeObject* type = typeOf(tracer, self);
      if (n > 1 &&
          (type->tp_init != PyBaseObject_Type.tp_init || type->tp_new == PyBaseObject_Type.tp_new))
        return tracer.breakWith(Reason::kRaises, "object.__init__() takes exactly one argument");
      return newRef(Py_None);
    }
    if (name == "__init__") return nativeInit(tracer, owner, args);
    if (name == "__get__" && owner == &PyFunction_Type && PyFunction_Check(self) && n >= 2) {
      if (args.values[1] == Py_None) return newRef(self);
      return stealRef(PyMethod_New(self, args.values[1]));
    }
    if ((name == "__setattr__" || name == "__delattr__") && owner != &PyType_Type &&
        PyType_Check(self))
      return tracer.breakWith(Reason::kRaises, "object.__setattr__ of a class");
    if (name == "__setattr__" && n == 3) {
      STATOR_FLOW(setAttrGeneric(tracer, self, args.values[1], args.values[2]));
      return newRef(Py_None);
    }
    if (name == "__delattr__" && n == 2) {
      STATOR_FLOW(setAttrGeneric(tracer, self, args.values[1], nullptr));
      return newRef(Py_None);
    }
    if (name == "__getattribute__" && n == 2 && owner == &PyBaseObject_Type &&
        !PyType_Check(self) && !PyModule_Check(self)) {
      STATOR_VALUE(found, settle(tracer, getAttrGeneric(tracer, self, args.values[1])));
      if (found) return found;
      return tracer.raiseNew(PyExc_AttributeError, "'%.50s' object has no attribute '%U'",
                             Py_TYPE(self)->tp_name, args.values[1]);
    }
    // The slots of built-in types, reached by name or through super(): what the operator would do on the base type.
    bool container = PyList_Check(self) || PyTuple_Check(self) || PyDict_Check(self) ||
                     PyAnySet_Check(self) || isDeque(self) || isTraceIterator(self) ||
                     PyUnicode_Check(self) || PyBytes_Check(self) || PyRange_Check(self);
    if (const int operation = comparisonOf(name.c_str());
        operation >= 0 && n == 2 && PyType_IsSubtype(typeOf(tracer, self), owner))
      return compareSlot(tracer, owner, operation, self, args.values[1]);
    if (name == "__repr__" && n == 1 && owner != &PyBaseObject_Type && isTextContainer(self) &&
        PyType_IsSubtype(Py_TYPE(self), owner))
      return containerText(tracer, owner, self);
    if (!isUserOverride(tracer, self, name) &&
        (container || name == "__hash__" || name == "__repr__" || name == "__str__")) {
      if (name == "__len__" && n == 1) return length(tracer, self);
      if (name == "__getitem__" && n == 2) return getItem(tracer, self, args.values[1]);
      if (name == "__contains__" && n == 2) return contains(tracer, self, args.values[1]);
      if (name == "__iter__" && n == 1) return iterate(tracer, self);
      if (name == "__next__" && n == 1) {
        STATOR_VALUE(item, next(tracer, self));
        if (!item) return raiseStop(tracer, self);
        return item;
      }
      if (name == "__setitem__" && n == 3) {
        STATOR_FLOW(setItem(tracer, self, args.values[1], args.values[2]));
        return newRef(Py_None);
      }
      if (name == "__delitem__" && n == 2) {
        STATOR_FLOW(delItem(tracer, self, args.values[1]));
        return newRef(Py_None);
      }
      if (name == "__hash__" && n == 1 && isNativeSafe(tracer, self))
        return tracer.fromNative(stealRef(PyLong_FromSsize_t(PyObject_Hash(self))));
      if ((name == "__repr__" || name == "__str__") && n == 1 && container &&
          !isNativeSafe(tracer, self)) {
        return call(tracer,
                    name == "__repr__" || owner == &PyBaseObject_Type
                        ? builtinFunction("repr")
                        : reinterpret_cast<PyObject*>(&PyUnicode_Type),
                    args, then);
      }
      // The slot of the type that is named: int's of True is "1", and object.__str__ asks for the repr.
      if ((name == "__repr__" || name == "__str__") && n == 1 && isNativeSafe(tracer, self))
        return tracer.fromNative(stealRef(PyObject_CallOneArg(descriptor, self)));
    } else if (owner == &PyList_Type && PyList_Check(self) &&
               (name == "__len__" || name == "__getitem__" || name == "__setitem__" ||
                name == "__delitem__" || name == "__iter__")) {
      // super().__getitem__ and friends of a list subclass that overrides them.
      const PyMappingMethods* slots = PyList_Type.tp_as_mapping;
      if (name == "__iter__" && n == 1) {
        STATOR_VALUE(items, contents(tracer, self));
        return tracer.made(makeTraceIterator(IteratorKind::kSequence, {newRef(self)}));
      }
      if (name == "__len__" && n == 1) {
        STATOR_VALUE(items, contents(tracer, self));
        return stealRef(PyLong_FromSsize_t(PyList_GET_SIZE(items.get())));
      }
      if (n >= 2 && isNativeSafe(tracer, args.values[1])) {
        if (name == "__getitem__" && n == 2) {
          STATOR_VALUE(items, contents(tracer, self));
          return tracer.fromNative(stealRef(slots->mp_subscript(items.get(), args.values[1])));
        }
        PyObject* value = n == 3 ? args.values[2] : nullptr;
        if ((name == "__setitem__") == (n == 3) && !PySlice_Check(args.values[1])) {
          STATOR_VALUE(items, contentsForWrite(tracer, self));
          if (slots->mp_ass_subscript(items.get(), args.values[1], value) != 0)
            return tracer.raiseCurrentError();
          return newRef(Py_None);
        }
      }
    } else if (PyDict_Check(self) && PyType_IsSubtype(owner, &PyDict_Type)) {
      // super().__getitem__ and friends of a dict subclass that overrides them.
      if (name == "__getitem__" && n == 2) {
        STATOR_VALUE(found, dictGet(tracer, self, args.values[1]));
        return found ? Out(found) : missingItem(tracer, self, args.values[1]);
      }
      if (name == "__delitem__" && n == 2) {
        STATOR_FLOW(delItemBase(tracer, self, args.values[1]));
        return newRef(Py_None);
      }
      if (name == "__setitem__" && n == 3) {
        STATOR_FLOW(requireHashable(tracer, args.values[1]));
        STATOR_VALUE(items, contentsForWrite(tracer, self));
        return keyed(tracer, items.get(), [&](PyObject* dict) {
          return values::dictSet(dict, args.values[1], args.values[2]) ? Py_NewRef(Py_None)
                                                                       : nullptr;
        });
      }
      if (name == "__contains__" && n == 2) {
        STATOR_VALUE(found, dictGet(tracer, self, args.values[1]));
        return newRef(found ? Py_True : Py_False);
      }
      if (name == "__len__" && n == 1) {
        STATOR_VALUE(items, contents(tracer, self));
        return stealRef(PyLong_FromSsize_t(PyDict_Size(items.get())));
      }
    } else if (name == "__hash__" && owner == &PyBaseObject_Type) {
      return tracer.breakWith(Reason::kUnsupportedObject, "hashes an object by its address");
    }
  }
  bool immutable = owner == &PyUnicode_Type || owner == &PyBytes_Type || owner == &PyLong_Type ||
                   owner == &PyFloat_Type || owner == &PyBool_Type || owner == &PyComplex_Type ||
                   owner == &PyRange_Type || owner == &PySlice_Type || owner == &PyFrozenSet_Type ||
                   owner == &PyTuple_Type || isDictView(self) ||
                   (owner == &PyByteArray_Type && tracer.isMade(self)) || isOpaqueConstant(self);
  // torch.device is also a context manager, which changes the thread's modes.
  bool context = name == "__enter__" || name == "__exit__" || name == "__call__";
  if (owner->tp_name == std::string_view("re.Pattern")) {
    // Characters are all that it looks at, whatever a subclass of str does otherwise.
    Args exact = args;
    for (PyObject*& value : exact.values) {
      if (graph::isStandIn(value) || !PyUnicode_Check(value) || PyUnicode_CheckExact(value))
        continue;
      STATOR_VALUE(text, exactScalar(tracer, value));
      tracer.world.keep(text);
      value = text.get();
    }
    return callNative(tracer, descriptor, exact);
  }
  if (immutable || (values::isTorchConstant(self) && !context))
    return callNative(tracer, descriptor, args);
  return tracer.breakWith(Reason::kCallsOutside, std::string(owner->tp_name) + "." + name);
}

Flow setAttrGeneric(Tracer& tracer, PyObject* object, PyObject* name, PyObject* value) {
  if (PyType_Check(object))
    return setTypeAttr(tracer, reinterpret_cast<PyTypeObject*>(object), name, value, false);
  if (graph::isStandIn(object)) return setAttr(tracer, object, name, value);
  PyTypeObject* type = Py_TYPE(object);
  STATOR_VALUE(on_type, typeLookup(tracer, type, name));
  if (on_type && Py_TYPE(on_type.get())->tp_descr_set != nullptr &&
      Py_TYPE(on_type.get()) != &PyMemberDescr_Type) {
    if (isProperty(on_type.get())) {
      Ref<> setter =
          stealRef(PyObject_GetAttrString(on_type.get(), value != nullptr ? "fset" : "fdel"));
      if (!setter || !PyFunction_Check(setter.get())) {
        PyErr_Clear();
        return tracer.breakWith(Reason::kUnsupportedMutation, "object.__setattr__ of a property");
      }
      if (tracer.values.find(setter) == nullptr) {
        STATOR_VALUE(ignored, fromOutside(tracer, setter, tracer.world.sources().pinned(setter)));
      }
      Args args;
      args.values = {object};
      if (value != nullptr) args.values.push_back(value);
      args.positional = args.values.size();
      return callNested(tracer, setter.get(), args).flow();
    }
    if (!tracer.isMade(object) && value != nullptr && on_type.get() == classDescriptor())
      return changeClass(tracer, object, value);
    if (sharesOutsideDict(tracer, name, value))
      return tracer.breakWith(Reason::kUnsupportedMutation,
                              "a new object with a __dict__ from outside");
    if (!tracer.isMade(object))
      return tracer.breakWith(Reason::kUnsupportedMutation,
                              "object.__setattr__ through a descriptor");
    if (PyObject_GenericSetAttr(object, name, value) != 0) return tracer.raiseCurrentError();
    return Flow::kOk;
  }
  return storeInstanceAttr(tracer, object, name, value);
}

Out raiseStop(Tracer& tracer, PyObject* iterator) {
  Ref<> exception;
  if (isTraceIterator(iterator) && asTraceIterator(iterator)->kind == IteratorKind::kGenerator &&
      !asTraceIterator(iterator)->sources->empty()) {
    PyObject* value = (*asTraceIterator(iterator)->sources)[0].get();
    exception = stealRef(value != nullptr && value != Py_None
                             ? PyObject_CallOneArg(PyExc_StopIteration, value)
                             : PyObject_CallNoArgs(PyExc_StopIteration));
  } else {
    exception = stealRef(PyObject_CallNoArgs(PyExc_StopIteration));
  }
  return tracer.raise(exception);
}

}  // namespace stator::interpret
