// warnings.warn: the filters are read in the trace, each of them guarded. What is no error is given to warnings when
// the captured part has run, as of the line that warns; whether it is shown then, is for its registry to say.
#include "interpret/library/warnings.h"

#include "base/check.h"
#include "interpret/calls/calls.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/library/rows.h"
#include "interpret/objects/globals.h"
#include "known/code_policy.h"
#include "known/torch_names.h"

#include <array>
#include <optional>

namespace stator::interpret {

namespace {

using known::torchObject;

struct Warning {
  PyObject* text = nullptr;
  PyObject* category = PyExc_UserWarning;
  Py_ssize_t level = 1;
};

// Of warnings.warn(message, category=None, stacklevel=1, source=None), where nothing in it runs code of the program's.
std::optional<Warning> read(const Args& args) {
  constexpr std::array<const char*, 3> kNames = {"message", "category", "stacklevel"};
  std::array<PyObject*, 3> found{};
  if (args.positional > kNames.size()) return std::nullopt;
  size_t known = args.positional;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (i < args.positional) {
      found[i] = args.values[i];
    } else if ((found[i] = args.keyword(kNames[i])) != nullptr) {
      ++known;
    }
  }
  Warning warning;
  warning.text = found[0];
  if (known != args.values.size() || found[0] == nullptr || !PyUnicode_CheckExact(found[0]))
    return std::nullopt;
  if (found[1] != nullptr && found[1] != Py_None) warning.category = found[1];
  if (!PyType_Check(warning.category)) return std::nullopt;
  auto* type = reinterpret_cast<PyTypeObject*>(warning.category);
  auto* plain = reinterpret_cast<PyTypeObject*>(PyExc_Warning);
  if (!PyType_IsSubtype(type, plain) || type->tp_init != plain->tp_init ||
      type->tp_new != plain->tp_new)
    return std::nullopt;
  if (found[2] != nullptr) {
    if (!PyLong_CheckExact(found[2])) return std::nullopt;
    warning.level = PyLong_AsSsize_t(found[2]);
    PyErr_Clear();
  }
  return warning;
}

// The frame that a warning is about. Null: it is no frame of the trace's, or some between are not the program's.
SymbolicFrame* frameOf(Tracer& t, Py_ssize_t level) {
  constexpr Py_ssize_t kFramesOfModuleCall = 2;  // which a trace does without
  for (size_t i = t.frames.size(); i-- > 0;) {
    SymbolicFrame& frame = t.frames.at(i);
    if (known::isPolyfill(frame.code->code()) || frame.generator) return nullptr;
    if (--level == 0) return &frame;
    if (i > 0 && frame.scope != t.frames.at(i - 1).scope) level -= kFramesOfModuleCall;
    if (level < 1) return nullptr;
  }
  return nullptr;
}

// The list that warnings are recorded in, where a variable holds it: it is read as it is before the warning is given.
bool isRecordedHere(const Tracer& t) {
  PyObject* module = torchObject("warnings");
  // Another module in its place, which C asks then.
  if (PyDict_GetItemString(PyImport_GetModuleDict(), "warnings") != module) return true;
  Ref<> shows = stealRef(PyObject_GetAttrString(module, "_showwarnmsg_impl"));
  if (!shows) throw PythonError();
  if (!PyCFunction_Check(shows.get())) return false;
  PyObject* list = PyCFunction_GET_SELF(shows.get());
  const SymbolicFrame& driven = t.frames.driven();
  for (size_t slot = 0; slot < driven.slots.size(); ++slot) {
    if (t.world.roots().slots[slot] == list) return true;
  }
  return false;
}

// Filters that this trace has set are not set yet when the warning is given.
bool filtersChanged(const Tracer& t) {
  for (const Effects::LateCall& call : t.effects.lateCalls()) {
    if (call.function == torchObject("warnings._filters_mutated")) return true;
  }
  return false;
}

Out warn(Tracer& t, const Args& args) {
  auto leave = [&] { return t.breakWith(Reason::kCallsOutside, "warn"); };
  const std::optional<Warning> warning = read(args);
  SymbolicFrame* frame = warning ? frameOf(t, warning->level) : nullptr;
  if (frame == nullptr || filtersChanged(t) || isRecordedHere(t)) return leave();
  Ref<> globals = newRef(globalsOf(t, *frame));
  const bytecode::Instr& at = frame->code->instrs()[static_cast<size_t>(callIndex(*frame))];
  Ref<> line = stealRef(PyLong_FromLong(frame->code->line(at.opcode_offset)));
  if (!line) throw PythonError();
  STATOR_VALUE(quiet, t.above.callNested(torchObject("stator.polyfills.messages.is_no_error"),
                                         {warning->text, warning->category, globals.get(),
                                          t.world.keep(newRef(line.get()))}));
  if (quiet.get() != Py_True) return leave();
  t.effects.callFirst(
      {torchObject("stator._messages.warn_at"),
       {newRef(warning->text), newRef(warning->category), newRef(frame->code->code()->co_filename),
        std::move(line), std::move(globals)}});
  return newRef(Py_None);
}

}  // namespace

Out giveWarning(Tracer& t, PyObject* category, const char* text) {
  Ref<> message = stealRef(PyUnicode_FromString(text));
  if (!message) throw PythonError();
  Args args;
  args.values = {t.world.keep(std::move(message)), category};
  args.positional = args.values.size();
  return warn(t, args);
}

void registerWarnings() { registerHandler("_warnings.warn", warn); }

}  // namespace stator::interpret
