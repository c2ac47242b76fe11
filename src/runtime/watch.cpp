#include "runtime/watch.h"

#include "base/hot.h"
#include "base/imports.h"
#include "base/ref.h"
#include "dist/digest.h"
#include "runtime/active.h"
#include "runtime/hook.h"
#include "runtime/ranks.h"
#include "runtime/settings.h"
#include "tensor/call_counter.h"

#include <map>

namespace stator::runtime {

namespace {

struct Watch {
  Ref<> callback;  // gets a dict for each capture
  std::string label;
  std::map<std::string, int64_t> outside;
};
__attribute__((tls_model("initial-exec"))) thread_local Watch* watch = nullptr;

void settleCount() {
  if (int64_t calls = tensor::takeCallCount(); calls > 0) watch->outside[watch->label] += calls;
}

PyObject* start(PyObject*, PyObject* callback) {
  if (watch != nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "captures are being watched already on this thread");
    return nullptr;
  }
  watch = new Watch();
  watch->callback = newRef(callback);
  tensor::startCallCounter(&hookState().disabled);
  Py_RETURN_NONE;
}

// The counts by the place of the break.
PyObject* stop(PyObject*, PyObject*) {
  Ref<> dict = stealRef(PyDict_New());
  if (watch == nullptr) return dict.release();
  settleCount();
  tensor::stopCallCounter();
  for (const auto& [place, calls] : watch->outside) {
    Ref<> number = stealRef(PyLong_FromLongLong(calls));
    if (PyDict_SetItemString(dict.get(), place.c_str(), number.get()) != 0) return nullptr;
  }
  delete watch;
  watch = nullptr;
  return dict.release();
}

}  // namespace

STATOR_HOT bool watching() { return watch != nullptr; }

bool wantsTexts() { return watching() || configValues().log_captures || configValues().trace_dir; }

void reportCapture(const CaptureReport& report) {
  HookDisabledScope disabled;
  PyCodeObject* code = stator_frame_code(report.frame);
  const breaks::Plan& plan = *report.plan;
  bool broke = plan.exit == breaks::ExitKind::kBreak;
  Ref<> event = stealRef(Py_BuildValue(
      "{s:s,s:i,s:s,s:n,s:s,s:s,s:d,s:d,s:O,s:i,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s}", "file",
      PyUnicode_AsUTF8(code->co_filename), "line", code->co_firstlineno, "function",
      PyUnicode_AsUTF8(code->co_qualname), "ops", static_cast<Py_ssize_t>(report.ops), "graph",
      report.graph.c_str(), "guards", report.guards.c_str(), "capture_seconds",
      report.capture_seconds, "backend_seconds", report.backend_seconds, "broke",
      broke ? Py_True : Py_False, "reason", static_cast<int>(plan.reason), "name",
      breaks::reasonName(plan.reason), "sentence", breaks::reasonSentence(plan.reason), "detail",
      plan.detail.c_str(), "place", plan.place.c_str(), "site", siteName(report.frame).c_str(),
      "graph_digest", dist::hex(dist::digestOf(report.graph)).c_str(), "guards_digest",
      dist::hex(dist::digestOf(report.guards)).c_str(), "regions", report.regions.c_str()));
  if (event && (configValues().log_captures || configValues().trace_dir)) {
    Ref<> log = stealRef(importModule("stator._rank_log"));
    Ref<> done =
        log ? stealRef(PyObject_CallMethod(log.get(), "captured", "(O)", event.get())) : Ref<>();
    if (!done) PyErr_WriteUnraisable(log.get());  // a full disk is no reason to stop the program
  }
  if (!watching()) return;
  Ref<> done = event ? stealRef(PyObject_CallOneArg(watch->callback.get(), event.get())) : Ref<>();
  if (!done) PyErr_WriteUnraisable(watch->callback.get());
}

void ranUntil(const std::string& break_place) {
  settleCount();
  watch->label = break_place;
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
     "Ends watch_captures; returns {place of a break: tensor calls that ran outside of graphs "
     "because of it}."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace stator::runtime
