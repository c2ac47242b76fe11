// Built-in functions and types.
#include "interpret/calls/classes.h"
#include "interpret/calls/instance_checks.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/symbols.h"
#include "interpret/core/tables.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/library/containers.h"
#include "interpret/library/rows.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/keys.h"
#include "interpret/objects/native_calls.h"
#include "interpret/objects/outside_numbers.h"
#include "interpret/objects/scalars.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/subclass_checks.h"
#include "interpret/objects/texts.h"
#include "interpret/objects/truth.h"
#include "interpret/objects/updates.h"
#include "interpret/tensors/arrays.h"
#include "interpret/tensors/tensor_attributes.h"
#include "python/objects.h"
#include "python/types.h"
#include "symbolic/sym_int.h"

#include <string_view>

namespace stator::interpret {

namespace {

Out len(Tracer& t, const Args& args) {
  NEED(1, "len");
  return length(t, args.values[0]);
}

Out isinstance(Tracer& t, const Args& args) {
  NEED(2, "isinstance");
  return isInstance(t, args.values[0], args.values[1]);
}

Out issubclass(Tracer& t, const Args& args) {
  NEED(2, "issubclass");
  return isSubclass(t, args.values[0], args.values[1]);
}

Out typeCall(Tracer& t, const Args& args) {
  if (args.values.size() != 1) return makeClass(t, &PyType_Type, args);
  if (args.keywordCount() != 0) return wrongArguments(t, "type");
  if (isSomeGradFn(args.values[0]))
    return t.breakWith(Reason::kUnsupportedAttribute, "the type of a grad_fn");
  PyTypeObject* type = typeOf(t, args.values[0]);
  if (isTraceArray(args.values[0]) && !isArrayCode(t.frames.innermost().code->code()))
    type = arrayTypeSeen(args.values[0]);
  return newRef(reinterpret_cast<PyObject*>(type));
}

Out listCall(Tracer& t, const Args& args) {
  if (args.values.empty()) return stealRef(PyList_New(0));
  NEED(1, "list");
  return sizedListOf(t, args.values[0]);
}

Out tupleCall(Tracer& t, const Args& args) {
  if (args.values.empty()) return stealRef(PyTuple_New(0));
  NEED(1, "tuple");
  if (PyTuple_CheckExact(args.values[0])) return newRef(args.values[0]);
  STATOR_VALUE(items, sizedListOf(t, args.values[0]));
  return stealRef(PyList_AsTuple(items.get()));
}

Out setLike(Tracer& t, const Args& args, bool frozen) {
  if (args.keywordCount() != 0 || args.values.size() > 1) return wrongArguments(t, "set");
  if (frozen && args.values.size() == 1 && PyFrozenSet_CheckExact(args.values[0]))
    return newRef(args.values[0]);
  Ref<> items = stealRef(PyList_New(0));
  if (!args.values.empty()) {
    // Of a set CPython takes the elements, whatever a subclass has for __iter__.
    STATOR_VALUE(operand, PyAnySet_Check(args.values[0]) ? contents(t, args.values[0])
                                                         : setOperand(t, args.values[0]));
    items = std::move(operand);
  }
  STATOR_VALUE(set, withOwnKeys(t, nullptr, [&](PyObject*) {
                 return frozen ? PyFrozenSet_New(items.get()) : PySet_New(items.get());
               }));
  return t.fromNative(set);
}
Out setCall(Tracer& t, const Args& args) { return setLike(t, args, false); }
Out frozensetCall(Tracer& t, const Args& args) { return setLike(t, args, true); }

Out dictCall(Tracer& t, const Args& args) {
  Ref<> dict = stealRef(PyDict_New());
  STATOR_FLOW(dictUpdate(t, dict.get(), args));
  return dict;
}

Out boolCall(Tracer& t, const Args& args) {
  if (args.values.empty()) return boolean(false);
  NEED(1, "bool");
  return truth(t, args.values[0]);
}

Out truthCall(Tracer& t, const Args& args) {
  NEED(1, "truth");
  return boolCall(t, args);
}

Out textCall(Tracer& t, const Args& args, bool repr) {
  if (args.values.empty() && !repr) return stealRef(PyUnicode_FromString(""));
  PyObject* const own =
      repr ? builtinFunction("repr") : reinterpret_cast<PyObject*>(&PyUnicode_Type);
  const bool named = args.keywordCount() != 0;
  if (args.values.size() != 1 || (named && (repr || args.keyword("object") == nullptr)))
    return callNative(t, own, args);
  PyObject* value = args.values[0];
  for (const char* method : {repr ? "__repr__" : "__str__", "__repr__"}) {
    // A __str__ in C (`__str__ = int.__repr__`, as enums have it) goes before a __repr__ in Python.
    bool other_str =
        !repr && !graph::isStandIn(value) && Py_TYPE(value)->tp_str != PyBaseObject_Type.tp_str;
    if (other_str && std::string_view(method) == "__repr__") break;
    if (!graph::isStandIn(value) && isUserOverride(t, value, method)) {
      return programmedText(t, value, method, repr ? "__repr__" : "__str__", Args{});
    }
  }
  if (PyFunction_Check(value)) return textOfFunction(t, value);
  // importlib looks at the module's attributes.
  if (PyModule_Check(value)) return t.breakWith(Reason::kUnsupportedObject, "the text of a module");
  STATOR_VALUE(exact, exactScalar(t, value));
  if (exact && Py_TYPE(value)->tp_str == Py_TYPE(exact.get())->tp_str &&
      Py_TYPE(value)->tp_repr == Py_TYPE(exact.get())->tp_repr)
    return t.fromNative(stealRef(repr ? PyObject_Repr(exact.get()) : PyObject_Str(exact.get())));
  if (t.isMade(value) && stator_is_user_class(Py_TYPE(value)) &&
      Py_TYPE(value)->tp_repr == PyBaseObject_Type.tp_repr &&
      Py_TYPE(value)->tp_str == PyBaseObject_Type.tp_str) {
    // <module.Class object at 0x...>: any address serves, as long as nobody gets to see the object beside it.
    t.values.find(value)->address_shown = true;
    return t.fromNative(stealRef(PyObject_Repr(value)));
  }
  if (isTextContainer(value)) return textOf(t, value, repr);
  return callNative(t, own, args);
}
Out strCall(Tracer& t, const Args& args) { return textCall(t, args, false); }
Out reprCall(Tracer& t, const Args& args) { return textCall(t, args, true); }

Out callableCall(Tracer& t, const Args& args) {
  NEED(1, "callable");
  PyObject* value = args.values[0];
  if (graph::isStandIn(value) || isTraceIterator(value) || symbolic::isSymbol(value))
    return boolean(false);
  return boolean(PyCallable_Check(value) != 0);
}

Out idCall(Tracer& t, const Args& args) {
  NEED(1, "id");
  return addressOf(t, args.values[0]);
}

Out hashCall(Tracer& t, const Args& args) {
  NEED(1, "hash");
  PyObject* value = args.values[0];
  if (graph::isStandIn(value)) return addressOf(t, value);  // what Tensor.__hash__ gives
  if (isUserOverride(t, value, "__hash__")) {
    return hashOf(t, value);
  }
  if (Py_TYPE(value)->tp_hash == PyObject_HashNotImplemented && !isTraceIterator(value))
    return t.raiseNew(PyExc_TypeError, "unhashable type: '%.200s'", Py_TYPE(value)->tp_name);
  if (PyTuple_Check(value) && Py_TYPE(value)->tp_hash == PyTuple_Type.tp_hash &&
      !isNativeSafe(t, value))
    return tupleHash(t, value);
  if (!isNativeSafe(t, args.values[0]) || PyType_Check(args.values[0]))
    return t.breakWith(Reason::kUnsupportedObject, "hash() of an object");
  return callNative(t, builtinFunction("hash"), args);
}

Out sliceCall(Tracer& t, const Args& args) {
  if (args.keywordCount() != 0 || args.positional == 0 || args.positional > 3)
    return wrongArguments(t, "slice");
  PyObject* start = args.positional > 1 ? args.values[0] : nullptr;
  PyObject* stop = args.positional > 1 ? args.values[1] : args.values[0];
  return stealRef(PySlice_New(start, stop, args.positional > 2 ? args.values[2] : nullptr));
}

Out partialCall(Tracer& t, const Args& args) {
  if (args.positional == 0) return wrongArguments(t, "partial");
  // functools.partial only keeps references; it checks that its first argument is callable.
  if (graph::isStandIn(args.values[0])) return wrongArguments(t, "partial");
  PyObject* inner = args.values[0];
  if (const sources::Source* source =
          Py_TYPE(inner) == partialType() ? t.sourceOf(inner) : nullptr) {
    // CPython takes a partial of a partial apart; what lies in one from outside has to get its sources.
    Ref<> function = stealRef(PyObject_GetAttrString(inner, "func")),
          bound = stealRef(PyObject_GetAttrString(inner, "args"));
    Ref<> keywords = stealRef(PyObject_GetAttrString(inner, "keywords"));
    if (!function || !bound || !keywords) return t.raiseCurrentError();
    // One with a __dict__, which asking for it would make, is not taken apart.
    PyObject** attributes = _PyObject_GetDictPtr(inner);
    if (attributes != nullptr && *attributes != nullptr)
      return t.breakWith(Reason::kCallsOutside, "partial() of a partial with attributes");
    STATOR_VALUE(f, fromOutside(t, function.get(),
                                t.world.child(sources::SourceKind::kPartialFunc, source)));
    STATOR_VALUE(
        a, fromOutside(t, bound.get(), t.world.child(sources::SourceKind::kPartialArgs, source)));
    STATOR_VALUE(k, fromOutside(t, keywords.get(),
                                t.world.child(sources::SourceKind::kPartialKeywords, source)));
    STATOR_VALUE(items, contents(t, a.get()));
    STATOR_VALUE(named, contents(t, k.get()));
    Ref<> copy = stealRef(PyObject_CallOneArg(reinterpret_cast<PyObject*>(partialType()), f.get()));
    Ref<> state = stealRef(PyTuple_Pack(4, f.get(), items.get(), named.get(), Py_None));
    Ref<> done = copy ? stealRef(PyObject_CallMethod(copy.get(), "__setstate__", "O", state.get()))
                      : Ref<>();
    if (!done) return t.raiseCurrentError();
    Args again = args;
    again.values[0] = copy.get();
    return partialCall(t, again);
  }
  Ref<> result = stealRef(PyObject_Vectorcall(reinterpret_cast<PyObject*>(partialType()),
                                              args.values.data(), args.positional, args.names));
  return fromNativeMade(t, std::move(result));
}

// typing.cast and friends that hand back an argument.
Out secondArgument(Tracer& t, const Args& args) {
  NEED(2, "cast");
  return newRef(args.values[1]);
}

// Tensors of one whole number among the bounds are read, if that is possible where the entry begins.
Out rangeCall(Tracer& t, const Args& args) {
  Args bounds = args;
  for (PyObject*& bound : bounds.values) {
    if (!graph::isStandIn(bound)) continue;
    STATOR_VALUE(number, outsideSizes(t, bound));
    if (!number) continue;
    bound = t.world.keep(symbolic::isSymbol(number.get()) ? concrete(t, number.get())
                                                          : std::move(number));
  }
  return callNative(t, reinterpret_cast<PyObject*>(&PyRange_Type), bounds);
}

}  // namespace

void registerBuiltins() {
  const std::pair<const char*, CallHandler> rows[] = {
      {"builtins.len", len},
      {"builtins.isinstance", isinstance},
      {"builtins.issubclass", issubclass},
      {"builtins.type", typeCall},
      {"builtins.list", listCall},
      {"builtins.tuple", tupleCall},
      {"builtins.set", setCall},
      {"builtins.frozenset", frozensetCall},
      {"builtins.dict", dictCall},
      {"builtins.bool", boolCall},
      {"builtins.str", strCall},
      {"builtins.repr", reprCall},
      {"builtins.callable", callableCall},
      {"builtins.id", idCall},
      {"builtins.hash", hashCall},
      {"builtins.slice", sliceCall},
      {"builtins.range", rangeCall},
      {"functools.partial", partialCall},
      {"typing.cast", secondArgument},

      {"operator.truth", truthCall},
  };
  for (const auto& [path, handler] : rows) registerHandler(path, handler);
  for (const char* path :
       {"builtins.complex", "builtins.bytes", "builtins.bytearray", "builtins.chr", "builtins.ord",
        "builtins.format", "builtins.bin", "builtins.hex", "builtins.oct", "builtins.ascii",
        "operator.index", "builtins.str.maketrans", "sys.getrecursionlimit", "sys.intern"}) {
    registerPure(path);
  }
}

// Handlers that move their arguments, or hand them to the tracer's own operators.
void allowSymbolsInHandlers() {
  for (const char* path : {"isinstance",  "type",
                           "setattr",     "iter",
                           "zip",         "map",
                           "filter",      "list",
                           "tuple",       "dict",
                           "bool",        "int",
                           "sum",         "any",
                           "all",         "max",
                           "min",         "pow",
                           "slice",       "list.append",
                           "list.extend", "dict.setdefault",
                           "dict.update", "dict.get",
                           "float",       "abs",
                           "divmod",      "callable",
                           "hasattr"}) {
    allowSymbols((std::string("builtins.") + path).c_str());
  }
  for (const char* path : {"lshift", "rshift",  "add",    "floordiv", "mul",     "mod",     "pow",
                           "sub",    "truediv", "iadd",   "imul",     "isub",    "lt",      "le",
                           "eq",     "ne",      "gt",     "ge",       "pos",     "neg",     "not_",
                           "truth",  "is_",     "is_not", "getitem",  "setitem", "contains"}) {
    allowSymbols((std::string("operator.") + path).c_str());
  }
  for (const char* path : {"operator.abs", "torch.is_tensor", "torch.Size", "torch.Size.numel",
                           "torch.Tensor.size", "typing.cast", "collections.deque.append"})
    allowSymbols(path);
}

}  // namespace stator::interpret
