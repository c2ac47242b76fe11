// Instructions that make containers and texts, fill them and take them apart.
#include "interpret/core/apparent_types.h"
#include "interpret/core/outside.h"
#include "interpret/core/symbols.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/frames/handlers.h"
#include "interpret/frames/late_text.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/decimals.h"
#include "interpret/objects/errors.h"
#include "interpret/objects/items.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/keys.h"
#include "interpret/objects/lookups.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/texts.h"
#include "interpret/objects/updates.h"
#include "symbolic/sym_int.h"
#include "values/dicts.h"

namespace stator::interpret::handlers {

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
    STATOR_FLOW(withOwnKeys(tracer, set.get(), [&](PyObject* target) {
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
  std::vector<PyObject*> parts;
  bool late = false, pending = false;
  for (auto i = static_cast<size_t>(instr.oparg); i-- > 0;) {
    parts.push_back(frame.top(i));
    late |= isLateText(parts.back());
    pending |= isPendingText(parts.back());
  }
  if (pending) return deliver(tracer, frame, joinPending(parts), parts.size());
  if (late) return deliver(tracer, frame, joinLateTexts(tracer, parts), parts.size());
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

// The method of the program's own that says how the value reads; null: C's own does. object.__format__ asks __str__,
// and object.__str__ asks __repr__.
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
    return deliver(tracer, frame, textOfTensor(tracer, frame, conversion, spec), operands);
  // A text that nobody looks at need not know the number.
  if (symbolic::isSymInt(value)) {
    if (Ref<> text = textForLater(tracer, frame, has_spec))
      return deliver(tracer, frame, std::move(text), operands);
  }
  if (tracer.sizes.any() && !symbolic::isSymbol(value)) makeConcrete(tracer, value);
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
  STATOR_FLOW(withOwnKeys(tracer, target.get(), [&](PyObject* into) {
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
  STATOR_FLOW(withOwnKeys(tracer, target.get(), [&](PyObject* into) {
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
  STATOR_FLOW(withOwnKeys(tracer, target.get(), [&](PyObject* into) {
                return values::dictFill(into, items.get()) ? Py_NewRef(Py_None) : nullptr;
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

namespace {

// CPython has words of its own for what cannot be iterated at all.
Flow checkUnpackable(Tracer& tracer, PyObject* value) {
  if (graph::isStandIn(value) || isTraceIterator(value)) return Flow::kOk;
  PyTypeObject* type = typeOf(tracer, value);
  const bool sequence = type->tp_as_sequence != nullptr && type->tp_as_sequence->sq_item != nullptr;
  if (type->tp_iter != nullptr || sequence) return Flow::kOk;
  return tracer.raiseNew(PyExc_TypeError, "cannot unpack non-iterable %.200s object",
                         type->tp_name);
}

}  // namespace

Flow unpackSequence(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  PyObject* sequence = frame.top();
  STATOR_FLOW(checkUnpackable(tracer, sequence));
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
  STATOR_FLOW(checkUnpackable(tracer, frame.top()));
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

}  // namespace stator::interpret::handlers
