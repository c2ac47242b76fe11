// Built-in functions of names: attributes of objects, super(), and what frames, modules and classes hold.
#include "interpret/calls/calls.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/trace_traceback.h"
#include "interpret/library/rows.h"
#include "interpret/objects/attribute_writes.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/globals.h"
#include "interpret/objects/instance_attributes.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/native_calls.h"
#include "interpret/objects/special_methods.h"
#include "python/objects.h"
#include "python/opcode_numbers.h"
#include "python/types.h"
#include "python/version.h"
#include "symbolic/sym_int.h"

#include <algorithm>

namespace stator::interpret {

namespace {

Out getAttribute(Tracer& t, const Args& args) {
  if (args.keywordCount() != 0 || args.positional < 2 || args.positional > 3 ||
      !PyUnicode_Check(args.values[1]))
    return wrongArguments(t, "getattr");
  if (args.positional == 2) return getAttr(t, args.values[0], args.values[1]);
  Out found = runEntered(t, getAttrOrNull(t, args.values[0], args.values[1]));
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
  // A number has what its type has.
  if (symbolic::isSymbol(args.values[0]))
    return boolean(_PyType_Lookup(typeOf(t, args.values[0]), args.values[1]) != nullptr);
  Out found = runEntered(t, getAttrOrNull(t, args.values[0], args.values[1]));
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
  Out done = runEntered(t, setAttr(t, args.values[0], args.values[1], args.values[2]));
  if (!done.ok()) return done;
  return newRef(Py_None);
}

Out delAttribute(Tracer& t, const Args& args) {
  NEED(2, "delattr");
  Out done = runEntered(t, setAttr(t, args.values[0], args.values[1], nullptr));
  if (!done.ok()) return done;
  return newRef(Py_None);
}

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

// The function may ask for its locals a second time, and see in the one dict what became of it.
bool mayAskAgain(const bytecode::CodeInfo& info) {
  static PyObject* const asking[] = {
      PyUnicode_InternFromString("locals"), PyUnicode_InternFromString("vars"),
      PyUnicode_InternFromString("dir"), PyUnicode_InternFromString("eval"),
      PyUnicode_InternFromString("exec")};
  size_t found = 0;
  bool loops = false;
  for (const bytecode::Instr& instr : info.instrs()) {
    loops = loops || (instr.target >= 0 && instr.target <= instr.offset);
    if (instr.opcode != LOAD_GLOBAL) continue;
    PyObject* name = PyTuple_GET_ITEM(info.code()->co_names, instr.oparg >> 1);
    found += static_cast<size_t>(std::count(std::begin(asking), std::end(asking), name));
  }
  return found > 1 || loops;
}

Out localsCall(Tracer& t, const Args& args) {
  NEED(0, "locals");
  SymbolicFrame& frame = t.frames.innermost();
  PyCodeObject* code = frame.code->code();
  if (kLocalsAreOneDict && mayAskAgain(*frame.code))
    return t.breakWith(Reason::kUnsupportedObject, "locals() where it may be called again");
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
  return newRef(globalsOf(t, t.frames.innermost()));
}

Out varsCall(Tracer& t, const Args& args) {
  if (args.values.empty()) return localsCall(t, args);
  NEED(1, "vars");
  STATOR_VALUE(dict, runEntered(t, getAttrOrNull(t, args.values[0], names().dunder_dict)));
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
  STATOR_VALUE(dict, runEntered(t, getAttr(t, object, names().dunder_dict)));
  STATOR_VALUE(own, listOf(t, dict.get()));
  if (!isNativeSafe(t, own.get())) return t.breakWith(Reason::kUnsupportedObject, "dir()");
  Ref<> all = stealRef(PySet_New(found.get()));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(own.get()); ++i)
    PySet_Add(all.get(), PyList_GET_ITEM(own.get(), i));
  Ref<> sorted = stealRef(PySequence_List(all.get()));
  if (PyList_Sort(sorted.get()) != 0) return t.raiseCurrentError();
  return sorted;
}

}  // namespace

void registerNamespaces() {
  const std::pair<const char*, CallHandler> rows[] = {
      {"builtins.getattr", getAttribute}, {"builtins.hasattr", hasAttribute},
      {"builtins.setattr", setAttribute}, {"builtins.delattr", delAttribute},
      {"builtins.super", superCall},      {"builtins.vars", varsCall},
      {"builtins.locals", localsCall},    {"builtins.globals", globalsCall},
      {"builtins.dir", dirCall},
  };
  for (const auto& [path, handler] : rows) registerHandler(path, handler);
}

}  // namespace stator::interpret
