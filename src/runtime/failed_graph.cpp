#include "runtime/failed_graph.h"

#include "base/check.h"
#include "base/error_aside.h"
#include "breaks/draws.h"
#include "python/recursion.h"
#include "runtime/reports.h"
#include "runtime/settings.h"

#include <utility>

namespace stator::runtime {
namespace {

struct Waiting {
  const Entry* entry = nullptr;
  PyObject* error = nullptr;  // owned
};
__attribute__((tls_model("initial-exec"))) thread_local Waiting waiting;

// The part of the program that failed, captured anew and run without the backend.
struct SecondRun {
  std::shared_ptr<Entry> entry;  // null: it could not be captured
  Ref<> outputs;                 // null: it raised
  sources::Roots roots;
  breaks::Draws draws;
  std::optional<tensor::RandomStates> random_states;

  void run(Cache& cache, StatorFrame* frame, const Entry& failed) {
    entry = capture(cache, frame, {.runs_as_is = true, .repeats = &failed});
    if (!entry) return;
    GraphInputs inputs;
    if (!inputs.found(*entry, roots)) {
      entry.reset();
      return;
    }
    inputs.hold();
    if (!draws.run(entry->plan, roots)) throw PythonError();
    roots.drawn = entry->plan.draws.empty() ? nullptr : draws.values();
    random_states.emplace(entry->drawn);
    if (!entry->compiled) return;  // it ends before its first operation
    std::vector<Ref<>> owned;
    prepareInputs(*entry, roots, inputs.values, owned);
    outputs = callGraph(*entry, inputs.values);
    if (!outputs) PyErr_Clear();
  }
  void undo() {
    draws.undo();
    if (random_states) random_states->putBack();
  }
};

void takePlaceOf(Cache& cache, StatorFrame* frame, const Entry& failed,
                 const std::shared_ptr<Entry>& entry) {
  Site& site = cache.site(stator_frame_code(frame), stator_frame_offset(frame));
  for (std::shared_ptr<Entry>& each : site.entries) {
    if (each.get() == &failed) each = entry;
  }
  cache.generation++;
}

}  // namespace

std::optional<Exit> judgeFailure(Cache& cache, const Entry& entry, StatorFrame* frame,
                                 sources::Roots roots, Ref<> error,
                                 const std::function<void()>& undo_writes) {
  // What is left of the recursion is less here than it is in eager.
  if (PyErr_GivenExceptionMatches(error.get(), PyExc_RecursionError)) return std::nullopt;
  SecondRun again;
  again.roots = roots;
  try {
    again.run(cache, frame, entry);
  } catch (const PythonError&) {
    PyErr_Clear();
    again.entry.reset();
  }
  // What is known by now may end the second capture earlier, before the operation that failed, or before its first:
  // then it says nothing.
  if (!again.entry || !again.outputs || again.entry->ops < entry.ops) {
    again.undo();
    undo_writes();
    return std::nullopt;
  }
  const ConfigValues& config = configValues();
  const bool raises = cache.fullgraph || config.strict || !config.suppress_errors;
  reportFailedGraph(cache, frame, entry.graph_number, error.get(), raises);
  if (PyErr_Occurred())
    error = takeError();  // a warning that is an error
  else if (!raises) {
    takePlaceOf(cache, frame, entry, again.entry);
    return finishEntry(again.entry->plan, frame, again.roots, std::move(again.outputs));
  }
  again.undo();
  undo_writes();
  setError(std::move(error));
  return outcome(Outcome::kRaise);
}

void keepFailure(const Entry& entry) {
  dropFailure();
  waiting = {&entry, takeError().release()};
}

bool takeFailure(const Entry& entry) {
  if (waiting.entry != &entry) [[likely]]
    return false;
  waiting.entry = nullptr;
  setError(stealRef(std::exchange(waiting.error, nullptr)));
  return true;
}

void dropFailure() {
  waiting.entry = nullptr;
  stealRef(std::exchange(waiting.error, nullptr));
}

bool failureWaits() { return waiting.error != nullptr; }

}  // namespace stator::runtime
