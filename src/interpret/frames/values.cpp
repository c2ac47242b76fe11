// Operators, attributes, subscripts and builders.
#include "base/check.h"
#include "interpret/calls/calls.h"
#include "interpret/calls/instances.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/symbols.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/frames/handlers.h"
#include "interpret/library/containers.h"
#include "interpret/objects/attribute_writes.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/decimals.h"
#include "interpret/objects/errors.h"
#include "interpret/objects/items.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/keys.h"
#include "interpret/objects/lookups.h"
#include "interpret/objects/membership.h"
#include "interpret/objects/operators.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/texts.h"
#include "interpret/objects/truth.h"
#include "interpret/objects/updates.h"
#include "interpret/tensors/arrays.h"
#include "symbolic/sym_int.h"

namespace stator::interpret::handlers {

namespace {

PyObject* nameAt(SymbolicFrame& frame, int index) {
  return PyTuple_GET_ITEM(frame.code->code()->co_names, index);
}

Flow done(SymbolicFrame& frame, size_t operands) {
  frame.drop(operands);
  advance(frame);
  return Flow::kOk;
}

// A store through user code: entered, it leaves nothing on the stack.
Flow finishStore(Tracer& tracer, SymbolicFrame& frame, Flow flow, size_t operands) {
  if (flow == Flow::kEntered) {
    frame.drop(operands);
    tracer.frames.innermost().then = Then::kDiscard;
    return flow;
  }
  if (flow != Flow::kOk) return flow;
  return done(frame, operands);
}

}  // namespace

Flow unaryPositive(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  return deliver(tracer, frame, unary(tracer, 0, frame.top()), 1);
}
Flow unaryNegative(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  return deliver(tracer, frame, unary(tracer, 1, frame.top()), 1);
}
Flow unaryInvert(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  return deliver(tracer, frame, unary(tracer, 2, frame.top()), 1);
}

Flow unaryNot(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  STATOR_VALUE(value, truth(tracer, frame.top()));
  frame.drop();
  frame.push(newRef(value.get() == Py_True ? Py_False : Py_True));
  advance(frame);
  return Flow::kOk;
}

Flow binaryOp(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  return deliver(tracer, frame, binary(tracer, instr.oparg, frame.top(1), frame.top()), 2);
}

Flow binarySubscr(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  return deliver(tracer, frame, getItem(tracer, frame.top(1), frame.top()), 2);
}

Flow storeSubscr(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  return finishStore(tracer, frame, setItem(tracer, frame.top(1), frame.top(), frame.top(2)), 3);
}

Flow deleteSubscr(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  return finishStore(tracer, frame, delItem(tracer, frame.top(1), frame.top()), 2);
}

Flow compareOp(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  if (forExport()) {
    if (Ref<> open = openCompare(tracer, instr.oparg, frame.top(1), frame.top()))
      return deliver(tracer, frame, open, 2);
  }
  return deliver(tracer, frame, compare(tracer, instr.oparg, frame.top(1), frame.top()), 2);
}

Flow isOp(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  STATOR_VALUE(value, same(tracer, frame.top(1), frame.top()));
  bool result = (value.get() == Py_True) != (instr.oparg != 0);
  frame.drop(2);
  frame.push(newRef(result ? Py_True : Py_False));
  advance(frame);
  return Flow::kOk;
}

Flow containsOp(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  STATOR_VALUE(value, contains(tracer, frame.top(), frame.top(1)));
  if (symbolic::isSymScalar(value.get())) {
    if (instr.oparg != 0) value = concrete(tracer, value.get());
    frame.drop(2);
    frame.push(std::move(value));
    advance(frame);
    return Flow::kOk;
  }
  bool result = (value.get() == Py_True) != (instr.oparg != 0);
  frame.drop(2);
  frame.push(newRef(result ? Py_True : Py_False));
  advance(frame);
  return Flow::kOk;
}

Flow getLen(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  return deliver(tracer, frame, settle(tracer, length(tracer, frame.top())), 0);
}

Flow loadAttr(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  return deliver(tracer, frame, getAttr(tracer, frame.top(), nameAt(frame, instr.oparg)), 1);
}

Flow loadMethod(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  // CPython leaves (function, self) for a method and (NULL, callable) for anything else; so do we, and a bound method is never made.
  PyObject *owner = frame.top(), *name = nameAt(frame, instr.oparg);
  // An AttributeError of a property is not told what it is about here, unless the class has its own way with attributes.
  const bool plain = typeOf(tracer, owner)->tp_getattro == PyObject_GenericGetAttr;
  STATOR_VALUE(value, settle(tracer, plain ? getAttrOrNull(tracer, owner, name)
                                           : getAttr(tracer, owner, name)));
  if (!value) return raiseAttributeError(tracer, owner, name);
  PyObject* object = frame.top();
  bool fresh = PyMethod_Check(value.get()) && tracer.isMade(value.get()) &&
               PyMethod_GET_SELF(value.get()) == object && !isProxied(tracer, object) &&
               // whose methods are polyfills: the bound one becomes the array's own
               !isTraceArray(object);
  Ref<> self = newRef(object);
  frame.drop();
  if (fresh) {
    frame.push(newRef(PyMethod_GET_FUNCTION(value.get())));
    frame.push(std::move(self));
  } else {
    pushCallable(frame, std::move(value));
  }
  advance(frame);
  return Flow::kOk;
}

Flow storeAttr(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  return finishStore(tracer, frame,
                     setAttr(tracer, frame.top(), nameAt(frame, instr.oparg), frame.top(1)), 2);
}

Flow deleteAttr(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  return finishStore(tracer, frame,
                     setAttr(tracer, frame.top(), nameAt(frame, instr.oparg), nullptr), 1);
}

// ---- builders --------------------------------------------------------------------------------------------------------------------------

Flow buildTuple(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  Ref<> tuple = stealRef(PyTuple_New(instr.oparg));
  for (int i = 0; i < instr.oparg; ++i)
    PyTuple_SET_ITEM(tuple.get(), i,
                     Py_NewRef(frame.top(static_cast<size_t>(instr.oparg - 1 - i))));
  return deliver(tracer, frame, tuple, static_cast<size_t>(instr.oparg));
}

Flow buildList(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  Ref<> list = stealRef(PyList_New(instr.oparg));
  for (int i = 0; i < instr.oparg; ++i)
    PyList_SET_ITEM(list.get(), i, Py_NewRef(frame.top(static_cast<size_t>(instr.oparg - 1 - i))));
  return deliver(tracer, frame, list, static_cast<size_t>(instr.oparg));
}

Flow buildSet(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  Ref<> set = stealRef(PySet_New(nullptr));
  for (int i = instr.oparg - 1; i >= 0; --i) {
    PyObject* item = frame.top(static_cast<size_t>(i));
    Ref<> number = symbolic::isSymbol(item) ? concrete(tracer, item) : Ref<>();
    if (number) item = number.get();
    STATOR_FLOW(requireHashable(tracer, item));
    STATOR_FLOW(keyed(tracer, set.get(), [&](PyObject* target) {
                  return PySet_Add(target, item) == 0 ? Py_NewRef(Py_None) : nullptr;
                }).flow());
  }
  return deliver(tracer, frame, set, static_cast<size_t>(instr.oparg));
}

Flow buildMap(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  Ref<> dict = stealRef(PyDict_New());
  for (int i = instr.oparg - 1; i >= 0; --i) {
    PyObject* key = frame.top(2 * static_cast<size_t>(i) + 1);
    STATOR_FLOW(setItem(tracer, dict.get(), key, frame.top(2 * static_cast<size_t>(i))));
  }
  return deliver(tracer, frame, dict, 2 * static_cast<size_t>(instr.oparg));
}

Flow buildConstKeyMap(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  PyObject* keys = frame.top();
  Ref<> dict = stealRef(PyDict_New());
  for (int i = 0; i < instr.oparg; ++i) {
    if (PyDict_SetItem(dict.get(), PyTuple_GET_ITEM(keys, i),
                       frame.top(static_cast<size_t>(instr.oparg - i))) != 0)
      return tracer.raiseCurrentError();
  }
  return deliver(tracer, frame, dict, static_cast<size_t>(instr.oparg) + 1);
}

Flow buildString(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  Ref<> list = stealRef(PyList_New(instr.oparg));
  for (int i = 0; i < instr.oparg; ++i)
    PyList_SET_ITEM(list.get(), i, Py_NewRef(frame.top(static_cast<size_t>(instr.oparg - 1 - i))));
  static PyObject* empty = PyUnicode_InternFromString("");
  return deliver(tracer, frame, tracer.fromNative(stealRef(PyUnicode_Join(empty, list.get()))),
                 static_cast<size_t>(instr.oparg));
}

Flow buildSlice(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  size_t n = instr.oparg == 3 ? 3 : 2;
  Ref<> slice =
      stealRef(PySlice_New(frame.top(n - 1), frame.top(n - 2), n == 3 ? frame.top() : nullptr));
  return deliver(tracer, frame, slice, n);
}

namespace {

// format() of it is object's, which asks __str__.
bool formatsAsText(PyTypeObject* type) {
  static PyObject* const format = PyUnicode_InternFromString("__format__");
  return _PyType_Lookup(type, format) == _PyType_Lookup(&PyBaseObject_Type, format);
}

// The method of the program's own that says how the value reads; null: C's own does. object.__format__ asks __str__, and object.__str__
// asks __repr__.
const char* textMethod(Tracer& tracer, PyObject* value, int conversion, bool has_spec) {
  const char* method = conversion == 1 ? "__str__" : conversion >= 2 ? "__repr__" : "__format__";
  if (isUserOverride(tracer, value, method)) return method;
  PyTypeObject* type = typeOf(tracer, value);
  if (conversion == 0 && (has_spec || !formatsAsText(type))) return nullptr;
  if (conversion == 0 && isUserOverride(tracer, value, "__str__")) return "__str__";
  const bool asks_repr = conversion < 2 && type->tp_str == PyBaseObject_Type.tp_str;
  return asks_repr && isUserOverride(tracer, value, "__repr__") ? "__repr__" : nullptr;
}

}  // namespace

Flow formatValue(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  bool has_spec = (instr.oparg & 4) != 0;
  size_t operands = has_spec ? 2 : 1;
  PyObject* value = frame.top(operands - 1);
  PyObject* spec = has_spec ? frame.top() : nullptr;
  int conversion = instr.oparg & 3;
  if (graph::isStandIn(value))
    return tracer.breakWith(Reason::kDataDependentRead, "formats a tensor");
  // A text that nobody looks at need not know the number.
  const auto& instrs = frame.code->instrs();
  if (symbolic::isSymInt(value) && !has_spec &&
      instrs[static_cast<size_t>(frame.index) + 1].opcode == POP_TOP)
    return deliver(tracer, frame, stealRef(PyUnicode_FromString("")), operands);
  const char* asked_first = conversion == 1   ? "__str__"
                            : conversion >= 2 ? "__repr__"
                                              : "__format__";
  if (isDenied(tracer, typeOf(tracer, value), asked_first))
    return tracer.breakWith(Reason::kRaises, "formats what its class says cannot be formatted");
  Ref<> text = newRef(value);
  PyTypeObject* type = Py_TYPE(value);
  if (const char* used = textMethod(tracer, value, conversion, has_spec)) {
    Args args;
    Ref<> empty_spec = stealRef(PyUnicode_FromString(""));
    const bool format = std::string_view(used) == "__format__";
    if (format) args.values = {spec != nullptr ? spec : empty_spec.get()};
    args.positional = args.values.size();
    const char* asked = format ? used : conversion >= 2 ? "__repr__" : "__str__";
    STATOR_VALUE(result, programmedText(tracer, value, used, asked, args));
    text = std::move(result);
    if (conversion == 0) return deliver(tracer, frame, text, operands);
  } else if (isTextContainer(value) && conversion != 3 &&
             (conversion != 0 || (!has_spec && formatsAsText(typeOf(tracer, value))))) {
    STATOR_VALUE(shown, textOf(tracer, value, conversion == 2));
    text = std::move(shown);
  } else if (PyFunction_Check(value) && conversion != 3 && (conversion != 0 || !has_spec)) {
    STATOR_VALUE(shown, textOfFunction(tracer, value));
    text = std::move(shown);
  } else {
    STATOR_VALUE(plain, plain(tracer, value));
    if (!isNativeSafe(tracer, plain.get()) || losesClass(tracer, value, plain.get()))
      return tracer.breakWith(Reason::kUnsupportedObject,
                              std::string("formats a ") + type->tp_name);
    if (PyFunction_Check(value) || PyModule_Check(value))
      return tracer.breakWith(Reason::kUnsupportedObject, "formats an address");
    if (isDecimal(plain.get())) {
      DecimalFold decimals(tracer, {plain.get()});
      Ref<> shown = newRef(plain.get());
      if (conversion == 1) shown = stealRef(PyObject_Str(plain.get()));
      if (conversion >= 2) shown = stealRef(PyObject_Repr(plain.get()));
      shown = shown ? stealRef(PyObject_Format(shown.get(), spec)) : Ref<>();
      STATOR_FLOW(decimals.finish());
      return deliver(tracer, frame, tracer.fromNative(std::move(shown)), operands);
    }
    text = std::move(plain);
    if (conversion == 1) text = stealRef(PyObject_Str(text.get()));
    if (conversion == 2) text = stealRef(PyObject_Repr(text.get()));
    if (conversion == 3) text = stealRef(PyObject_ASCII(text.get()));
    if (!text) return tracer.raiseCurrentError();
  }
  return deliver(tracer, frame, tracer.fromNative(stealRef(PyObject_Format(text.get(), spec))),
                 operands);
}

Flow listToTuple(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  STATOR_VALUE(items, contents(tracer, frame.top()));
  return deliver(tracer, frame, stealRef(PyList_AsTuple(items.get())), 1);
}

Flow listAppend(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  PyObject* list = frame.top(static_cast<size_t>(instr.oparg));
  STATOR_VALUE(target, contentsForWrite(tracer, list));
  PyList_Append(target.get(), frame.top());
  return done(frame, 1);
}

Flow setAdd(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  PyObject* set = frame.top(static_cast<size_t>(instr.oparg));
  Ref<> item =
      symbolic::isSymbol(frame.top()) ? concrete(tracer, frame.top()) : newRef(frame.top());
  STATOR_FLOW(requireHashable(tracer, item.get()));
  STATOR_VALUE(target, contentsForWrite(tracer, set));
  STATOR_FLOW(keyed(tracer, target.get(), [&](PyObject* into) {
                return PySet_Add(into, item.get()) == 0 ? Py_NewRef(Py_None) : nullptr;
              }).flow());
  return done(frame, 1);
}

Flow mapAdd(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  PyObject* dict = frame.top(static_cast<size_t>(instr.oparg) + 1);
  STATOR_FLOW(setItem(tracer, dict, frame.top(1), frame.top()));
  return done(frame, 2);
}

Flow listExtend(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  PyObject* list = frame.top(static_cast<size_t>(instr.oparg));
  PyObject* value = frame.top();
  if (!graph::isStandIn(value) && !isTraceIterator(value) && Py_TYPE(value)->tp_iter == nullptr &&
      PySequence_Check(value) == 0)
    return tracer.breakWith(Reason::kRaises, "* of something that is not iterable");
  STATOR_VALUE(items, sizedListOf(tracer, value));
  STATOR_VALUE(target, contentsForWrite(tracer, list));
  Py_ssize_t size = PyList_GET_SIZE(target.get());
  PyList_SetSlice(target.get(), size, size, items.get());
  return done(frame, 1);
}

Flow setUpdate(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  PyObject* set = frame.top(static_cast<size_t>(instr.oparg));
  STATOR_VALUE(items, setOperand(tracer, frame.top()));
  STATOR_VALUE(target, contentsForWrite(tracer, set));
  STATOR_FLOW(keyed(tracer, target.get(), [&](PyObject* into) {
                return _PySet_Update(into, items.get()) == 0 ? Py_NewRef(Py_None) : nullptr;
              }).flow());
  return done(frame, 1);
}

namespace {

Flow mergeDict(Tracer& tracer, SymbolicFrame& frame, const Instr& instr, bool unique) {
  PyObject* dict = frame.top(static_cast<size_t>(instr.oparg));
  PyObject* other = frame.top();
  if (!iteratesAsDict(tracer, other)) {
    if (graph::isStandIn(other) || isTraceIterator(other))
      return tracer.breakWith(Reason::kRaises, "** of something that is no mapping");
    Args args;
    args.values = {other};
    args.positional = 1;
    if (unique) {
      // Keyword arguments so far have to be others.
      Ref<> copy = stealRef(PyDict_New());
      STATOR_FLOW(dictUpdate(tracer, copy.get(), args, true));
      PyObject *key = nullptr, *value = nullptr;
      Py_ssize_t position = 0;
      STATOR_VALUE(so_far, contents(tracer, dict));
      while (PyDict_Next(copy.get(), &position, &key, &value)) {
        if (PyDict_Contains(so_far.get(), key) != 0)
          return tracer.breakWith(Reason::kRaises, "a keyword argument is given twice");
      }
      args.values = {copy.get()};
      tracer.world.keep(copy);
    }
    STATOR_FLOW(dictUpdate(tracer, dict, args, true));
    return done(frame, 1);
  }
  STATOR_VALUE(items, contents(tracer, other));
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  if (unique) {
    while (PyDict_Next(items.get(), &position, &key, &value)) {
      STATOR_VALUE(there, dictGet(tracer, dict, key));
      if (there || !PyUnicode_Check(key))
        return tracer.breakWith(Reason::kRaises, "keyword arguments that do not fit");
    }
    position = 0;
  }
  STATOR_VALUE(target, contentsForWrite(tracer, dict));
  // Under the hashes that the other one has them.
  STATOR_FLOW(keyed(tracer, target.get(), [&](PyObject* into) {
                return PyDict_Update(into, items.get()) == 0 ? Py_NewRef(Py_None) : nullptr;
              }).flow());
  return done(frame, 1);
}

}  // namespace

Flow dictUpdate(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  return mergeDict(tracer, frame, instr, false);
}
Flow dictMerge(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  return mergeDict(tracer, frame, instr, true);
}

Flow unpackSequence(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  PyObject* sequence = frame.top();
  if (graph::isStandIn(sequence)) {
    const shapes::TensorMeta* meta = graph::asStandIn(sequence)->meta;
    if (meta == nullptr || meta->sizes.empty() || meta->sizes[0] != instr.oparg)
      return tracer.breakWith(Reason::kRaises, "unpacks a tensor into too many or too few names");
  }
  STATOR_VALUE(items, listOf(tracer, sequence, instr.oparg + 1));
  Py_ssize_t count = PyList_GET_SIZE(items.get());
  if (count < instr.oparg)
    return tracer.raiseNew(PyExc_ValueError, "not enough values to unpack (expected %d, got %zd)",
                           instr.oparg, count);
  if (count > instr.oparg)
    return tracer.raiseNew(PyExc_ValueError, "too many values to unpack (expected %d)",
                           instr.oparg);
  frame.drop();
  for (Py_ssize_t i = count - 1; i >= 0; --i) frame.push(newRef(PyList_GET_ITEM(items.get(), i)));
  advance(frame);
  return Flow::kOk;
}

Flow unpackEx(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  Py_ssize_t before = instr.oparg & 0xff, after = instr.oparg >> 8;
  STATOR_VALUE(items, listOf(tracer, frame.top()));
  Py_ssize_t count = PyList_GET_SIZE(items.get());
  if (count < before + after) {
    return tracer.raiseNew(PyExc_ValueError,
                           "not enough values to unpack (expected at least %zd, got %zd)",
                           before + after, count);
  }
  Ref<> middle = stealRef(PyList_GetSlice(items.get(), before, count - after));
  frame.drop();
  for (Py_ssize_t i = count - 1; i >= count - after; --i)
    frame.push(newRef(PyList_GET_ITEM(items.get(), i)));
  frame.push(middle);
  for (Py_ssize_t i = before - 1; i >= 0; --i) frame.push(newRef(PyList_GET_ITEM(items.get(), i)));
  advance(frame);
  return Flow::kOk;
}

// ---- matching --------------------------------------------------------------------------------------------------------------------------

Flow matchMapping(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  PyTypeObject* type = typeOf(tracer, frame.top());
  frame.push(newRef((type->tp_flags & Py_TPFLAGS_MAPPING) != 0 ? Py_True : Py_False));
  advance(frame);
  return Flow::kOk;
}

Flow matchSequence(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  PyTypeObject* type = typeOf(tracer, frame.top());
  frame.push(newRef((type->tp_flags & Py_TPFLAGS_SEQUENCE) != 0 ? Py_True : Py_False));
  advance(frame);
  return Flow::kOk;
}

Flow matchKeys(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  PyObject* subject = frame.top(1);
  if (!PyDict_CheckExact(subject))
    return tracer.breakWith(Reason::kUnsupportedObject, "matches a mapping that is no dict");
  STATOR_VALUE(keys, contents(tracer, frame.top()));
  Ref<> found = stealRef(PyTuple_New(PyTuple_GET_SIZE(keys.get())));
  Ref<> seen = stealRef(PySet_New(nullptr));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys.get()); ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys.get(), i);
    STATOR_VALUE(repeated, keyed(tracer, nullptr, [&](PyObject*) -> PyObject* {
                   int there = PySet_Contains(seen.get(), key);
                   if (there < 0 || PySet_Add(seen.get(), key) != 0) return nullptr;
                   return PyBool_FromLong(there);
                 }));
    if (repeated.get() == Py_True) {
      if (!isNativeSafe(tracer, key))
        return tracer.breakWith(Reason::kRaises, "a mapping pattern with a key twice");
      return tracer.raiseNew(PyExc_ValueError, "mapping pattern checks duplicate key (%R)", key);
    }
    STATOR_VALUE(value, dictGet(tracer, subject, key));
    if (!value) {
      frame.push(newRef(Py_None));
      advance(frame);
      return Flow::kOk;
    }
    PyTuple_SET_ITEM(found.get(), i, value.release());
  }
  frame.push(found);
  advance(frame);
  return Flow::kOk;
}

namespace {

// The attributes of a subject that a class pattern asks for, each once.
class ClassPattern {
 public:
  ClassPattern(Tracer& tracer, PyObject* type, PyObject* subject)
      : t_(tracer), type_(reinterpret_cast<PyTypeObject*>(type)), subject_(subject) {}

  // Ok with null: the subject has no such attribute.
  Out ask(PyObject* name) {
    const int there = PySet_Contains(seen_.get(), name);
    if (there < 0) throw PythonError();
    if (there > 0)
      return t_.raiseNew(PyExc_TypeError, "%s() got multiple sub-patterns for attribute %R",
                         type_->tp_name, name);
    if (PySet_Add(seen_.get(), name) != 0) throw PythonError();
    Out value = settle(t_, getAttrOrNull(t_, subject_, name));
    if (value.flow() == Flow::kRaise && t_.errors.raisedIs(PyExc_AttributeError)) {
      t_.errors.dropRaised();
      return Ref<>();
    }
    return value;
  }

  // By their places, as __match_args__ names them. Ok with null: the subject lacks one.
  Out askPlaces(int count, PyObject* into) {
    static PyObject* const match_args = PyUnicode_InternFromString("__match_args__");
    auto* type = reinterpret_cast<PyObject*>(type_);
    Out answer = settle(t_, getAttrOrNull(t_, type, match_args));
    if (answer.flow() == Flow::kRaise && t_.errors.raisedIs(PyExc_AttributeError)) {
      t_.errors.dropRaised();
      answer = Ref<>();
    }
    STATOR_VALUE(named, std::move(answer));
    if (named && !PyTuple_CheckExact(named.get()))
      return t_.raiseNew(PyExc_TypeError, "%s.__match_args__ must be a tuple (got %s)",
                         type_->tp_name, typeOf(t_, named.get())->tp_name);
    STATOR_VALUE(fields, named ? contents(t_, named.get()) : Out(stealRef(PyTuple_New(0))));
    const bool whole = !named && (type_->tp_flags & _Py_TPFLAGS_MATCH_SELF) != 0;
    const Py_ssize_t most = whole ? 1 : PyTuple_GET_SIZE(fields.get());
    if (most < count)
      return t_.raiseNew(PyExc_TypeError, "%s() accepts %zd positional sub-pattern%s (%d given)",
                         type_->tp_name, most, most == 1 ? "" : "s", count);
    if (whole) PyList_Append(into, subject_);
    for (int i = 0; !whole && i < count; ++i) {
      PyObject* name = PyTuple_GET_ITEM(fields.get(), i);
      if (!PyUnicode_CheckExact(name))
        return t_.raiseNew(PyExc_TypeError, "__match_args__ elements must be strings (got %s)",
                           typeOf(t_, name)->tp_name);
      STATOR_VALUE(value, ask(name));
      if (!value) return Ref<>();
      PyList_Append(into, value.get());
    }
    return newRef(Py_None);
  }

 private:
  Tracer& t_;
  PyTypeObject* type_;
  PyObject* subject_;
  Ref<> seen_ = stealRef(PySet_New(nullptr));
};

}  // namespace

Flow matchClass(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  PyObject* names = frame.top();
  PyObject* type = frame.top(1);
  PyObject* subject = frame.top(2);
  if (graph::isStandIn(type) || !PyType_Check(type))
    return tracer.raiseNew(PyExc_TypeError, kPatternIsNoClass);
  STATOR_VALUE(fits, isInstance(tracer, subject, type));
  if (fits.get() != Py_True) return deliver(tracer, frame, newRef(Py_None), 3);
  ClassPattern pattern(tracer, type, subject);
  Ref<> attributes = stealRef(PyList_New(0));
  if (instr.oparg > 0) {
    STATOR_VALUE(all, pattern.askPlaces(instr.oparg, attributes.get()));
    if (!all) return deliver(tracer, frame, newRef(Py_None), 3);
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    STATOR_VALUE(value, pattern.ask(PyTuple_GET_ITEM(names, i)));
    if (!value) return deliver(tracer, frame, newRef(Py_None), 3);
    PyList_Append(attributes.get(), value.get());
  }
  return deliver(tracer, frame, stealRef(PyList_AsTuple(attributes.get())), 3);
}

}  // namespace stator::interpret::handlers
