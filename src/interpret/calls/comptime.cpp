// comptime(f): f runs while the program is captured, and gets a look at the trace: its frames with their values, and
// the graph so far.
#include "interpret/calls/comptime.h"

#include "base/check.h"
#include "base/rebuilt.h"
#include "base/text.h"
#include "graph/fx.h"
#include "guards/explain.h"
#include "interpret/core/known.h"
#include "interpret/core/tracer.h"
#include "python/frame.h"
#include "symbolic/sym_int.h"

namespace stator::interpret {

namespace {

// Stand-ins mean nothing outside of a trace: what is known of them is shown in their place.
Ref<> shown(PyObject* value, int depth = 0) {
  constexpr int kDeepest = 4;
  if (value == nullptr) return newRef(Py_None);
  if (PyCell_Check(value)) return shown(PyCell_GET(value), depth);
  if (graph::isStandIn(value)) {
    const graph::StandIn* stand_in = graph::asStandIn(value);
    const std::string facts =
        stand_in->meta != nullptr ? stand_in->meta->text() : stand_in->node->size.text();
    return stealRef(PyObject_CallFunction(torchObject("stator._comptime.Shown"), "sOi",
                                          facts.c_str(), stand_in->apparent_type,
                                          static_cast<int>(stand_in->node->index)));
  }
  if (symbolic::isSymbol(value)) {
    const bool whole = symbolic::isSymInt(value);
    const std::string text = whole ? symbolic::dimOf(value).text() : "a number of the graph";
    return stealRef(PyObject_CallFunction(torchObject("stator._comptime.Shown"), "sO", text.c_str(),
                                          whole ? &PyLong_Type : &PyFloat_Type));
  }
  if (depth < kDeepest && isPlainContainer(value) && !PySlice_Check(value))
    return rebuilt(value, [&](PyObject* item) { return shown(item, depth + 1); });
  return newRef(value);
}

// (code, line, {local: value}, [value on the stack, the last on top], offset of the instruction); null with an error
// set.
Ref<> frameOf(Tracer& t, size_t index) {
  const SymbolicFrame& frame = t.frames.at(index);
  PyCodeObject* code = frame.code->code();
  const sources::Roots& roots = t.world.roots();
  Ref<> locals = stealRef(PyDict_New()), stack = stealRef(PyList_New(0));
  PyObject* names = stator_code_slot_names(code);
  for (size_t i = 0; i < frame.slots.size(); ++i) {
    const bool outside = index == 0 && i < frame.untouched.size() && frame.untouched[i];
    PyObject* value = outside ? roots.slots[i] : frame.slots[i].get();
    if (value == nullptr) continue;
    Ref<> made = shown(value);
    if (!made || PyDict_SetItem(locals.get(), PyTuple_GET_ITEM(names, i), made.get()) != 0)
      return {};
  }
  for (size_t i = 0; i < frame.stack.size(); ++i) {
    PyObject* value = frame.stack[i].get();
    Ref<> made = shown(value == unreadMarker() ? roots.stack[i] : value);
    if (!made || PyList_Append(stack.get(), made.get()) != 0) return {};
  }
  const bytecode::Instr& instr = frame.code->instrs()[static_cast<size_t>(callIndex(frame))];
  return stealRef(Py_BuildValue("(OiOOi)", code, PyCode_Addr2Line(code, instr.opcode_offset),
                                locals.get(), stack.get(), instr.opcode_offset));
}

// stator._comptime.run(what, arguments, frames from the innermost on, graph, guards, the graph as a module): None, or
// why the graph is to end here. An error of the function's is the user's to see, and no part of the program.
Out runNow(Tracer& t, PyObject* what, PyObject* arguments) {
  Ref<> frames = stealRef(PyList_New(0));
  for (size_t i = t.frames.size(); i-- > 0;) {
    Ref<> frame = frameOf(t, i);
    if (!frame || PyList_Append(frames.get(), frame.get()) != 0) return t.raiseCurrentError();
  }
  PyCodeObject* code = t.frames.driven().code->code();
  const std::string graph = t.graphs.current().text(code);
  std::string guards;
  for (const Guard& guard : t.world.guards().all()) guards += guards::describe(guard, code) + "\n";
  Ref<> module = graph::toGraphModule(t.graphs.shared(), code);
  if (!module) {
    PyErr_Clear();
    module = newRef(Py_None);
  }
  PyObject* run = torchObject("stator._comptime.run");
  Ref<> end = stealRef(PyObject_CallFunction(run, "OOOssO", what, arguments, frames.get(),
                                             graph.c_str(), guards.c_str(), module.get()));
  if (!end) throw PythonError();
  if (PyUnicode_Check(end.get())) return t.breakWith(Reason::kExplicit, utf8(end.get()));
  return newRef(Py_None);
}

}  // namespace

Out atCapture(Tracer& t, PyObject*, const Args& args) {
  PyObject* what = args.positional > 0 ? args.values[0] : nullptr;
  if (what == nullptr || !PyFunction_Check(what))
    return t.breakWith(Reason::kCallsOutside, "comptime of what is no function");
  if (reinterpret_cast<PyFunctionObject*>(what)->func_closure != nullptr)
    return t.breakWith(Reason::kCallsOutside, "comptime of a function with free variables");
  Ref<> none = stealRef(PyTuple_New(0));
  return runNow(t, what, none.get());
}

Out showAtCapture(Tracer& t, PyObject* function, const Args& args) {
  Ref<> name = stealRef(PyObject_GetAttrString(function, "__name__"));
  Ref<> arguments = stealRef(PyTuple_New(static_cast<Py_ssize_t>(args.positional)));
  if (!name || !arguments) return t.raiseCurrentError();
  for (size_t i = 0; i < args.positional; ++i) {
    Ref<> value = shown(args.values[i]);
    if (!value) return t.raiseCurrentError();
    PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i), value.release());
  }
  return runNow(t, name.get(), arguments.get());
}

}  // namespace stator::interpret
