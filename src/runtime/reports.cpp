#include "runtime/reports.h"

#include "base/check.h"
#include "base/error_aside.h"
#include "base/imports.h"
#include "base/ref.h"
#include "base/text.h"
#include "breaks/plan_text.h"
#include "bytecode/code_info.h"
#include "bytecode/opcodes.h"
#include "graph/graph.h"
#include "guards/explain.h"
#include "runtime/active.h"
#include "runtime/cache.h"
#include "runtime/driver_module.h"
#include "runtime/failed_graph.h"
#include "runtime/settings.h"

#include <cstdarg>
#include <cstdlib>
#include <string_view>

namespace stator::runtime {

namespace {

std::string place(StatorFrame* frame, int line) {
  PyCodeObject* code = stator_frame_code(frame);
  std::string file = utf8(code->co_filename);
  if (line <= 0) line = code->co_firstlineno;
  return file + ":" + std::to_string(line) + " in " + utf8(code->co_qualname);
}

// At which offset the frame goes on behind a break; 0: it is at the head of the function.
int offsetNow(StatorFrame* frame) {
  const int offset = stator_frame_offset(frame);
  const bytecode::CodeInfo* info = bytecode::CodeInfo::of(stator_frame_code(frame));
  return info != nullptr && offset <= info->firstLegal() ? 0 : offset;
}

std::string sentence(const breaks::Plan& plan) {
  std::string text = breaks::reasonSentence(plan.reason);
  if (!plan.detail.empty()) text += " (" + plan.detail + ")";
  return text;
}

Ref<> callIn(const char* module_name, const char* name, const Ref<>& arguments) {
  HookDisabledScope disabled;
  if (!arguments) return Ref<>();
  Ref<> module = stealRef(importModule(module_name));
  Ref<> function = module ? stealRef(PyObject_GetAttrString(module.get(), name)) : Ref<>();
  return function ? stealRef(PyObject_Call(function.get(), arguments.get(), nullptr)) : Ref<>();
}

Ref<> compileEnds(Py_ssize_t guards, PyObject* error) {
  return callIn("stator._compilations", "compile_ends",
                stealRef(Py_BuildValue("(nO)", guards, error)));
}

// Calls stator._report.<name>(...), where texts that need the logging machinery are made. Errors there are the caller's
// to see.
Ref<> callReport(const char* name, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Ref<> tuple = stealRef(Py_VaBuildValue(format, arguments));
  va_end(arguments);
  return callIn("stator._report", name, tuple);
}

// What lies on the frame's value stack is named by what the program has written there: `f(x)` (line 3). A slot by its
// number says nothing to a reader.
std::string readable(StatorFrame* frame, const std::string& text) {
  constexpr std::string_view kBegin = "L['___stack", kEnd = "']";
  std::string made;
  size_t done = 0;
  bytecode::CodeInfo* info = bytecode::CodeInfo::of(stator_frame_code(frame));
  for (size_t at = 0; info != nullptr && (at = text.find(kBegin, done)) != std::string::npos;) {
    const size_t end = text.find(kEnd, at);
    if (end == std::string::npos) break;
    const int slot = static_cast<int>(std::strtol(text.c_str() + at + kBegin.size(), nullptr, 10));
    const bytecode::Instr* by = info->pushedBy(stator_frame_offset(frame), slot);
    const bool iterates = by != nullptr && by->opcode == GET_ITER;
    if (iterates) by = info->pushedBy(by->offset, slot);
    Ref<> name = by != nullptr ? callReport("expression", "(OiO)", info->code(), by->opcode_offset,
                                            iterates ? Py_True : Py_False)
                               : Ref<>();
    if (!name) PyErr_Clear();
    made.append(text, done, at - done);
    done = end + kEnd.size();
    made += name ? utf8(name.get()) : text.substr(at, done - at);
  }
  return made.append(text, done, std::string::npos);
}

}  // namespace

std::string placeNow(StatorFrame* frame) {
  const int offset = offsetNow(frame);
  return place(frame, offset == 0 ? 0 : PyCode_Addr2Line(stator_frame_code(frame), offset));
}

Ref<> stackOf(const interpret::Captured& captured) {
  Ref<> stack = stealRef(PyList_New(0));
  for (const auto& [object, line] : captured.stack) {
    auto* code = reinterpret_cast<PyCodeObject*>(object.get());
    Ref<> frame = stealRef(Py_BuildValue("(OiO)", code->co_filename,
                                         line > 0 ? line : code->co_firstlineno, code->co_name));
    if (!frame || PyList_Append(stack.get(), frame.get()) < 0) throw PythonError();
  }
  return stack;
}

void raiseUnsupported(const interpret::Captured& captured, bool fullgraph) {
  const breaks::Plan& plan = captured.plan;
  callReport("raise_unsupported", "(ssisiO)", plan.place.c_str(), sentence(plan).c_str(),
             static_cast<int>(plan.reason), breaks::reasonHint(plan.reason),
             static_cast<int>(fullgraph), stackOf(captured).get());
}

void reportBreak(const interpret::Captured& captured) {
  const breaks::Plan& plan = captured.plan;
  if (plan.reason == breaks::Reason::kForced) return;
  Ref<> done = callReport("graph_break", "(ssissO)", plan.place.c_str(), sentence(plan).c_str(),
                          static_cast<int>(plan.reason), breaks::reasonName(plan.reason),
                          breaks::reasonHint(plan.reason), stackOf(captured).get());
  if (!done) PyErr_Clear();
}

void reportLimit(StatorFrame* frame, const std::string& failed_guard, long long limit,
                 AtLimit then) {
  callReport("recompile_limit", "(ssLiOi)", placeNow(frame).c_str(),
             readable(frame, failed_guard).c_str(), limit, static_cast<int>(then),
             stator_frame_code(frame), offsetNow(frame));
}

void reportRecompile(StatorFrame* frame, const std::string& failed_guard, const char* why) {
  callReport("recompile", "(sssO)", placeNow(frame).c_str(), readable(frame, failed_guard).c_str(),
             why, stator_frame_code(frame));
}

void reportCode(const Cache& cache, StatorFrame* frame) {
  const bytecode::CodeInfo* info = bytecode::CodeInfo::of(stator_frame_code(frame));
  if (info == nullptr || stator_frame_offset(frame) != info->firstLegal()) return;
  if (!callReport("code_made", "(OO)", stator_frame_function(frame), cache.settings.get()))
    throw PythonError();
}

int wantedLogs(StatorFrame* frame) {
  Ref<> mask = callIn("stator._logs", "wanted_logs",
                      stealRef(Py_BuildValue("(Oi)", stator_frame_code(frame), offsetNow(frame))));
  if (!mask) {
    PyErr_Clear();
    return 0;
  }
  return static_cast<int>(PyLong_AsLong(mask.get()));
}

CompileCallbacks::CompileCallbacks(int logs) {
  if ((logs & kLogCallbacks) == 0) return;
  Ref<> done = callIn("stator._compilations", "compile_starts", stealRef(PyTuple_New(0)));
  if (!done) throw PythonError();
  open_ = true;
}

void CompileCallbacks::end(size_t guards) {
  if (!std::exchange(open_, false)) return;
  Ref<> done = compileEnds(static_cast<Py_ssize_t>(guards), Py_None);
  if (!done) throw PythonError();
}

CompileCallbacks::~CompileCallbacks() {
  if (!open_) return;
  Ref<> error = takeError();  // the capture's own, which goes on
  Ref<> done = compileEnds(-1, error ? error.get() : Py_None);
  if (!done) PyErr_Clear();
  if (error) setError(std::move(error));
}

void reportRecompiled(StatorFrame* frame, const std::string& failed_guards,
                      const std::string& symbols, double seconds, size_t entries, long long limit) {
  Ref<> done =
      callReport("recompiled", "(sssdnLO)", placeNow(frame).c_str(),
                 readable(frame, failed_guards).c_str(), readable(frame, symbols).c_str(), seconds,
                 static_cast<Py_ssize_t>(entries), limit, stator_frame_code(frame));
  if (!done) PyErr_Clear();
}

void reportGuards(StatorFrame* frame, const std::string& guards) {
  Ref<> done = callReport("guards_made", "(ssOi)", placeNow(frame).c_str(), guards.c_str(),
                          stator_frame_code(frame), static_cast<int>(stator_frame_offset(frame)));
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

void reportSuppressed(StatorFrame* frame) {
  Ref<> error = takeError();
  Ref<> done = callReport("suppressed", "(sO)", placeNow(frame).c_str(), error.get());
  if (!done) throw PythonError();
}

void reportGuardFailure(const Cache& cache, StatorFrame* frame, const std::string& failed_guards) {
  Ref<> done = callIn(
      "stator._guard_filter", "failed",
      stealRef(Py_BuildValue("(OsO)", cache.settings.get(), readable(frame, failed_guards).c_str(),
                             stator_frame_code(frame))));
  if (!done) throw PythonError();
}

Ref<> compileReason(StatorFrame* frame, const interpret::Captured& captured) {
  const breaks::Plan& plan = captured.plan;
  const bool is_break = plan.exit == breaks::ExitKind::kBreak;
  Ref<> stack = stackOf(captured);
  if (captured.stack.empty()) {
    PyCodeObject* code = stator_frame_code(frame);
    Ref<> whole =
        stealRef(Py_BuildValue("(OiO)", code->co_filename,
                               plan.line > 0 ? plan.line : code->co_firstlineno, code->co_name));
    if (!whole || PyList_Append(stack.get(), whole.get()) < 0) throw PythonError();
  }
  Ref<> made = stealRef(Py_BuildValue("(sOi)", is_break ? sentence(plan).c_str() : "return_value",
                                      stack.get(), is_break));
  if (!made) throw PythonError();
  return made;
}

void reportEachFailure(StatorFrame* frame, const std::string& failed_guards) {
  Ref<> done = callReport("each_failure", "(ss)", placeNow(frame).c_str(),
                          readable(frame, failed_guards).c_str());
  if (!done) PyErr_Clear();
}

void reportPlan(StatorFrame* frame, const interpret::Captured& captured) {
  breaks::PlanTerms terms{sources::Roots::of(frame), {}, guards::show};
  for (const graph::Node* node : captured.graph->outputs())
    terms.outputs.push_back("%" + std::to_string(node->index));
  const std::string changes = breaks::describe(captured.plan, terms).changes;
  Ref<> done = callReport("plan_made", "(sOiss)", placeNow(frame).c_str(), stator_frame_code(frame),
                          offsetNow(frame), captured.plan.text().c_str(), changes.c_str());
  if (!done) PyErr_Clear();
}

void reportRegions(StatorFrame* frame, const std::string& regions) {
  Ref<> done = callReport("regions_found", "(ss)", placeNow(frame).c_str(), regions.c_str());
  if (!done) PyErr_Clear();
}

void reportSymbols(StatorFrame* frame, const interpret::Captured& captured,
                   const std::vector<const sources::Source*>& symbols) {
  if (captured.graph->symbols == nullptr) return;
  const graph::Symbols& known = *captured.graph->symbols;
  Ref<> listed = stealRef(PyList_New(0)), conditions = stealRef(PyList_New(0));
  for (size_t i = 0; i < known.hints.size(); ++i) {
    const sources::Source* source = i < symbols.size() ? symbols[i] : nullptr;
    const std::string name =
        source != nullptr ? sources::print(*source, stator_frame_code(frame)) : std::string();
    Ref<> symbol = stealRef(Py_BuildValue("(nsL)", static_cast<Py_ssize_t>(i), name.c_str(),
                                          static_cast<long long>(known.hints[i])));
    if (symbol) PyList_Append(listed.get(), symbol.get());
  }
  for (const std::string& condition : known.conditions) {
    Ref<> text = stealRef(PyUnicode_FromString(condition.c_str()));
    if (text) PyList_Append(conditions.get(), text.get());
  }
  Ref<> done =
      callReport("symbols_made", "(sOO)", placeNow(frame).c_str(), listed.get(), conditions.get());
  if (!done) PyErr_Clear();
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
