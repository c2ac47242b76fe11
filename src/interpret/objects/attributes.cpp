// Attribute access as Python defines it, over values that may come from outside: each look-up is guarded where it read.
#include "interpret/objects/attributes.h"

#include "base/text.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/sym_scalars.h"
#include "interpret/core/symbols.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/class_attributes.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/descriptors.h"
#include "interpret/objects/errors.h"
#include "interpret/objects/exceptions.h"
#include "interpret/objects/globals.h"
#include "interpret/objects/instance_attributes.h"
#include "interpret/objects/lookups.h"
#include "interpret/objects/outside_iterators.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/thread_locals.h"
#include "python/fields.h"
#include "python/objects.h"
#include "python/types.h"
#include "symbolic/sym_int.h"

#include <string_view>

namespace stator::interpret {

namespace {

// Names of stator that are loaded when somebody asks for them (its __getattr__): they are there from now on.
void loadLazily(PyObject* module, PyObject* name) {
  PyObject* dict = PyModule_GetDict(module);
  PyObject* hook = PyDict_GetItemWithError(dict, names().dunder_getattr);
  if (hook == nullptr || !PyFunction_Check(hook)) return;
  const char* of = PyModule_GetName(module);
  if (of == nullptr) PyErr_Clear();
  if (of == nullptr || std::string_view(of) != "stator") return;
  if (PyDict_GetItemWithError(dict, name) != nullptr) return;
  Ref<> loaded = stealRef(PyObject_GetAttr(module, name));
  if (!loaded) PyErr_Clear();
}

Out moduleAttribute(Tracer& tracer, PyObject* module, PyObject* name) {
  loadLazily(module, name);
  PyObject* on_type = _PyType_Lookup(Py_TYPE(module), name);
  if (on_type != nullptr && Py_TYPE(on_type)->tp_descr_set != nullptr)
    return bindDescriptor(tracer, on_type, module, Py_TYPE(module), nullptr);
  STATOR_VALUE(found, instanceAttr(tracer, module, name));
  if (found) return found;
  if (on_type != nullptr) return bindDescriptor(tracer, on_type, module, Py_TYPE(module), nullptr);
  STATOR_VALUE(hook, instanceAttr(tracer, module, names().dunder_getattr));
  if (!hook) return Ref<>();
  return tracer.above.callNested(hook.get(), {name});
}

// nn.Module.__getattr__ is never interpreted: the three dicts are read directly.
Out nnModuleAttribute(Tracer& tracer, PyObject* module, PyObject* name) {
  struct Place {
    PyObject* dict_name;
    SourceKind kind;
  };
  const Place places[] = {{names().parameters, SourceKind::kParameter},
                          {names().buffers, SourceKind::kBuffer},
                          {names().modules, SourceKind::kSubmodule}};
  values::Info* info = tracer.values.find(module);
  bool outside = info != nullptr && info->origin == values::Origin::kOutside;
  for (const Place& place : places) {
    if (!outside || (info->overlay &&
                     PyDict_GetItemWithError(info->overlay.get(), place.dict_name) != nullptr)) {
      STATOR_VALUE(dict, instanceAttr(tracer, module, place.dict_name));
      if (!dict) continue;
      STATOR_VALUE(found, dictGet(tracer, dict.get(), name));
      if (found) return found;
      continue;
    }
    PyObject* dict = rawInstanceAttr(module, place.dict_name);
    if (dict == nullptr) continue;
    values::Info* written = tracer.values.find(dict);
    if (!PyDict_Check(dict) || (written != nullptr && (written->shadow || written->overlay))) {
      STATOR_VALUE(value, instanceAttr(tracer, module, place.dict_name));
      STATOR_VALUE(found, dictGet(tracer, value.get(), name));
      if (found) return found;
      continue;
    }
    const Source* source = tracer.world.child(place.kind, info->source, name);
    PyObject* raw = PyDict_GetItemWithError(dict, name);
    if (raw == nullptr) {
      tracer.world.guard(Guard{GuardKind::kAbsent, source});
      continue;
    }
    return fromOutside(tracer, raw, source);
  }
  return Ref<>();
}

// A class may get a __getattribute__ or __getattr__ later.
void guardLookupProtocol(Tracer& tracer, PyTypeObject* type) {
  if (!stator_is_user_class(type) || !tracer.classes.firstAsOwner(type)) return;
  static PyObject* getattribute = PyUnicode_InternFromString("__getattribute__");
  (void)typeLookup(tracer, type, getattribute);
  (void)typeLookup(tracer, type, names().dunder_getattr);
}

// What stands in a class may be an object of a user's class that becomes a descriptor, or another kind of descriptor,
// later.
void guardDescriptorKind(Tracer& tracer, PyObject* entry) {
  PyTypeObject* kind = Py_TYPE(entry);
  if (!stator_is_user_class(kind) || !tracer.classes.firstAsDescriptor(kind)) return;
  static PyObject* remove = PyUnicode_InternFromString("__delete__");
  for (PyObject* method : {names().dunder_get, names().dunder_set, remove})
    (void)typeLookup(tracer, kind, method);
}

// Of a read-only view `|=` raises, and comparisons are those of the operators.
Flow refuseViewsOwn(Tracer& tracer, PyObject* name) {
  for (const char* own : {"__ior__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"}) {
    if (PyUnicode_CompareWithASCIIString(name, own) == 0)
      return tracer.breakWith(Reason::kUnsupportedAttribute, "a read-only view's own method");
  }
  return Flow::kOk;
}

Out iteratorAttribute(Tracer& tracer, PyObject* object, PyObject* name) {
  PyObject* found = _PyType_Lookup(typeOf(tracer, object), name);
  if (found == nullptr) return Ref<>();
  if (Py_TYPE(found) == &PyGetSetDescr_Type || Py_TYPE(found) == &PyMemberDescr_Type) {
    TraceIterator* iterator = asTraceIterator(object);
    PyObject* function = iterator->flag ? nullptr : iterator->function;
    if (function != nullptr && PyUnicode_CompareWithASCIIString(name, "__name__") == 0)
      return newRef(reinterpret_cast<PyFunctionObject*>(function)->func_name);
    if (function != nullptr && PyUnicode_CompareWithASCIIString(name, "__qualname__") == 0)
      return newRef(reinterpret_cast<PyFunctionObject*>(function)->func_qualname);
    if (function != nullptr && PyUnicode_CompareWithASCIIString(name, "gi_running") == 0)
      return newRef(iterator->running ? Py_True : Py_False);
    return tracer.breakWith(Reason::kUnsupportedAttribute,
                            std::string(utf8(name)) + " of an iterator");
  }
  return stealRef(PyMethod_New(found, object));
}

Out methodAttribute(Tracer& tracer, PyObject* object, PyObject* name) {
  if (PyUnicode_Compare(name, names().dunder_self) == 0) {
    if (const Source* source = tracer.sourceOf(object))
      return fromOutside(tracer, PyMethod_GET_SELF(object),
                         tracer.world.child(SourceKind::kMethodSelf, source));
    return newRef(PyMethod_GET_SELF(object));
  }
  Ref<> function = newRef(PyMethod_GET_FUNCTION(object));
  if (const Source* source = tracer.sourceOf(object)) {
    STATOR_VALUE(read, fromOutside(tracer, function.get(),
                                   tracer.world.child(SourceKind::kMethodFunc, source)));
    function = std::move(read);
  }
  PyTypeObject* type = typeOf(tracer, object);
  const bool of_python = type == &PyMethod_Type;
  if (of_python && PyUnicode_Compare(name, names().func) == 0) return function;
  // What methods can do themselves comes first: `m.__call__` is not its function's.
  PyObject* own = _PyType_Lookup(type, name);
  if (own != nullptr &&
      (Py_TYPE(own) == &PyWrapperDescr_Type || Py_TYPE(own) == &PyMethodDescr_Type))
    return stealRef(PyMethod_New(own, object));
  if (PyUnicode_Compare(name, names().dunder_class) == 0)
    return newRef(reinterpret_cast<PyObject*>(type));
  if (!of_python && own == nullptr) return Ref<>();
  const std::string_view text = utf8View(name).value_or("");
  if (!of_python && text != "__name__" && text != "__doc__" && text != "__text_signature__" &&
      text != "__objclass__")
    return tracer.breakWith(Reason::kUnsupportedAttribute, "of a method in C");
  return getAttrOrNull(tracer, function.get(), name);
}

// The class's own __getattribute__; null: it does what object's does.
PyObject* ownGetattribute(PyTypeObject* type) {
  static PyObject* getattribute = PyUnicode_InternFromString("__getattribute__");
  PyObject* found = _PyType_Lookup(type, getattribute);
  PyObject* of_object = _PyType_Lookup(&PyBaseObject_Type, getattribute);
  // dict and other built-in classes have entries of their own that do the same.
  const bool plain =
      found != nullptr && Py_TYPE(found) == &PyWrapperDescr_Type &&
      stator_descriptor_wraps(found, reinterpret_cast<void*>(PyObject_GenericGetAttr));
  return found != of_object && !plain ? found : nullptr;
}

// found: what the class has in place of object's.
Out callGetattribute(Tracer& tracer, PyObject* object, PyObject* name, PyObject* found) {
  static PyObject* getattribute = PyUnicode_InternFromString("__getattribute__");
  PyTypeObject* type = Py_TYPE(object);
  std::string_view kind = type->tp_name;
  // `int | str` and `list[int]` are immutable, and their attributes are facts about them.
  if (kind == "types.UnionType" || kind == "types.GenericAlias") {
    Ref<> value = stealRef(PyObject_GetAttr(object, name));
    if (!value) PyErr_Clear();
    return value;
  }
  if (!PyFunction_Check(found))
    return tracer.breakWith(Reason::kUnsupportedAttribute, std::string("of a ") + type->tp_name);
  STATOR_VALUE(checked, typeLookup(tracer, type, getattribute));
  STATOR_VALUE(function, classAttrValue(tracer, type, getattribute, checked.get()));
  PyObject* fallback = _PyType_Lookup(type, names().dunder_getattr);
  if (fallback == nullptr) {
    Args args;
    args.values = {object, name};
    args.positional = 2;
    return tracer.above.call(function.get(), args);
  }
  Out value = tracer.above.callNested(function.get(), {object, name});
  if (value.flow() != Flow::kRaise || !tracer.errors.raisedIs(PyExc_AttributeError)) return value;
  tracer.errors.dropRaised();
  return callGetattr(tracer, object, name);
}

// As object.__getattribute__, and __getattr__ after it.
Out objectAttribute(Tracer& tracer, PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  guardLookupProtocol(tracer, type);
  Out out = getAttrGeneric(tracer, object, name);
  if (type->tp_getattro == PyObject_GenericGetAttr) return out;
  // An AttributeError from a property or descriptor makes CPython ask __getattr__.
  if (out.flow() == Flow::kEntered) tracer.frames.innermost().getattr_follows = true;
  if (out.flow() == Flow::kRaise && tracer.errors.raisedIs(PyExc_AttributeError)) {
    tracer.errors.dropRaised();
    return callGetattr(tracer, object, name);
  }
  if (!out.ok() || out.get() != nullptr) return out;
  return callGetattr(tracer, object, name);
}

}  // namespace

Out getAttrOrNull(Tracer& tracer, PyObject* object, PyObject* name) {
  if (graph::isStandIn(object)) return tracer.above.tensorAttr(object, name);
  if (symbolic::isSymScalar(object) && hasValue(tracer, object)) {
    // Methods of a float (is_integer, hex ...) are about the number that it is.
    return getAttrOrNull(tracer, tracer.world.keep(concrete(tracer, object)), name);
  }
  // A read-only view has a part of what the dict behind it has.
  if (isProxied(tracer, object)) {
    if (_PyType_Lookup(mappingProxyType(), name) == nullptr) return Ref<>();
    STATOR_FLOW(refuseViewsOwn(tracer, name));
  }
  if (isTraceIterator(object)) return iteratorAttribute(tracer, object, name);
  if (PyObject* taker = PyGen_CheckExact(object) ? takerOf(tracer, object) : nullptr) {
    PyObject* state = _PyType_Lookup(Py_TYPE(object), name);
    if (state != nullptr && isDataDescriptor(state)) return iteratorAttribute(tracer, taker, name);
  }
  if (PyType_Check(object))
    return typeAttribute(tracer, reinterpret_cast<PyTypeObject*>(object), name);
  if (PyModule_CheckExact(object)) return moduleAttribute(tracer, object, name);
  PyTypeObject* type = Py_TYPE(object);
  if (isTraceTraceback(object))
    return tracer.breakWith(Reason::kUnsupportedAttribute, "of a traceback");
  if (PyExceptionInstance_Check(object) && tracer.isMade(object) &&
      PyUnicode_CompareWithASCIIString(name, "__traceback__") == 0) {
    return tracebackOf(tracer, object);
  }
  if (type == &PySuper_Type) return superAttribute(tracer, object, name);
  if (type == &PyMethod_Type) return methodAttribute(tracer, object, name);
  if (isThreadLocal(object)) return threadLocalAttr(tracer, object, name);
  // A module of a class of its own (torch._VF): an ordinary object, apart from what C's module type adds.
  static PyObject* dunder_getattribute = PyUnicode_InternFromString("__getattribute__");
  if (PyModule_Check(object) && !PyFunction_Check(_PyType_Lookup(type, dunder_getattribute))) {
    STATOR_VALUE(found, getAttrGeneric(tracer, object, name));
    if (found) return found;
    return callGetattr(tracer, object, name);
  }
  if (type->tp_getattro != PyObject_GenericGetAttr) {
    if (PyObject* found = ownGetattribute(type))
      return callGetattribute(tracer, object, name, found);
  }
  return objectAttribute(tracer, object, name);
}

Out getAttrGeneric(Tracer& tracer, PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  STATOR_VALUE(on_type, typeLookup(tracer, type, name));
  if (on_type) guardDescriptorKind(tracer, on_type.get());
  if (on_type && isDataDescriptor(on_type.get())) {
    return bindDescriptor(tracer, on_type.get(), object, type, classEntry(tracer, type, name));
  }
  STATOR_VALUE(own, instanceAttr(tracer, object, name));
  if (own) return own;
  if (!on_type) return Ref<>();
  if (isDescriptor(on_type.get()))
    return bindDescriptor(tracer, on_type.get(), object, type, classEntry(tracer, type, name));
  return classAttrValue(tracer, type, name, on_type.get());
}

// `__getattr__ = dict.get`
bool isDictMethod(PyObject* hook) {
  if (Py_TYPE(hook) != &PyMethodDescr_Type && Py_TYPE(hook) != &PyWrapperDescr_Type) return false;
  return PyType_IsSubtype(PyDescr_TYPE(hook), &PyDict_Type) != 0;
}

// The class's __getattr__, after everything else has failed.
Out callGetattr(Tracer& tracer, PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  STATOR_VALUE(hook_found, typeLookup(tracer, type, names().dunder_getattr));
  PyObject* hook = hook_found.get();
  if (hook == nullptr) return Ref<>();
  if (known::isModuleGetattr(hook)) return nnModuleAttribute(tracer, object, name);
  if (!PyFunction_Check(hook) && !isDictMethod(hook))
    return tracer.breakWith(Reason::kUnsupportedAttribute,
                            std::string(type->tp_name) + ".__getattr__ is not a Python function");
  STATOR_VALUE(checked, typeLookup(tracer, type, names().dunder_getattr));
  STATOR_VALUE(function, classAttrValue(tracer, type, names().dunder_getattr, checked.get()));
  Args args;
  args.values = {object, name};
  args.positional = 2;
  return tracer.above.call(function.get(), args);
}

void nameAttribute(Tracer& t, PyObject* object, PyObject* name) {
  PyObject* error = t.errors.raised();
  if (!PyErr_GivenExceptionMatches(error, PyExc_AttributeError)) return;
  auto* raw = reinterpret_cast<PyAttributeErrorObject*>(error);
  if (raw->name != nullptr || raw->obj != nullptr || !t.isMade(error)) return;
  raw->name = Py_NewRef(name);
  raw->obj = Py_NewRef(object);
}

void noteAttribute(Tracer& t, const SymbolicFrame& frame) {
  PyObject* access = frame.instance.get();
  if (access == nullptr || frame.then == Continuation::kPushInstance) return;
  nameAttribute(t, PyTuple_GET_ITEM(access, 0), PyTuple_GET_ITEM(access, 1));
}

Out getAttr(Tracer& tracer, PyObject* object, PyObject* name) {
  if (tracer.effects.changesLater(object))
    return tracer.breakWith(Reason::kUnsupportedAttribute, "of an object that was changed before");
  Out found = getAttrOrNull(tracer, object, name);
  if (found.flow() == Flow::kRaise) nameAttribute(tracer, object, name);
  if (found.flow() == Flow::kEntered)
    tracer.frames.innermost().instance = stealRef(PyTuple_Pack(2, object, name));
  if (!found.ok() || found.get() != nullptr) return found;
  return raiseAttributeError(tracer, object, name);
}

namespace {

// Reached from the driven frame, where another call may find another function of equal code; a class or a namespace
// that the entry knows has just this one.
bool isPassed(const Source* source) {
  while (source->base != nullptr) source = source->base;
  return source->kind != SourceKind::kPinned;
}

}  // namespace

// A function that the trace made has the globals of the frame that made it: those of the driven frame, whichever they
// are then. One from outside keeps its own, so that the driven frame's have to stay the same dict where they are one
// now. It is known by its code, which another module may have too: the globals of one that was passed have to stay what
// they are.
PyObject* globalsOf(Tracer& tracer, SymbolicFrame& frame) {
  if (frame.globals_source == nullptr) {
    const Source* pinned = tracer.world.sources().pinned(frame.globals);
    const bool shared = frame.globals == tracer.world.roots().globals;
    const Source* driven = shared ? tracer.world.root(SourceKind::kGlobals) : nullptr;
    const Source* function = tracer.sourceOf(frame.function.get());
    if (shared && !tracer.isMade(frame.function.get())) {
      tracer.world.guard(Guard{GuardKind::kSameAs, driven, pinned});
    } else if (!shared && function != nullptr && isPassed(function)) {
      const Source* own = tracer.world.child(SourceKind::kFuncGlobals, function);
      tracer.world.guard(Guard{GuardKind::kSameAs, own, pinned});
    }
    frame.globals_source = shared ? driven : pinned;
  }
  if (tracer.values.find(frame.globals) == nullptr)
    tracer.values.addOutside(frame.globals, frame.globals_source);
  return frame.globals;
}

Out loadGlobal(Tracer& tracer, SymbolicFrame& frame, PyObject* name) {
  struct Place {
    PyObject* dict;
    const Source* source;
  };
  globalsOf(tracer, frame);
  const Source* builtins_source =
      &tracer.frames.driven() == &frame && frame.globals_source->kind == SourceKind::kGlobals
          ? tracer.world.root(SourceKind::kBuiltins)
          : tracer.world.sources().pinned(frame.builtins);
  const Place places[] = {{frame.globals, frame.globals_source}, {frame.builtins, builtins_source}};
  for (const Place& place : places) {
    if (!PyDict_CheckExact(place.dict))
      return tracer.breakWith(Reason::kUnsupportedObject, "globals that are not a plain dict");
    values::Info* info = tracer.values.find(place.dict);
    if (info == nullptr) info = &tracer.values.addOutside(place.dict, place.source);
    STATOR_VALUE(found, dictGet(tracer, place.dict, name));
    if (found) return found;
  }
  return raiseNameError(tracer, PyExc_NameError, "name '%U' is not defined", name);
}

}  // namespace stator::interpret
