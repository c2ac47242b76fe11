// Objects that are called by way of something that they hold: partials, weak references, torch's operators, scripted
// functions, and C's own functions.
#include "interpret/calls/callables.h"

#include "interpret/calls/calls.h"
#include "interpret/calls/instances.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/drops.h"
#include "interpret/objects/native_calls.h"
#include "interpret/tensors/tensor_call.h"
#include "python/fields.h"
#include "python/objects.h"
#include "python/types.h"

#include <optional>
#include <string_view>

namespace stator::interpret {

void guardIdentity(Tracer& tracer, PyObject* callable) {
  if (const Source* source = tracer.sourceOf(callable))
    tracer.world.guard(Guard{GuardKind::kIs, source, nullptr, newRef(callable)});
}

Out callPartial(Tracer& tracer, PyObject* callable, const Args& args, Continuation then) {
  Ref<> function = stealRef(PyObject_GetAttrString(callable, "func"));
  Ref<> bound = stealRef(PyObject_GetAttrString(callable, "args"));
  Ref<> keywords = stealRef(PyObject_GetAttrString(callable, "keywords"));
  if (!function || !bound || !keywords) return tracer.raiseCurrentError();
  if (const Source* source = tracer.sourceOf(callable)) {
    STATOR_VALUE(f, fromOutside(tracer, function.get(),
                                tracer.world.child(SourceKind::kPartialFunc, source)));
    STATOR_VALUE(
        a, fromOutside(tracer, bound.get(), tracer.world.child(SourceKind::kPartialArgs, source)));
    STATOR_VALUE(k, fromOutside(tracer, keywords.get(),
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

Out callWeakReference(Tracer& tracer, PyObject* callable) {
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

Out callCustomOperator(Tracer& tracer, PyObject* callable, const Args& args) {
  // What torch.library.custom_op makes: the operator behind it is what the graph calls.
  static PyObject* overload_name = PyUnicode_InternFromString("_opoverload");
  Ref<> overload = stealRef(PyObject_GetAttr(callable, overload_name));
  if (!overload) return tracer.raiseCurrentError();
  guardIdentity(tracer, callable);
  tracer.world.keep(overload);
  return tensorCall(tracer, graph::Op::kCallFunction, overload.get(), args);
}

Out callScripted(Tracer& tracer, PyObject* callable, const Args& args, Continuation then) {
  // torch.jit.script keeps the function that it was made from for front ends such as this one.
  Ref<> original = stealRef(PyObject_GetAttrString(callable, "_torchdynamo_inline"));
  if (!original) {
    PyErr_Clear();
    return tracer.breakWith(Reason::kCallsOutside, "a scripted function");
  }
  guardIdentity(tracer, callable);
  if (tracer.values.find(original.get()) == nullptr) {
    STATOR_VALUE(ignored, fromOutside(tracer, original.get(),
                                      tracer.world.sources().pinned(original.get())));
  }
  tracer.world.keep(original);
  return call(tracer, original.get(), args, then);
}

namespace {

// The entry of a class that `callable` was made from. A class further down may have another one of that name, from
// which super() led here.
PyObject* classMethodOf(PyTypeObject* type, PyObject* name, PyObject* callable) {
  PyObject* mro = stator_type_mro(type);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    PyObject* entry = PyDict_GetItemWithError(stator_type_entries(base), name);
    if (entry == nullptr || Py_TYPE(entry) != &PyClassMethodDescr_Type ||
        stator_descriptor_method(entry) != stator_function_method(callable))
      continue;
    return entry;
  }
  return _PyType_Lookup(type, name);
}

// A class method in C, of which each access makes a new object while the descriptor is the same. Without a value: it is
// none.
std::optional<Out> callClassMethod(Tracer& tracer, PyObject* callable, PyObject* name,
                                   const Args& args, Continuation then) {
  PyObject* self = PyCFunction_GET_SELF(callable);
  auto* type = reinterpret_cast<PyTypeObject*>(self);
  PyObject* descriptor = classMethodOf(type, name, callable);
  if (descriptor == nullptr || Py_TYPE(descriptor) != &PyClassMethodDescr_Type) return std::nullopt;
  const CallRow* row = findCall(descriptor);
  if (row != nullptr && row->kind == CallKind::kHandler)
    return deliverTo(tracer, row->handler(tracer, args.withFirst(self)), then);
  if (!stator_is_user_class(type)) return callNative(tracer, callable, args);
  return std::nullopt;
}

// A method that is bound to an object, whose type and the method's name are guarded. Without a value: it is none.
std::optional<Out> callBoundMethod(Tracer& tracer, PyObject* callable, const Ref<>& name,
                                   const Args& args, Continuation then) {
  PyObject* self = PyCFunction_GET_SELF(callable);
  PyObject* descriptor = _PyType_Lookup(Py_TYPE(self), name.get());
  if (descriptor == nullptr || Py_TYPE(descriptor) != &PyMethodDescr_Type) return std::nullopt;
  Ref<> object = newRef(self);
  if (const Source* source = tracer.sourceOf(callable)) {
    STATOR_VALUE(named,
                 fromOutside(tracer, name.get(),
                             tracer.world.child(SourceKind::kGenericAttr, source, names().name)));
    STATOR_VALUE(read,
                 fromOutside(tracer, self, tracer.world.child(SourceKind::kMethodSelf, source)));
    object = std::move(read);
  }
  tracer.world.keep(object);
  return call(tracer, descriptor, args.withFirst(object.get()), then);
}

}  // namespace

Out callBuiltinFunction(Tracer& tracer, PyObject* callable, const Args& args, Continuation then) {
  PyObject* self = PyCFunction_GET_SELF(callable);
  const char* ml_name = stator_function_method(callable)->ml_name;
  // tp_new wrappers: object.__new__, tuple.__new__, dict.__new__ ...
  if (self != nullptr && PyType_Check(self) && std::string_view(ml_name) == "__new__")
    return nativeNew(tracer, reinterpret_cast<PyTypeObject*>(self), args);
  if (self != nullptr && !PyModule_Check(self)) {
    Ref<> name = stealRef(PyUnicode_InternFromString(ml_name));
    std::optional<Out> out = PyType_Check(self)
                                 ? callClassMethod(tracer, callable, name.get(), args, then)
                                 : callBoundMethod(tracer, callable, name, args, then);
    if (out) return std::move(*out);
  }
  // What a placement says of itself: C++ that looks at nothing else.
  if (args.positional > 0 && isPlacement(args.values[0])) return callNative(tracer, callable, args);
  return tracer.breakWith(Reason::kCallsOutside, nameOf(callable));
}

}  // namespace stator::interpret
