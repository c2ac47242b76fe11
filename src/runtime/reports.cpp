#include "runtime/reports.h"

#include "base/check.h"
#include "base/imports.h"
#include "base/ref.h"
#include "bytecode/code_info.h"
#include "runtime/active.h"
#include "runtime/cache.h"
#include "runtime/driver_module.h"
#include "runtime/failed_graph.h"
#include "runtime/settings.h"

#include <cstdarg>

namespace stator::runtime {

namespace {

std::string place(StatorFrame* frame, int line) {
  PyCodeObject* code = stator_frame_code(frame);
  std::string file = PyUnicode_AsUTF8(code->co_filename);
  if (line <= 0) line = code->co_firstlineno;
  return file + ":" + std::to_string(line) + " in " + PyUnicode_AsUTF8(code->co_qualname);
}

// Where the frame is: the head of the function, or the line at which it goes on behind a break.
std::string placeNow(StatorFrame* frame) {
  PyCodeObject* code = stator_frame_code(frame);
  const int offset = stator_frame_offset(frame);
  const bytecode::CodeInfo* info = bytecode::CodeInfo::of(code);
  const bool at_head = info != nullptr && offset <= info->firstLegal();
  return place(frame, at_head ? 0 : PyCode_Addr2Line(code, offset));
}

std::string sentence(const breaks::Plan& plan) {
  std::string text = breaks::reasonSentence(plan.reason);
  if (!plan.detail.empty()) text += " (" + plan.detail + ")";
  return text;
}

Ref<> callIn(const char* module_name, const char* name, Ref<> arguments) {
  HookDisabledScope disabled;
  if (!arguments) return Ref<>();
  Ref<> module = stealRef(importModule(module_name));
  Ref<> function = module ? stealRef(PyObject_GetAttrString(module.get(), name)) : Ref<>();
  return function ? stealRef(PyObject_Call(function.get(), arguments.get(), nullptr)) : Ref<>();
}

// Calls stator._report.<name>(...), where texts that need the logging machinery are made. Errors there are the caller's to see.
Ref<> callReport(const char* name, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Ref<> tuple = stealRef(Py_VaBuildValue(format, arguments));
  va_end(arguments);
  return callIn("stator._report", name, std::move(tuple));
}

}  // namespace

void raiseUnsupported(StatorFrame* frame, const breaks::Plan& plan, bool fullgraph) {
  callReport("raise_unsupported", "(ssisi)", plan.place.c_str(), sentence(plan).c_str(),
             static_cast<int>(plan.reason), breaks::reasonHint(plan.reason),
             static_cast<int>(fullgraph));
}

void reportBreak(StatorFrame* frame, const breaks::Plan& plan) {
  if (plan.reason == breaks::Reason::kForced) return;
  Ref<> done = callReport("graph_break", "(ssiss)", plan.place.c_str(), sentence(plan).c_str(),
                          static_cast<int>(plan.reason), breaks::reasonName(plan.reason),
                          breaks::reasonHint(plan.reason));
  if (!done) PyErr_Clear();
}

void reportLimit(StatorFrame* frame, const std::string& failed_guard, long long limit,
                 bool fullgraph) {
  callReport("recompile_limit", "(ssLiO)", placeNow(frame).c_str(), failed_guard.c_str(), limit,
             static_cast<int>(fullgraph), stator_frame_code(frame));
}

void reportRecompile(StatorFrame* frame, const std::string& failed_guard, bool by_stance) {
  callReport("recompile", "(ssiO)", placeNow(frame).c_str(), failed_guard.c_str(),
             static_cast<int>(by_stance), stator_frame_code(frame));
}

int wantedLogs() {
  Ref<> mask = callReport("wanted_logs", "()");
  if (!mask) {
    PyErr_Clear();
    return 0;
  }
  return static_cast<int>(PyLong_AsLong(mask.get()));
}

void reportRecompiled(StatorFrame* frame, const std::string& failed_guards,
                      const std::string& symbols, double seconds, size_t entries, long long limit) {
  Ref<> done = callReport("recompiled", "(sssdnLO)", placeNow(frame).c_str(), failed_guards.c_str(),
                          symbols.c_str(), seconds, static_cast<Py_ssize_t>(entries), limit,
                          stator_frame_code(frame));
  if (!done) PyErr_Clear();
}

void reportGuards(StatorFrame* frame, const std::string& guards, const std::string& symbols) {
  Ref<> done =
      callReport("guards_made", "(sss)", placeNow(frame).c_str(), guards.c_str(), symbols.c_str());
  if (!done) PyErr_Clear();
}

void followTorchConfig() {
  static PyObject* const name = PyUnicode_InternFromString("torch._dynamo.config");
  Ref<> loaded = stealRef(PyImport_GetModule(name));
  if (!loaded) return;
  HookDisabledScope disabled;
  Ref<> module = stealRef(importModule("stator._torch_config"));
  Ref<> done =
      module ? stealRef(PyObject_CallMethod(module.get(), "follow", "(O)", loaded.get())) : Ref<>();
  if (!done) PyErr_Clear();
}

void reportFailedGraph(const Cache& cache, StatorFrame* frame, long number, PyObject* error,
                       bool raises) {
  Ref<> done = callReport("graph_failed", "(sOlOi)", placeNow(frame).c_str(), cache.backend.get(),
                          number, error, static_cast<int>(raises));
  if (!done && raises) PyErr_Clear();
}

Ref<> compileReason(StatorFrame* frame, const breaks::Plan& plan) {
  PyCodeObject* code = stator_frame_code(frame);
  const bool is_break = plan.exit == breaks::ExitKind::kBreak;
  const int line =
      is_break && !plan.frames.empty() ? PyCode_Addr2Line(code, plan.frames[0].offset) : plan.line;
  Ref<> made =
      stealRef(Py_BuildValue("(s((OiO)s)i)", is_break ? sentence(plan).c_str() : "return_value",
                             code->co_filename, line > 0 ? line : code->co_firstlineno,
                             code->co_name, is_break ? plan.place.c_str() : "", is_break));
  if (!made) throw PythonError();
  return made;
}

void reportGraph(PyObject* reason) {
  Ref<> done = callReport("compiling_graph", "(O)", reason);
  if (!done) PyErr_Clear();
}

void recordFailure(const Cache& cache, StatorFrame* frame) {
  Ref<> error = takeError();
  PyObject* null = nullMarker();
  auto list = [&](PyObject** values, int count) {
    Ref<> made = stealRef(PyList_New(count));
    for (int i = 0; made && i < count; ++i)
      PyList_SET_ITEM(made.get(), i, Py_NewRef(values[i] != nullptr ? values[i] : null));
    return made;
  };
  const int count = stator_frame_slot_count(frame);
  PyObject** slots = stator_frame_slots(frame);
  Ref<> locals = list(slots, count), stack = list(slots + count, stator_frame_depth(frame));
  if (locals && stack) {
    callIn(
        "stator.debug._record", "capture_failed",
        stealRef(Py_BuildValue("(OOOiOO)", stator_frame_function(frame), locals.get(), stack.get(),
                               stator_frame_offset(frame), cache.settings.get(), error.get())));
  }
  if (PyErr_Occurred()) PyErr_WriteUnraisable(nullptr);
  setError(std::move(error));
}

bool reportInternal(StatorFrame* frame, const std::string& what) {
  callReport("internal_error", "(ssi)", place(frame, 0).c_str(), what.c_str(),
             static_cast<int>(configValues().strict));
  return PyErr_Occurred() != nullptr;
}

}  // namespace stator::runtime
