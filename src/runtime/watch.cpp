#include "runtime/watch.h"

#include "base/check.h"
#include "base/fields.h"
#include "base/hot.h"
#include "base/imports.h"
#include "base/ref.h"
#include "base/text.h"
#include "dist/digest.h"
#include "runtime/active.h"
#include "runtime/hook.h"
#include "runtime/ranks.h"
#include "runtime/settings.h"
#include "tensor/call_counter.h"

#include <map>
#include <memory>
#include <utility>

namespace stator::runtime {

namespace {

// Of tensor calls that no compiled function made.
constexpr const char* kBeside = "beside";

struct Watch {
  Ref<> callback;  // gets a dict for each capture
  Watch* outer;
  std::string label = kBeside;
  std::map<std::string, int64_t> outside;
};
__attribute__((tls_model("initial-exec"))) thread_local Watch* watch = nullptr;
PyObject* recorder = nullptr;  // gets the same, of all threads

void settleCount() {
  const int64_t calls = tensor::takeCallCount();
  if (calls == 0) return;
  for (Watch* each = watch; each != nullptr; each = each->outer)
    each->outside[each->label] += calls;
}

PyObject* start(PyObject*, PyObject* callback) {
  if (watch != nullptr) {
    settleCount();
  } else {
    tensor::startCallCounter(&hookState().disabled);
  }
  watch = new Watch{newRef(callback), watch};
  Py_RETURN_NONE;
}

// The counts by the place of the break.
PyObject* stop(PyObject*, PyObject*) {
  Ref<> dict = stealRef(PyDict_New());
  if (watch == nullptr) return dict.release();
  settleCount();
  std::unique_ptr<Watch> ended(std::exchange(watch, watch->outer));
  if (watch == nullptr) tensor::stopCallCounter();
  for (const auto& [place, calls] : ended->outside) {
    Ref<> number = stealRef(PyLong_FromLongLong(calls));
    if (PyDict_SetItemString(dict.get(), place.c_str(), number.get()) != 0) return nullptr;
  }
  return dict.release();
}

PyObject* record(PyObject*, PyObject* callback) {
  setField(recorder, callback == Py_None ? Ref<>() : newRef(callback));
  Py_RETURN_NONE;
}

// What a listener raises is no reason to stop the program.
void tell(PyObject* callback, PyObject* event) {
  Ref<> listener = newRef(callback);
  Ref<> done = stealRef(PyObject_CallOneArg(callback, event));
  if (!done) PyErr_WriteUnraisable(callback);
}

PyObject* orNone(const Ref<>& value) { return value ? value.get() : Py_None; }

}  // namespace

STATOR_HOT bool watching() { return watch != nullptr; }

bool recording() { return recorder != nullptr; }

bool wantsTexts() {
  return watching() || recording() || configValues().log_captures || configValues().trace_dir;
}

void reportCapture(const CaptureReport& report) {
  HookDisabledScope disabled;
  PyCodeObject* code = stator_frame_code(report.frame);
  const breaks::Plan& plan = *report.plan;
  bool broke = plan.exit == breaks::ExitKind::kBreak;
  Ref<> event = stealRef(Py_BuildValue(
      "{s:s,s:i,s:s,s:n,s:s,s:s,s:d,s:d,s:O,s:i,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:i,s:i,s:O,s:O}",
      "file", utf8(code->co_filename), "line", code->co_firstlineno, "function",
      utf8(code->co_qualname), "ops", static_cast<Py_ssize_t>(report.ops), "graph",
      report.graph.c_str(), "guards", report.guards.c_str(), "capture_seconds",
      report.capture_seconds, "backend_seconds", report.backend_seconds, "broke",
      broke ? Py_True : Py_False, "reason", static_cast<int>(plan.reason), "name",
      breaks::reasonName(plan.reason), "sentence", breaks::reasonSentence(plan.reason), "detail",
      plan.detail.c_str(), "place", plan.place.c_str(), "site", siteName(report.frame).c_str(),
      "graph_digest", dist::hex(dist::digestOf(report.graph)).c_str(), "guards_digest",
      dist::hex(dist::digestOf(report.guards)).c_str(), "regions", report.regions.c_str(), "offset",
      stator_frame_offset(report.frame), "begins",
      PyCode_Addr2Line(code, stator_frame_offset(report.frame)), "stack", orNone(report.stack),
      "lines", orNone(report.lines)));
  if (event && (configValues().log_captures || configValues().trace_dir)) {
    Ref<> log = stealRef(importModule("stator._rank_log"));
    Ref<> done =
        log ? stealRef(PyObject_CallMethod(log.get(), "captured", "(O)", event.get())) : Ref<>();
    if (!done) PyErr_WriteUnraisable(log.get());  // a full disk is no reason to stop the program
  }
  if (!event) {
    PyErr_WriteUnraisable(nullptr);
    return;
  }
  if (recorder != nullptr) tell(recorder, event.get());
  for (Watch* each = watch; each != nullptr; each = each->outer)
    tell(each->callback.get(), event.get());
}

void recordGuards(StatorFrame* frame, const guards::GuardProgram::Costs& costs) {
  HookDisabledScope disabled;
  Ref<> each = stealRef(PyList_New(0));
  for (const auto& [guard, nanoseconds] : costs.each) {
    Ref<> row = stealRef(Py_BuildValue("(sd)", guard.c_str(), nanoseconds));
    if (!row || PyList_Append(each.get(), row.get()) != 0) break;
  }
  Ref<> event = stealRef(Py_BuildValue("{s:s,s:O,s:d}", "site", siteName(frame).c_str(),
                                       "guard_costs", each.get(), "together", costs.together));
  if (event) {
    tell(recorder, event.get());
  } else {
    PyErr_WriteUnraisable(nullptr);
  }
}

Ref<> linesOf(const graph::Graph& graph) {
  std::map<std::pair<PyCodeObject*, int>, std::pair<Py_ssize_t, int>> known;  // position, calls
  Ref<> nodes = stealRef(PyList_New(0));
  for (const graph::Node& node : graph.nodes()) {
    Py_ssize_t outermost = -1;
    for (const graph::Location* at = node.location; at != nullptr; at = at->caller) {
      const int line = PyCode_Addr2Line(at->code.get(), at->offset);
      auto& row =
          known.try_emplace({at->code.get(), line}, static_cast<Py_ssize_t>(known.size()), 0)
              .first->second;
      row.second += node.op != graph::Op::kInput;
      outermost = row.first;
    }
    Ref<> position = stealRef(PyLong_FromSsize_t(outermost));
    if (!position || PyList_Append(nodes.get(), position.get()) != 0) throw PythonError();
  }
  Ref<> lines = stealRef(PyList_New(static_cast<Py_ssize_t>(known.size())));
  for (const auto& [where, row] : known) {
    PyObject* made = Py_BuildValue("(OiOi)", where.first->co_filename, where.second,
                                   where.first->co_qualname, row.second);
    if (made == nullptr) throw PythonError();
    PyList_SET_ITEM(lines.get(), row.first, made);
  }
  return stealRef(PyTuple_Pack(2, lines.get(), nodes.get()));
}

void ranUntil(const std::string& break_place) {
  settleCount();
  for (Watch* each = watch; each != nullptr; each = each->outer) each->label = break_place;
}

WatchedCall::WatchedCall() {
  outer_ = watch->label;
  if (outer_ == kBeside) ranUntil("");
}

WatchedCall::~WatchedCall() {
  if (watch != nullptr) ranUntil(outer_);
}

namespace {

// All reasons: {name: (number, sentence, hint)}; explain and the generated page of docs/ read them.
PyObject* allReasons(PyObject*, PyObject*) {
  Ref<> dict = stealRef(PyDict_New());
  auto put = [&](breaks::Reason reason) {
    Ref<> row = stealRef(Py_BuildValue("(iss)", static_cast<int>(reason),
                                       breaks::reasonSentence(reason), breaks::reasonHint(reason)));
    PyDict_SetItemString(dict.get(), breaks::reasonName(reason), row.get());
  };
#define REASON(name, number, sentence, hint) put(breaks::Reason::name);
#include "breaks/reasons.def"
#undef REASON
  return dict.release();
}

}  // namespace

PyMethodDef watch_methods[] = {
    {"break_reasons", allReasons, METH_NOARGS,
     "All reasons for a break: {name: (number, sentence, what to do)}."},
    {"watch_captures", start, METH_O,
     "watch_captures(callback): callback(dict) for each capture of this thread, and tensor calls "
     "outside of graphs are counted."},
    {"stop_watching", stop, METH_NOARGS,
     "Ends the last watch_captures; returns {place of a break: tensor calls that ran outside of "
     "graphs because of it}; those outside of compiled functions are under 'beside'."},
    {"record_captures", record, METH_O,
     "record_captures(callback or None): callback(dict) for each capture of all threads, and for "
     "what the guards of each new entry cost."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace stator::runtime
