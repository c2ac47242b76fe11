// Built-in functions and types.
#include "interpret/calls/calls.h"
#include "interpret/calls/classes.h"
#include "interpret/calls/instances.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/sym_scalars.h"
#include "interpret/core/symbols.h"
#include "interpret/core/tables.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/trace_traceback.h"
#include "interpret/core/tracer.h"
#include "interpret/library/containers.h"
#include "interpret/library/rows.h"
#include "interpret/objects/attribute_writes.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/items.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/keys.h"
#include "interpret/objects/known_scalars.h"
#include "interpret/objects/native_calls.h"
#include "interpret/objects/operators.h"
#include "interpret/objects/scalars.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/subclass_checks.h"
#include "interpret/objects/texts.h"
#include "interpret/objects/updates.h"
#include "interpret/tensors/arrays.h"
#include "interpret/tensors/tensor_attributes.h"
#include "interpret/tensors/tensor_call.h"
#include "interpret/tensors/torch_calls.h"
#include "python/objects.h"
#include "python/types.h"
#include "symbolic/sym_int.h"

#include <string_view>

namespace stator::interpret {

namespace {

// floor or ceil of a quotient of two ints, of which the graph computes one at least: an int again. As long as the dividend fits into a
// double, a quotient that is no integer is not rounded to one, so the integers' own division says the same. Null: not for this one.
Out roundedQuotient(Tracer& t, PyObject* object, bool up) {
  if (!symbolic::isSymScalar(object) || symbolic::asSymScalar(object)->stand_in == nullptr)
    return Ref<>();
  graph::Node* node = graph::asStandIn(symbolic::asSymScalar(object)->stand_in)->node;
  if (node->op != graph::Op::kCallFunction || node->target.get() != operatorFunction("truediv"))
    return Ref<>();
  std::array<Ref<>, 2> parts;
  for (Py_ssize_t i = 0; i < 2; ++i) {
    PyObject* part = PyTuple_GET_ITEM(node->args.get(), i);
    int overflow = 0;
    if (PyLong_CheckExact(part) &&
        std::abs(static_cast<double>(PyLong_AsLongLongAndOverflow(part, &overflow))) < 1e9 &&
        overflow == 0) {
      parts[static_cast<size_t>(i)] = newRef(part);
    } else if (graph::isStandIn(part) && !graph::asStandIn(part)->node->size.isStatic()) {
      parts[static_cast<size_t>(i)] = symInt(t, graph::asStandIn(part)->node->size);
    } else {
      return Ref<>();
    }
  }
  auto exprOf = [&](const Ref<>& part) {
    return symbolic::isSymInt(part.get())
               ? t.sizes.environment().simplify(symbolic::dimOf(part.get()).expr())
               : symbolic::integer(PyLong_AsLongLong(part.get()));
  };
  const symbolic::Expr *dividend = exprOf(parts[0]), *divisor = exprOf(parts[1]);
  const symbolic::Expr* largest = symbolic::integer(int64_t{1} << 53);
  for (const symbolic::Expr* condition :
       {symbolic::lessThan(dividend, largest),
        symbolic::lessThan(symbolic::multiply(symbolic::integer(-1), largest), dividend),
        symbolic::lessThan(symbolic::integer(0), divisor)}) {
    if (!t.sizes.environment().decide(condition)) return Ref<>();
  }
  if (!up) return binary(t, 2, parts[0].get(), parts[1].get());
  STATOR_VALUE(negative, unary(t, 1, parts[0].get()));
  STATOR_VALUE(quotient, binary(t, 2, negative.get(), parts[1].get()));
  return unary(t, 1, quotient.get());
}

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
  if (isSomeGradFn(args.values[0]))
    return t.breakWith(Reason::kUnsupportedAttribute, "the type of a grad_fn");
  PyTypeObject* type = typeOf(t, args.values[0]);
  if (isTraceArray(args.values[0]) && !isArrayCode(t.frames.innermost().code->code()))
    type = arrayTypeSeen(args.values[0]);
  return newRef(reinterpret_cast<PyObject*>(type));
}

Out getAttribute(Tracer& t, const Args& args) {
  if (args.keywordCount() != 0 || args.positional < 2 || args.positional > 3 ||
      !PyUnicode_Check(args.values[1]))
    return wrongArguments(t, "getattr");
  if (args.positional == 2) return getAttr(t, args.values[0], args.values[1]);
  Out found = settle(t, getAttrOrNull(t, args.values[0], args.values[1]));
  if (found.flow() == Flow::kRaise && t.errors.raisedIs(PyExc_AttributeError)) {
    t.errors.dropRaised();
    return newRef(args.values[2]);
  }
  if (!found.ok()) return found;
  return found.get() != nullptr ? found.take() : newRef(args.values[2]);
}

Out hasAttribute(Tracer& t, const Args& args) {
  NEED(2, "hasattr");
  if (!PyUnicode_Check(args.values[1])) return wrongArguments(t, "hasattr");
  Out found = settle(t, getAttrOrNull(t, args.values[0], args.values[1]));
  if (found.flow() == Flow::kRaise && t.errors.raisedIs(PyExc_AttributeError)) {
    t.errors.dropRaised();
    return boolean(false);
  }
  if (!found.ok()) return found;
  return boolean(found.get() != nullptr);
}

Out setAttribute(Tracer& t, const Args& args) {
  NEED(3, "setattr");
  if (!PyUnicode_Check(args.values[1])) return wrongArguments(t, "setattr");
  Out done = settle(t, setAttr(t, args.values[0], args.values[1], args.values[2]));
  if (!done.ok()) return done;
  return newRef(Py_None);
}

Out delAttribute(Tracer& t, const Args& args) {
  NEED(2, "delattr");
  Out done = settle(t, setAttr(t, args.values[0], args.values[1], nullptr));
  if (!done.ok()) return done;
  return newRef(Py_None);
}

Out iterCall(Tracer& t, const Args& args) {
  if (args.positional == 2 && args.keywordCount() == 0) {
    return t.made(makeTraceIterator(IteratorKind::kCallable,
                                    {newRef(args.values[0]), newRef(args.values[1])}));
  }
  NEED(1, "iter");
  return iterate(t, args.values[0]);
}

Out nextCall(Tracer& t, const Args& args) {
  if (args.keywordCount() != 0 || args.positional < 1 || args.positional > 2)
    return wrongArguments(t, "next");
  PyObject* iterator = args.values[0];
  if (args.positional == 1 && !graph::isStandIn(iterator) && !isTraceIterator(iterator) &&
      !stator_iterator_known(iterator) && isUserOverride(t, iterator, "__next__")) {
    // The StopIteration that it raises comes through as it is, with its value.
    STATOR_VALUE(bound, special(t, iterator, "__next__"));
    return callNested(t, bound.get(), {});
  }
  STATOR_VALUE(item, next(t, args.values[0]));
  if (item) return item;
  if (args.positional == 2) return newRef(args.values[1]);
  return raiseStop(t, args.values[0]);
}

Out zipCall(Tracer& t, const Args& args) {
  bool strict = false;
  if (args.keywordCount() != 0) {
    PyObject* flag = args.keyword("strict");
    if (flag == nullptr || args.keywordCount() != 1) return wrongArguments(t, "zip");
    strict = flag == Py_True;
  }
  std::vector<Ref<>> parts;
  for (size_t i = 0; i < args.positional; ++i) {
    STATOR_VALUE(part, iterate(t, args.values[i]));
    parts.push_back(std::move(part));
  }
  Ref<> zip = makeTraceIterator(IteratorKind::kZip, std::move(parts));
  asTraceIterator(zip.get())->flag = strict;
  return t.made(zip);
}

Out enumerateCall(Tracer& t, const Args& args) {
  if (args.positional < 1) return wrongArguments(t, "enumerate");
  PyObject* start = args.positional > 1 ? args.values[1] : args.keyword("start");
  int64_t first = 0;
  if (start != nullptr) {
    if (!PyLong_CheckExact(start))
      return t.breakWith(Reason::kUnsupportedObject, "enumerate() from something else than an int");
    int overflow = 0;
    first = PyLong_AsLongLongAndOverflow(start, &overflow);
    if (overflow != 0 || first > INT64_MAX / 2)
      return t.breakWith(Reason::kUnsupportedObject, "enumerate() from a very large number");
  }
  STATOR_VALUE(part, iterate(t, args.values[0]));
  return t.made(makeTraceIterator(IteratorKind::kEnumerate, {part}, first));
}

Out mapCall(Tracer& t, const Args& args) {
  if (args.positional < 2 || args.keywordCount() != 0) return wrongArguments(t, "map");
  std::vector<Ref<>> parts = {newRef(args.values[0])};
  for (size_t i = 1; i < args.positional; ++i) {
    STATOR_VALUE(part, iterate(t, args.values[i]));
    parts.push_back(std::move(part));
  }
  return t.made(makeTraceIterator(IteratorKind::kMap, std::move(parts)));
}

Out filterCall(Tracer& t, const Args& args) {
  NEED(2, "filter");
  STATOR_VALUE(part, iterate(t, args.values[1]));
  return t.made(makeTraceIterator(IteratorKind::kFilter, {newRef(args.values[0]), part}));
}

// A class with a __reversed__ of its own, or with other methods that reversed() asks of what has none in C (or iter() of a dict, which
// stands for dict's own here).
bool reversesOtherwise(Tracer& t, PyObject* sequence) {
  if (graph::isStandIn(sequence) || isTraceIterator(sequence)) return false;
  PyTypeObject* type = Py_TYPE(sequence);
  if (!stator_is_user_class(type)) return false;
  if (isProgrammed(t, type, "__reversed__")) return true;
  if (PyList_Check(sequence)) return false;
  if (PyDict_Check(sequence)) return isProgrammed(t, type, "__iter__");
  return isProgrammed(t, type, "__len__") || isProgrammed(t, type, "__getitem__");
}

Out reversedCall(Tracer& t, const Args& args) {
  NEED(1, "reversed");
  PyObject* sequence = args.values[0];
  if (reversesOtherwise(t, sequence)) {
    if (isDenied(t, Py_TYPE(sequence), "__reversed__"))
      return t.raiseNew(PyExc_TypeError, "'%.200s' object is not reversible",
                        Py_TYPE(sequence)->tp_name);
  } else if (PyList_Check(sequence) || PyTuple_Check(sequence) || PyRange_Check(sequence) ||
             PyUnicode_Check(sequence)) {
    STATOR_VALUE(items, contents(t, sequence));
    return t.made(makeTraceIterator(IteratorKind::kReversed, {newRef(sequence)},
                                    PyObject_Size(items.get()) - 1));
  } else if (PyDict_Check(sequence) || isDictView(sequence)) {
    return reversedKeys(t, sequence);
  }
  if (graph::isStandIn(sequence) || isTraceIterator(sequence))
    return t.breakWith(Reason::kUnsupportedIterator, "reversed()");
  STATOR_VALUE(bound, special(t, sequence, "__reversed__"));
  if (bound) return callNested(t, bound.get(), {});
  if (PySequence_Check(sequence) == 0)
    return t.raiseNew(PyExc_TypeError, "'%.200s' object is not reversible",
                      typeOf(t, sequence)->tp_name);
  STATOR_VALUE(count_out, settle(t, length(t, sequence)));
  if (!PyLong_CheckExact(count_out.get()))
    return t.breakWith(Reason::kUnsupportedIterator, "reversed()");
  Ref<> made = makeTraceIterator(IteratorKind::kReversed, {newRef(sequence)},
                                 PyLong_AsSsize_t(count_out.get()) - 1);
  asTraceIterator(made.get())->flag = true;
  return t.made(made);
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
  STATOR_VALUE(set, keyed(t, nullptr, [&](PyObject*) {
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

Out numberCall(Tracer& t, const Args& args, PyTypeObject* type, const char* method) {
  if (args.values.size() == 1) {
    PyObject* value = args.values[0];
    if (graph::isStandIn(value)) {
      if (Ref<> known = knownTensor(t, value))
        return t.fromNative(
            stealRef(PyObject_CallOneArg(reinterpret_cast<PyObject*>(type), known.get())));
      if (t.options.capture_scalar_outputs) {
        Ref<> name = stealRef(PyUnicode_FromString(method));
        STATOR_VALUE(read, readIntoGraph(t, name.get(), value));
        if (read) return read;
      }
      return t.breakWith(Reason::kDataDependentRead, std::string(type->tp_name) + "() of a tensor");
    }
    if (isUserOverride(t, value, method)) {
      STATOR_VALUE(bound, special(t, value, method));
      STATOR_VALUE(number, callNested(t, bound.get(), {}));
      if (!graph::isStandIn(number.get()) && typeOf(t, number.get()) != type)
        return t.breakWith(Reason::kRaises, std::string(method) + " that gives another type");
      return number;
    }
    static PyObject* const index_name = PyUnicode_InternFromString("__index__");
    STATOR_VALUE(exact, exactScalar(t, value));
    if (exact && Py_TYPE(exact.get()) == type) {
      Ref<> method_name = stealRef(PyUnicode_InternFromString(method));
      STATOR_VALUE(own, typeLookup(t, Py_TYPE(value), method_name.get()));
      if (own.get() == _PyType_Lookup(type, PyDescr_NAME(own.get()))) return exact;
    }
    if (!exact && isUserOverride(t, value, "__index__")) {
      STATOR_VALUE(on_type, typeLookup(t, Py_TYPE(value), index_name));
      STATOR_VALUE(bound, special(t, value, "__index__"));
      STATOR_VALUE(number, callNested(t, bound.get(), {}));
      if (PyLong_CheckExact(number.get())) {
        Args one = args;
        one.values[0] = number.get();
        return callNative(t, reinterpret_cast<PyObject*>(type), one);
      }
      return t.breakWith(Reason::kRaises, "__index__ that gives no int");
    }
  }
  return callNative(t, reinterpret_cast<PyObject*>(type), args);
}
Out intCall(Tracer& t, const Args& args) {
  if (args.values.size() == 1 && args.positional == 1 && symbolic::isSymInt(args.values[0]))
    return newRef(args.values[0]);
  if (args.values.size() == 1 && args.positional == 1 && symbolic::isSymScalar(args.values[0])) {
    // Towards 0, which is down as long as it is not negative.
    STATOR_VALUE(made, roundedQuotient(t, args.values[0], false));
    Ref<> zero = stealRef(PyLong_FromLong(0));
    if (made) {
      STATOR_VALUE(positive, compare(t, Py_GE, made.get(), zero.get()));
      if (positive.get() == Py_True) return made;
    }
  }
  return numberCall(t, args, &PyLong_Type, "__int__");
}
Out floatCall(Tracer& t, const Args& args) {
  if (args.values.size() == 1 && args.positional == 1 && symbolic::isSymInt(args.values[0])) {
    if (Ref<> made = floatOf(t, args.values[0], torchObject("torch.sym_float"))) return made;
  }
  return numberCall(t, args, &PyFloat_Type, "__float__");
}

Out textCall(Tracer& t, const Args& args, bool repr) {
  if (args.values.empty() && !repr) return stealRef(PyUnicode_FromString(""));
  if (args.values.size() != 1)
    return callNative(t, reinterpret_cast<PyObject*>(&PyUnicode_Type), args);
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
  return callNative(
      t, repr ? builtinFunction("repr") : reinterpret_cast<PyObject*>(&PyUnicode_Type), args);
}
Out strCall(Tracer& t, const Args& args) { return textCall(t, args, false); }
Out reprCall(Tracer& t, const Args& args) { return textCall(t, args, true); }

Out superCall(Tracer& t, const Args& args) {
  if (args.keywordCount() != 0) return wrongArguments(t, "super");
  Ref<> cls, self;
  if (args.positional == 0) {
    SymbolicFrame& frame = t.frames.innermost();
    PyCodeObject* code = frame.code->code();
    if (code->co_argcount == 0) return t.breakWith(Reason::kRaises, "super() without arguments");
    STATOR_VALUE(first, readSlot(t, frame, 0));
    if (first && PyCell_Check(first.get()) && stator_code_slot_is_cell(code, 0) != 0) {
      STATOR_VALUE(inside, cellContents(t, first.get()));
      first = inside;
    }
    PyObject* slot_names = stator_code_slot_names(code);
    for (size_t i = 0; i < frame.slots.size(); ++i) {
      if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(slot_names, static_cast<Py_ssize_t>(i)),
                                           "__class__") != 0)
        continue;
      STATOR_VALUE(cell, readSlot(t, frame, i));
      if (cell && PyCell_Check(cell.get())) {
        STATOR_VALUE(inside, cellContents(t, cell.get()));
        cls = inside;
      }
    }
    self = std::move(first);
  } else if (args.positional == 2) {
    cls = newRef(args.values[0]);
    self = newRef(args.values[1]);
  }
  if (cls && self && PyType_Check(cls.get()) && graph::isStandIn(self.get()) &&
      PyType_IsSubtype(typeOf(t, self.get()), reinterpret_cast<PyTypeObject*>(cls.get()))) {
    return fromNativeMade(t, stealRef(stator_make_super(reinterpret_cast<PyTypeObject*>(cls.get()),
                                                        self.get(), typeOf(t, self.get()))));
  }
  if (!cls || !self || !PyType_Check(cls.get()) || graph::isStandIn(self.get()) ||
      isTraceIterator(self.get())) {
    return t.breakWith(Reason::kUnsupportedObject, "super()");
  }
  Ref<> super = stealRef(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PySuper_Type),
                                                      cls.get(), self.get(), nullptr));
  return fromNativeMade(t, std::move(super));
}

Out localsCall(Tracer& t, const Args& args) {
  NEED(0, "locals");
  SymbolicFrame& frame = t.frames.innermost();
  PyCodeObject* code = frame.code->code();
  if ((code->co_flags & CO_OPTIMIZED) == 0)
    return t.breakWith(Reason::kUnsupportedObject, "locals() of a class body");
  PyObject* slot_names = stator_code_slot_names(code);
  Ref<> dict = stealRef(PyDict_New());
  for (size_t i = 0; i < frame.slots.size(); ++i) {
    STATOR_VALUE(value, readSlot(t, frame, i));
    if (value && PyCell_Check(value.get())) {
      STATOR_VALUE(inside, cellContents(t, value.get()));
      value = inside;
    }
    if (value)
      PyDict_SetItem(dict.get(), PyTuple_GET_ITEM(slot_names, static_cast<Py_ssize_t>(i)),
                     value.get());
  }
  return t.made(dict);
}

Out globalsCall(Tracer& t, const Args& args) {
  NEED(0, "globals");
  SymbolicFrame& frame = t.frames.innermost();
  if (frame.globals_source == nullptr)
    frame.globals_source = t.world.sources().pinned(frame.globals);
  if (t.values.find(frame.globals) == nullptr)
    t.values.addOutside(frame.globals, frame.globals_source);
  return newRef(frame.globals);
}

Out varsCall(Tracer& t, const Args& args) {
  if (args.values.empty()) return localsCall(t, args);
  NEED(1, "vars");
  STATOR_VALUE(dict, settle(t, getAttrOrNull(t, args.values[0], names().dunder_dict)));
  if (dict) return dict;
  return t.raiseNew(PyExc_TypeError, "vars() argument must have __dict__ attribute");
}

// Names of an instance and of its class, which has to stay as it is.
Out dirCall(Tracer& t, const Args& args) {
  NEED(1, "dir");
  PyObject* object = args.values[0];
  if (graph::isStandIn(object) || isTraceIterator(object) || PyModule_Check(object) ||
      isTraceTraceback(object) || isUserOverride(t, object, "__dir__")) {
    return t.breakWith(Reason::kUnsupportedObject, "dir()");
  }
  PyTypeObject* type =
      PyType_Check(object) ? reinterpret_cast<PyTypeObject*>(object) : typeOf(t, object);
  static PyObject* const dunder_dir = PyUnicode_InternFromString("__dir__");
  if (!PyType_Check(object) &&
      _PyType_Lookup(type, dunder_dir) != _PyType_Lookup(&PyBaseObject_Type, dunder_dir))
    return t.breakWith(Reason::kUnsupportedObject, "dir()");
  // object.__dir__ asks for `__dict__` and `__class__`, which methods answer in their own way, and classes may.
  STATOR_VALUE(said, typeLookup(t, type, names().dunder_class));
  if (PyMethod_Check(object) || (!PyType_Check(object) && said.get() != classDescriptor()))
    return t.breakWith(Reason::kUnsupportedObject, "dir()");
  if (t.classes.anyWritten())
    return t.breakWith(Reason::kUnsupportedObject, "dir() after a class was written to");
  if (stator_is_user_class(type)) {
    t.world.guard(guards::Guard{guards::GuardKind::kTypeVersion,
                                t.world.sources().pinned(reinterpret_cast<PyObject*>(type)),
                                nullptr, newRef(reinterpret_cast<PyObject*>(type))});
  }
  Ref<> found = stealRef(PyObject_Dir(reinterpret_cast<PyObject*>(type)));
  if (!found || PyType_Check(object) || !hasInstanceDict(object))
    return t.fromNative(std::move(found));
  STATOR_VALUE(dict, settle(t, getAttr(t, object, names().dunder_dict)));
  STATOR_VALUE(own, listOf(t, dict.get()));
  if (!isNativeSafe(t, own.get())) return t.breakWith(Reason::kUnsupportedObject, "dir()");
  Ref<> all = stealRef(PySet_New(found.get()));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(own.get()); ++i)
    PySet_Add(all.get(), PyList_GET_ITEM(own.get(), i));
  Ref<> sorted = stealRef(PySequence_List(all.get()));
  if (PyList_Sort(sorted.get()) != 0) return t.raiseCurrentError();
  return sorted;
}

// Three forms of a number's method: divmod(), round(), pow().
Out throughMethod(Tracer& t, const Args& args, const char* method, const char* function) {
  if (args.positional > 0 && !graph::isStandIn(args.values[0]) &&
      isUserOverride(t, args.values[0], method)) {
    STATOR_VALUE(bound, special(t, args.values[0], method));
    t.world.keep(bound);
    return call(t, bound.get(), args.withoutFirst());
  }
  if (anyStandIn(t, args))
    return t.breakWith(Reason::kDataDependentRead, std::string(function) + "() of a tensor");
  return callNative(t, builtinFunction(function), args);
}
Out divmodCall(Tracer& t, const Args& args) {
  if (args.values.size() == 2 && args.positional == 2 &&
      (symbolic::isSymInt(args.values[0]) || symbolic::isSymInt(args.values[1]))) {
    STATOR_VALUE(quotient, binary(t, 2, args.values[0], args.values[1]));
    STATOR_VALUE(rest, binary(t, 6, args.values[0], args.values[1]));
    return t.made(stealRef(PyTuple_Pack(2, quotient.get(), rest.get())));
  }
  if (args.values.size() == 2 && args.positional == 2) {
    STATOR_VALUE(result, programmedDivmod(t, args.values[0], args.values[1]));
    if (result) return result;
  }
  return throughMethod(t, args, "__divmod__", "divmod");
}

// A float that only the run of the graph will tell.
bool isUnknownFloat(PyObject* value) {
  return symbolic::isSymScalar(value) && symbolic::asSymScalar(value)->of == &PyFloat_Type &&
         !symbolic::asSymScalar(value)->backed;
}

// One that the program has a value of, which the graph gets.
bool isKnownFloat(PyObject* value) {
  return symbolic::isSymScalar(value) && symbolic::asSymScalar(value)->of == &PyFloat_Type &&
         symbolic::asSymScalar(value)->backed;
}

Out withConcrete(Tracer& t, const char* function, const Args& args) {
  Args numbers = args;
  for (PyObject*& value : numbers.values) {
    if (!symbolic::isSymbol(value)) continue;
    value = t.world.keep(concrete(t, value));
  }
  return callNative(t, torchObject(function), numbers);
}

// math.cos and others that take every float.
Out mathOfFloat(Tracer& t, const Args& args, const char* function, const char* in_graph) {
  if (args.values.size() == 1 && args.positional == 1 && isKnownFloat(args.values[0])) {
    if (Ref<> made = floatOf(t, args.values[0], torchObject(in_graph))) return made;
  }
  return withConcrete(t, function, args);
}
Out cosCall(Tracer& t, const Args& args) {
  return mathOfFloat(t, args, "math.cos", "torch._sym_cos");
}
Out sinCall(Tracer& t, const Args& args) {
  return mathOfFloat(t, args, "math.sin", "torch._sym_sin");
}
Out tanhCall(Tracer& t, const Args& args) {
  return mathOfFloat(t, args, "math.tanh", "torch._sym_tanh");
}

Out sqrtCall(Tracer& t, const Args& args) {
  if (args.values.size() == 1 && args.positional == 1 && symbolic::isSymInt(args.values[0])) {
    Ref<> zero = stealRef(PyLong_FromLong(0));
    // Of a negative number it raises.
    STATOR_VALUE(positive, compare(t, Py_GT, args.values[0], zero.get()));
    if (positive.get() == Py_True) {
      if (Ref<> made = floatOf(t, args.values[0], torchObject("torch._sym_sqrt"))) return made;
    }
  }
  if (args.values.size() == 1 && args.positional == 1 &&
      (isUnknownFloat(args.values[0]) || isKnownFloat(args.values[0]))) {
    if (Ref<> made = floatOf(t, args.values[0], torchObject("torch._sym_sqrt"))) return made;
  }
  return withConcrete(t, "math.sqrt", args);
}

// math.floor, math.ceil
Out roundCallTo(Tracer& t, const Args& args, bool up) {
  if (args.values.size() == 1 && args.positional == 1 && symbolic::isSymbol(args.values[0])) {
    if (symbolic::isSymInt(args.values[0])) return newRef(args.values[0]);
    STATOR_VALUE(made, roundedQuotient(t, args.values[0], up));
    if (made) return made;
  }
  return withConcrete(t, up ? "math.ceil" : "math.floor", args);
}
Out floorCall(Tracer& t, const Args& args) { return roundCallTo(t, args, false); }
Out ceilCall(Tracer& t, const Args& args) { return roundCallTo(t, args, true); }

// math.prod(x.shape)
Out prodCall(Tracer& t, const Args& args) {
  PyObject* items = args.values.empty() ? nullptr : args.values[0];
  bool symbols = false;
  if (args.values.size() == 1 && args.positional == 1 &&
      (PyTuple_Check(items) || PyList_CheckExact(items))) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items); ++i)
      symbols |= symbolic::isSymInt(PySequence_Fast_GET_ITEM(items, i));
  }
  if (!symbols) return callNative(t, torchObject("math.prod"), args);
  Ref<> product = stealRef(PyLong_FromLong(1));
  Ref<> keep = newRef(items);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items); ++i) {
    STATOR_VALUE(next, binary(t, 5, product.get(), PySequence_Fast_GET_ITEM(items, i)));
    t.world.keep(next);
    product = std::move(next);
  }
  return product;
}

Out callableCall(Tracer& t, const Args& args) {
  NEED(1, "callable");
  PyObject* value = args.values[0];
  if (graph::isStandIn(value) || isTraceIterator(value)) return boolean(false);
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

Out absCall(Tracer& t, const Args& args) {
  NEED(1, "abs");
  if (symbolic::isSymInt(args.values[0])) {
    Ref<> zero = stealRef(PyLong_FromLong(0));
    STATOR_VALUE(negative, compare(t, Py_LT, args.values[0], zero.get()));
    if (negative.get() == Py_False) return newRef(args.values[0]);
    if (negative.get() == Py_True) return unary(t, 1, args.values[0]);
  }
  if (isUnknownFloat(args.values[0])) {
    if (Ref<> made = floatOf(t, args.values[0], operatorFunction("abs"))) return made;
  }
  if (graph::isStandIn(args.values[0]))
    return tensorCall(t, graph::Op::kCallFunction, operatorFunction("abs"), args);
  if (isUserOverride(t, args.values[0], "__abs__")) {
    STATOR_VALUE(bound, special(t, args.values[0], "__abs__"));
    t.world.keep(bound);
    return call(t, bound.get(), Args{});
  }
  return callNative(t, builtinFunction("abs"), args);
}

Out powCall(Tracer& t, const Args& args) {
  if (args.positional == 2 && args.keywordCount() == 0)
    return binary(t, 8, args.values[0], args.values[1]);
  if (args.positional > 0 && !graph::isStandIn(args.values[0]) &&
      isUserOverride(t, args.values[0], "__pow__")) {
    STATOR_VALUE(bound, special(t, args.values[0], "__pow__"));
    t.world.keep(bound);
    STATOR_VALUE(result, callNested(t, bound.get(), args.withoutFirst()));
    if (result.get() != Py_NotImplemented) return result;
    return t.breakWith(Reason::kCallsOutside, "pow() that its object does not know");
  }
  return throughMethod(t, args, "__pow__", "pow");
}

Out roundCall(Tracer& t, const Args& args) { return throughMethod(t, args, "__round__", "round"); }

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
    Ref<> keywords = stealRef(PyObject_GetAttrString(inner, "keywords")),
          attributes = stealRef(PyObject_GenericGetDict(inner, nullptr));
    if (!function || !bound || !keywords || !attributes) return t.raiseCurrentError();
    if (PyDict_GET_SIZE(attributes.get()) != 0)
      return t.breakWith(Reason::kCallsOutside, "partial() of a partial with attributes");
    STATOR_VALUE(
        f, fromOutside(t, function, t.world.child(sources::SourceKind::kPartialFunc, source)));
    STATOR_VALUE(a,
                 fromOutside(t, bound, t.world.child(sources::SourceKind::kPartialArgs, source)));
    STATOR_VALUE(
        k, fromOutside(t, keywords, t.world.child(sources::SourceKind::kPartialKeywords, source)));
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

}  // namespace

void registerBuiltins() {
  const std::pair<const char*, CallHandler> rows[] = {
      {"builtins.len", len},
      {"builtins.isinstance", isinstance},
      {"builtins.issubclass", issubclass},
      {"builtins.type", typeCall},
      {"builtins.getattr", getAttribute},
      {"builtins.hasattr", hasAttribute},
      {"builtins.setattr", setAttribute},
      {"builtins.delattr", delAttribute},
      {"builtins.iter", iterCall},
      {"builtins.next", nextCall},
      {"builtins.zip", zipCall},
      {"builtins.enumerate", enumerateCall},
      {"builtins.map", mapCall},
      {"builtins.filter", filterCall},
      {"builtins.reversed", reversedCall},
      {"builtins.list", listCall},
      {"builtins.tuple", tupleCall},
      {"builtins.set", setCall},
      {"builtins.frozenset", frozensetCall},
      {"builtins.dict", dictCall},
      {"builtins.bool", boolCall},
      {"builtins.int", intCall},
      {"builtins.float", floatCall},
      {"builtins.str", strCall},
      {"builtins.repr", reprCall},
      {"builtins.super", superCall},
      {"builtins.callable", callableCall},
      {"builtins.id", idCall},
      {"builtins.hash", hashCall},
      {"builtins.abs", absCall},
      {"builtins.pow", powCall},
      {"builtins.round", roundCall},
      {"builtins.slice", sliceCall},
      {"builtins.vars", varsCall},
      {"builtins.locals", localsCall},
      {"builtins.globals", globalsCall},
      {"builtins.dir", dirCall},
      {"builtins.divmod", divmodCall},
      {"functools.partial", partialCall},
      {"typing.cast", secondArgument},

      {"operator.truth", boolCall},
      {"operator.abs", absCall},
  };
  for (const auto& [path, handler] : rows) registerHandler(path, handler);
  for (const char* path :
       {"builtins.range", "builtins.complex", "builtins.bytes", "builtins.bytearray",
        "builtins.chr", "builtins.ord", "builtins.format", "builtins.bin", "builtins.hex",
        "builtins.oct", "builtins.ascii", "operator.index", "builtins.str.maketrans",
        "sys.getrecursionlimit", "sys.intern"}) {
    registerPure(path);
  }
  PyObject* math = torchObject("math");
  PyObject* dict = math != nullptr ? PyModule_GetDict(math) : nullptr;
  PyObject *name = nullptr, *item = nullptr;
  Py_ssize_t position = 0;
  while (dict != nullptr && PyDict_Next(dict, &position, &name, &item)) {
    if (PyCFunction_Check(item)) registerRow(item, CallRow{CallKind::kPure, nullptr});
  }
  registerHandler("math.sqrt", sqrtCall);
  registerHandler("math.cos", cosCall);
  registerHandler("math.sin", sinCall);
  registerHandler("math.tanh", tanhCall);
  registerHandler("math.prod", prodCall);
  registerHandler("math.floor", floorCall);
  registerHandler("math.ceil", ceilCall);
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
                           "dict.update", "float",
                           "abs",         "divmod"}) {
    allowSymbols((std::string("builtins.") + path).c_str());
  }
  for (const char* path : {"lshift", "rshift",  "add",    "floordiv", "mul",     "mod",     "pow",
                           "sub",    "truediv", "iadd",   "imul",     "isub",    "lt",      "le",
                           "eq",     "ne",      "gt",     "ge",       "pos",     "neg",     "not_",
                           "truth",  "is_",     "is_not", "getitem",  "setitem", "contains"}) {
    allowSymbols((std::string("operator.") + path).c_str());
  }
  for (const char* path :
       {"math.cos", "math.sin", "math.tanh", "math.sqrt", "math.prod", "math.floor", "math.ceil",
        "operator.abs", "torch.Size", "torch.Size.numel", "torch.Tensor.size", "typing.cast",
        "collections.deque.append"})
    allowSymbols(path);
}

}  // namespace stator::interpret
