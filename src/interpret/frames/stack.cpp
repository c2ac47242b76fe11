// Stack, locals, cells and names.
#include "base/text.h"
#include "interpret/calls/calls.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/frames/handlers.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/drops.h"
#include "interpret/objects/errors.h"
#include "interpret/objects/globals.h"
#include "interpret/objects/items.h"
#include "interpret/objects/lookups.h"
#include "interpret/objects/scalars.h"
#include "python/fields.h"
#include "python/frame.h"

#include <cstring>

namespace stator::interpret::handlers {

namespace {

PyObject* slotNow(Tracer& tracer, SymbolicFrame& frame, size_t slot) {
  return !frame.untouched.empty() && frame.untouched[slot] ? tracer.world.roots().slots[slot]
                                                           : frame.slots[slot].get();
}

PyObject* nameAt(SymbolicFrame& frame, int index) {
  return PyTuple_GET_ITEM(frame.code->code()->co_names, index);
}

Flow raiseUnbound(Tracer& tracer, SymbolicFrame& frame, int slot) {
  PyCodeObject* code = frame.code->code();
  PyObject* name = PyTuple_GET_ITEM(stator_code_slot_names(code), slot);
  if (slot < stator_code_slot_count(code) - PyCode_GetNumFree(code)) {
    return raiseNameError(
        tracer, PyExc_UnboundLocalError,
        "cannot access local variable '%U' where it is not associated with a value", name);
  }
  return raiseNameError(
      tracer, PyExc_NameError,
      "cannot access free variable '%U' where it is not associated with a value in enclosing scope",
      name);
}

}  // namespace

Flow nop(Tracer&, SymbolicFrame& frame, const Instr&) {
  advance(frame);
  return Flow::kOk;
}

Flow resume(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  return nop(tracer, frame, instr);
}

Flow popTop(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  if (dropRunsUserCode(tracer, frame.top()))
    return tracer.breakWith(Reason::kUnsupportedObject, "drops an object with a finalizer");
  frame.drop();
  advance(frame);
  return Flow::kOk;
}

Flow pushNull(Tracer&, SymbolicFrame& frame, const Instr&) {
  frame.push(Ref<>());
  advance(frame);
  return Flow::kOk;
}

Flow copy(Tracer&, SymbolicFrame& frame, const Instr& instr) {
  frame.push(frame.stack[frame.stack.size() - static_cast<size_t>(instr.oparg)]);
  advance(frame);
  return Flow::kOk;
}

Flow swap(Tracer&, SymbolicFrame& frame, const Instr& instr) {
  std::swap(frame.stack.back(), frame.stack[frame.stack.size() - static_cast<size_t>(instr.oparg)]);
  advance(frame);
  return Flow::kOk;
}

Flow loadConst(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  PyObject* value = PyTuple_GET_ITEM(frame.code->code()->co_consts, instr.oparg);
  noteCodeConstant(tracer, value);
  frame.push(newRef(value));
  advance(frame);
  return Flow::kOk;
}

namespace {

// `t[1]` of an argument that is a tuple of constants: which others it holds does not matter. Null: no such thing.
Out itemOfConstants(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  const auto slot = static_cast<size_t>(instr.oparg);
  const auto index = static_cast<size_t>(frame.index);
  const std::vector<Instr>& instrs = frame.code->instrs();
  if (!frame.untouched[slot] || index + 2 >= instrs.size() ||
      instrs[index + 1].opcode != LOAD_CONST || instrs[index + 2].opcode != BINARY_SUBSCR)
    return Ref<>();
  PyObject* raw = tracer.world.roots().slots[slot];
  PyObject* key = PyTuple_GET_ITEM(frame.code->code()->co_consts, instrs[index + 1].oparg);
  if (raw == nullptr || !PyTuple_CheckExact(raw) || !PyLong_CheckExact(key) ||
      tracer.values.find(raw) != nullptr || !values::isConstantDeep(raw))
    return Ref<>();
  const Py_ssize_t place = PyLong_AsSsize_t(key);
  if (place < 0 || place >= PyTuple_GET_SIZE(raw)) {
    PyErr_Clear();
    return Ref<>();
  }
  const sources::Source* source = tracer.world.root(SourceKind::kLocal, static_cast<int64_t>(slot));
  tracer.world.guard(
      Guard{GuardKind::kType, source, nullptr, newRef(reinterpret_cast<PyObject*>(&PyTuple_Type))});
  return fromOutside(tracer, PyTuple_GET_ITEM(raw, place),
                     tracer.world.child(SourceKind::kTupleItem, source, nullptr, place));
}

}  // namespace

Flow loadFast(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  if (!frame.untouched.empty()) {
    STATOR_VALUE(item, itemOfConstants(tracer, frame, instr));
    if (item) {
      frame.push(std::move(item));
      frame.index += 3;
      return Flow::kOk;
    }
  }
  STATOR_VALUE(value, readSlot(tracer, frame, static_cast<size_t>(instr.oparg)));
  if (!value) return raiseUnbound(tracer, frame, instr.oparg);
  frame.push(std::move(value));
  advance(frame);
  return Flow::kOk;
}

// The polyfills around functions that a graph calls store their results, too.
static bool isPolyfill(PyCodeObject* code) {
  const std::string_view file = utf8(code->co_filename);
  return file.find("/stator/polyfills/") != std::string_view::npos;
}

Flow storeFast(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  size_t slot = static_cast<size_t>(instr.oparg);
  if (dropRunsUserCode(tracer, slotNow(tracer, frame, slot)))
    return tracer.breakWith(Reason::kUnsupportedObject, "drops an object with a finalizer");
  frame.slots[slot] = frame.pop();
  if (!frame.untouched.empty()) frame.untouched[slot] = false;
  if (PyObject* value = frame.slots[slot].get(); graph::isStandIn(value)) {
    // Nodes are called after the variable that first held their value, as TorchDynamo calls them.
    graph::Node* node = graph::asStandIn(value)->node;
    if (node->op != graph::Op::kInput && node->name_hint.empty() &&
        !(tracer.graphs.nested() && isPolyfill(frame.code->code()))) {
      node->name_hint =
          utf8(PyTuple_GET_ITEM(stator_code_slot_names(frame.code->code()), instr.oparg));
    }
  }
  advance(frame);
  return Flow::kOk;
}

Flow deleteFast(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  size_t slot = static_cast<size_t>(instr.oparg);
  bool bound = !frame.untouched.empty() && frame.untouched[slot]
                   ? tracer.world.roots().slots[slot] != nullptr
                   : static_cast<bool>(frame.slots[slot]);
  if (!bound) return raiseUnbound(tracer, frame, instr.oparg);
  if (dropRunsUserCode(tracer, slotNow(tracer, frame, slot)))
    return tracer.breakWith(Reason::kUnsupportedObject, "drops an object with a finalizer");
  if (!frame.untouched.empty() && frame.untouched[slot]) {
    tracer.world.guard(
        Guard{GuardKind::kPresent, tracer.world.root(SourceKind::kLocal, instr.oparg)});
    frame.untouched[slot] = false;
  }
  frame.slots[slot].reset();
  advance(frame);
  return Flow::kOk;
}

Flow makeCell(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  size_t slot = static_cast<size_t>(instr.oparg);
  Ref<> cell = stealRef(PyCell_New(frame.slots[slot].get()));
  frame.slots[slot] = tracer.made(cell);
  if (!frame.untouched.empty()) frame.untouched[slot] = false;
  advance(frame);
  return Flow::kOk;
}

Flow copyFreeVars(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  PyObject* function = frame.function.get();
  PyObject* closure = PyFunction_GET_CLOSURE(function);
  const sources::Source* source = tracer.isMade(function) ? nullptr : tracer.sourceOf(function);
  if (source == nullptr && tracer.values.find(function) == nullptr && closure != nullptr)
    source = tracer.sourceOf(function);
  size_t first = frame.slots.size() - static_cast<size_t>(instr.oparg);
  for (int i = 0; i < instr.oparg; ++i) {
    PyObject* cell = PyTuple_GET_ITEM(closure, i);
    if (tracer.values.find(cell) == nullptr && source != nullptr) {
      STATOR_VALUE(
          ignored,
          fromOutside(tracer, cell, tracer.world.child(SourceKind::kClosure, source, nullptr, i)));
    }
    frame.slots[first + static_cast<size_t>(i)] = newRef(cell);
  }
  advance(frame);
  return Flow::kOk;
}

Flow loadDeref(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  STATOR_VALUE(cell, readSlot(tracer, frame, static_cast<size_t>(instr.oparg)));
  if (!cell || !PyCell_Check(cell.get()))
    return tracer.breakWith(Reason::kRaises, "a variable that is not bound");
  STATOR_VALUE(value, cellContents(tracer, cell.get()));
  if (!value) return raiseUnbound(tracer, frame, instr.oparg);
  frame.push(std::move(value));
  advance(frame);
  return Flow::kOk;
}

Flow loadClassDeref(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  if (!frame.contents) return tracer.breakWith(Reason::kUnsupportedOpcode, "a class body");
  PyObject* name = PyTuple_GET_ITEM(stator_code_slot_names(frame.code->code()), instr.oparg);
  STATOR_VALUE(own, dictGet(tracer, frame.contents.get(), name));
  if (!own) return loadDeref(tracer, frame, instr);
  frame.push(std::move(own));
  advance(frame);
  return Flow::kOk;
}

Flow storeDeref(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  STATOR_VALUE(cell, readSlot(tracer, frame, static_cast<size_t>(instr.oparg)));
  STATOR_FLOW(storeCell(tracer, cell.get(), newRef(frame.top())));
  frame.drop();
  advance(frame);
  return Flow::kOk;
}

Flow deleteDeref(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  STATOR_VALUE(cell, readSlot(tracer, frame, static_cast<size_t>(instr.oparg)));
  STATOR_VALUE(value, cellContents(tracer, cell.get()));
  if (!value) return raiseUnbound(tracer, frame, instr.oparg);
  STATOR_FLOW(storeCell(tracer, cell.get(), Ref<>()));
  advance(frame);
  return Flow::kOk;
}

Flow loadGlobal(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  STATOR_VALUE(value, loadGlobal(tracer, frame, nameAt(frame, instr.oparg >> 1)));
  if ((instr.oparg & 1) != 0)
    pushCallable(frame, std::move(value));
  else
    frame.push(std::move(value));
  advance(frame);
  return Flow::kOk;
}

Flow storeGlobal(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  globalsOf(tracer, frame);
  STATOR_FLOW(setItem(tracer, frame.globals, nameAt(frame, instr.oparg), frame.top()));
  frame.drop();
  advance(frame);
  return Flow::kOk;
}

Flow deleteGlobal(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  globalsOf(tracer, frame);
  STATOR_VALUE(found, dictGet(tracer, frame.globals, nameAt(frame, instr.oparg)));
  if (!found)
    return raiseNameError(tracer, PyExc_NameError, "name '%U' is not defined",
                          nameAt(frame, instr.oparg));
  STATOR_FLOW(delItem(tracer, frame.globals, nameAt(frame, instr.oparg)));
  advance(frame);
  return Flow::kOk;
}

Flow loadName(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  if (!frame.contents)
    return tracer.breakWith(Reason::kUnsupportedOpcode, "code outside of functions");
  STATOR_VALUE(value, dictGet(tracer, frame.contents.get(), nameAt(frame, instr.oparg)));
  if (!value) {
    STATOR_VALUE(found, loadGlobal(tracer, frame, nameAt(frame, instr.oparg)));
    value = std::move(found);
  }
  frame.push(std::move(value));
  advance(frame);
  return Flow::kOk;
}
Flow storeName(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  if (!frame.contents)
    return tracer.breakWith(Reason::kUnsupportedOpcode, "code outside of functions");
  STATOR_FLOW(setItem(tracer, frame.contents.get(), nameAt(frame, instr.oparg), frame.top()));
  frame.drop();
  advance(frame);
  return Flow::kOk;
}
Flow deleteName(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  if (!frame.contents)
    return tracer.breakWith(Reason::kUnsupportedOpcode, "code outside of functions");
  STATOR_VALUE(found, dictGet(tracer, frame.contents.get(), nameAt(frame, instr.oparg)));
  if (!found)
    return raiseNameError(tracer, PyExc_NameError, "name '%U' is not defined",
                          nameAt(frame, instr.oparg));
  STATOR_FLOW(delItem(tracer, frame.contents.get(), nameAt(frame, instr.oparg)));
  advance(frame);
  return Flow::kOk;
}
Flow setupAnnotations(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  if (!frame.contents) return tracer.breakWith(Reason::kUnsupportedOpcode, "a class body");
  static PyObject* name = PyUnicode_InternFromString("__annotations__");
  STATOR_VALUE(found, dictGet(tracer, frame.contents.get(), name));
  if (!found)
    STATOR_FLOW(
        setItem(tracer, frame.contents.get(), name, tracer.made(stealRef(PyDict_New())).get()));
  advance(frame);
  return Flow::kOk;
}
Flow loadBuildClass(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  static PyObject* name = PyUnicode_InternFromString("__build_class__");
  const sources::Source* source = tracer.world.sources().pinned(frame.builtins);
  if (tracer.values.find(frame.builtins) == nullptr)
    tracer.values.addOutside(frame.builtins, source);
  STATOR_VALUE(value, dictGet(tracer, frame.builtins, name));
  if (!value) return tracer.breakWith(Reason::kRaises, "no __build_class__");
  frame.push(std::move(value));
  advance(frame);
  return Flow::kOk;
}

Flow loadAssertionError(Tracer&, SymbolicFrame& frame, const Instr&) {
  frame.push(newRef(PyExc_AssertionError));
  advance(frame);
  return Flow::kOk;
}

namespace {

// `from ..x import y`: the whole name of ..x, by what the module says of its package.
Out resolveRelative(Tracer& t, SymbolicFrame& frame, PyObject* name, long level) {
  static PyObject* const package_name = PyUnicode_InternFromString("__package__");
  STATOR_VALUE(package, loadGlobal(t, frame, package_name));
  if (!PyUnicode_CheckExact(package.get()))
    return t.breakWith(Reason::kCallsOutside, "a relative import");
  std::string text = utf8(package.get());
  for (; level > 1; --level) {
    const size_t dot = text.rfind('.');
    if (dot == std::string::npos) return t.breakWith(Reason::kCallsOutside, "a relative import");
    text.resize(dot);
  }
  if (text.empty()) return t.breakWith(Reason::kCallsOutside, "a relative import");
  if (PyUnicode_GET_LENGTH(name) > 0) text += std::string(".") + utf8(name);
  return t.fromNative(stealRef(PyUnicode_FromString(text.c_str())));
}

}  // namespace

namespace {
// Whether the statement is as ever: nobody has put a function of his own into its place.
Out importsAsEver(Tracer& tracer, SymbolicFrame& frame) {
  static PyObject* const name = PyUnicode_InternFromString("__import__");
  static PyObject* const original = torchObject("builtins.__import__");
  if (!PyDict_CheckExact(frame.builtins)) return newRef(Py_False);
  if (tracer.values.find(frame.builtins) == nullptr)
    tracer.values.addOutside(frame.builtins, tracer.world.sources().pinned(frame.builtins));
  STATOR_VALUE(found, dictGet(tracer, frame.builtins, name));
  return newRef(found.get() == original ? Py_True : Py_False);
}
}  // namespace

Flow importName(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  STATOR_VALUE(as_ever, importsAsEver(tracer, frame));
  if (as_ever.get() != Py_True)
    return tracer.breakWith(Reason::kCallsOutside, "an import by another function");
  // An import of what is imported already only looks it up; anything else may run a module's code.
  PyObject* name = nameAt(frame, instr.oparg);
  PyObject* level = frame.top(1);
  PyObject* from_list = frame.top();
  Ref<> absolute = newRef(name);
  if (!PyLong_CheckExact(level) || PyLong_AsLong(level) != 0) {
    if (!PyLong_CheckExact(level) || from_list == Py_None)
      return tracer.breakWith(Reason::kCallsOutside, "a relative import");
    STATOR_VALUE(resolved, resolveRelative(tracer, frame, name, PyLong_AsLong(level)));
    absolute = std::move(resolved);
    name = absolute.get();
  }
  PyObject* modules = PyImport_GetModuleDict();
  const sources::Source* modules_source = tracer.world.sources().pinned(modules);
  if (tracer.values.find(modules) == nullptr) tracer.values.addOutside(modules, modules_source);
  Ref<> wanted = newRef(name);
  if (from_list == Py_None) {
    const char* text = utf8(name);
    if (const char* dot = std::strchr(text, '.'))
      wanted = stealRef(PyUnicode_FromStringAndSize(text, dot - text));
  }
  PyObject* whole = PyDict_GetItemWithError(modules, name);
  if (whole == nullptr || whole == Py_None)
    return tracer.breakWith(Reason::kCallsOutside, "an import");
  if (from_list != Py_None && PyTuple_Check(from_list)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(from_list); ++i) {
      Ref<> attribute = stealRef(PyObject_GetAttr(whole, PyTuple_GET_ITEM(from_list, i)));
      if (!attribute) {
        PyErr_Clear();
        return tracer.breakWith(Reason::kCallsOutside, "an import");
      }
    }
  }
  STATOR_VALUE(module, dictGet(tracer, modules, wanted.get()));
  if (!module || module.get() == Py_None)
    return tracer.breakWith(Reason::kCallsOutside, "an import");
  frame.drop(2);
  frame.push(std::move(module));
  advance(frame);
  return Flow::kOk;
}

Flow importFrom(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  STATOR_VALUE(value,
               runEntered(tracer, getAttrOrNull(tracer, frame.top(), nameAt(frame, instr.oparg))));
  if (!value) return tracer.breakWith(Reason::kCallsOutside, "an import");
  frame.push(std::move(value));
  advance(frame);
  return Flow::kOk;
}

Flow importStar(Tracer& tracer, SymbolicFrame&, const Instr&) {
  return tracer.breakWith(Reason::kUnsupportedOpcode, "import *");
}
Flow printExpr(Tracer& tracer, SymbolicFrame&, const Instr&) {
  return tracer.breakWith(Reason::kUnsupportedOpcode, "an interactive expression");
}

}  // namespace stator::interpret::handlers
