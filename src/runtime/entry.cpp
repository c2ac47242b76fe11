// The captured side of the driver: finds the entry of a place whose guards hold, or captures one, and runs it. The one boundary at which
// stator's own failures end: the user's program goes on eagerly.
#include "base/check.h"
#include "bytecode/code_info.h"
#include "graph/fx.h"
#include "interpret/calls/tables.h"
#include "interpret/tracer.h"
#include "runtime/active.h"
#include "runtime/cache.h"
#include "runtime/driver.h"
#include "runtime/reports.h"
#include "runtime/settings.h"
#include "tensor/tensor_guard.h"

#include <algorithm>
#include <chrono>

namespace stator::runtime {

namespace {

using interpret::CodePolicy;
using sources::Roots;

Exit outcome(Outcome what) {
  Exit exit;
  exit.outcome = what;
  return exit;
}

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Moves a plan's result into the frame. Nothing here can fail.
void writeFrame(StatorFrame* frame, const breaks::FrameState& state, const std::vector<Ref<>>& registers) {
  auto at = [&](breaks::Register index) { return index < 0 ? nullptr : registers[static_cast<size_t>(index)].get(); };
  std::vector<Ref<>> stack;
  for (breaks::Register index : state.stack) stack.push_back(Ref<>::create(at(index)));
  stator_frame_truncate(frame, 0);
  for (size_t i = 0; i < state.slots.size(); ++i) {
    if (state.slots[i] != breaks::kKeep) stator_frame_set_slot(frame, static_cast<int>(i), at(state.slots[i]));
  }
  for (Ref<>& value : stack) stator_frame_push_steal(frame, value.release());
  stator_frame_set_offset(frame, state.offset);
}

PendingFrame pendingFrame(const breaks::FrameState& state, const std::vector<Ref<>>& registers) {
  auto at = [&](breaks::Register index) { return index < 0 ? Ref<>() : registers[static_cast<size_t>(index)]; };
  PendingFrame pending;
  pending.function = Ref<PyFunctionObject>::create(reinterpret_cast<PyFunctionObject*>(at(state.function).get()));
  for (breaks::Register index : state.slots) pending.slots.push_back(at(index));
  for (breaks::Register index : state.stack) pending.stack.push_back(at(index));
  pending.offset = state.offset;
  pending.continuation = static_cast<Continuation>(state.continuation);
  pending.instance = at(state.instance);
  return pending;
}

// `values`: the graph's inputs, as the guards found them.
Exit runEntry(Entry& entry, StatorFrame* frame, const Roots& roots, const std::vector<Ref<>>& values) {
  Ref<> outputs;
  if (entry.compiled) {
    std::vector<PyObject*> inputs;
    inputs.reserve(values.size());
    for (const Ref<>& value : values) inputs.push_back(value.get());
    statistics().graph_calls++;
    statistics().ops_run += static_cast<int64_t>(entry.ops);
    HookDisabledScope disabled;
    outputs = stealRef(PyObject_Vectorcall(entry.compiled.get(), inputs.data(), inputs.size(), nullptr));
    if (!outputs) {
      if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) return outcome(Outcome::kRaise);
      // Nothing has been committed: the real interpreter runs this part again and raises where, and as, eager raises.
      // A graph with effects of its own cannot be run again: its error is the user's, with the user's lines in the traceback.
      if (entry.has_effects || !PyErr_ExceptionMatches(PyExc_Exception)) return outcome(Outcome::kRaise);
      PyErr_Clear();
      return outcome(Outcome::kNative);
    }
  }
  std::vector<Ref<>> registers;
  if (!breaks::runSteps(entry.plan, roots, outputs.get(), registers)) return outcome(Outcome::kRaise);
  outputs.reset();
  Exit exit;
  auto at = [&](breaks::Register index) { return registers[static_cast<size_t>(index)]; };
  if (entry.plan.handled >= 0) stator_set_handled_exception(at(entry.plan.handled).get());
  if (entry.plan.exit == breaks::ExitKind::kReturn) {
    exit.outcome = Outcome::kReturn;
    exit.value = at(entry.plan.returned);
    return exit;
  }
  if (entry.plan.frames.size() == 1) {
    writeFrame(frame, entry.plan.frames[0], registers);
    exit.outcome = Outcome::kStep;
    return exit;
  }
  exit.outcome = Outcome::kInlined;
  exit.pending = std::make_unique<std::vector<PendingFrame>>();
  for (size_t i = 1; i < entry.plan.frames.size(); ++i) exit.pending->push_back(pendingFrame(entry.plan.frames[i], registers));
  writeFrame(frame, entry.plan.frames[0], registers);
  return exit;
}

// Captures from the frame's offset on. Null: nothing was captured here (the site says why).
std::unique_ptr<Entry> capture(Cache& cache, StatorFrame* frame, Site& site) {
  auto start = std::chrono::steady_clock::now();
  HookDisabledScope disabled;
  if (!interpret::initCallTables() || !shapes::initShapes()) throw PythonError();
  const ConfigValues& config = configValues();
  interpret::TraceOptions options;
  options.limits = {static_cast<uint64_t>(config.trace_limit_instructions), static_cast<uint64_t>(config.trace_limit_nodes), config.trace_limit_seconds};
  options.fullgraph = cache.fullgraph;
  bool all = cache.dynamic == 1 || (cache.dynamic < 0 && !config.assume_static_by_default);
  bool automatic = cache.dynamic < 0 && config.automatic_dynamic_shapes;
  options.dynamic = all ? interpret::DynamicMode::kAll : automatic ? interpret::DynamicMode::kAutomatic : interpret::DynamicMode::kStatic;
  options.history = &site.history;
  options.break_every = config.break_every;
  options.random = config.break_random;
  // The same place breaks at the same instructions in every process.
  options.random_seed = config.break_seed + static_cast<uint64_t>(stator_frame_code(frame)->co_firstlineno) * 1000003u +
                        static_cast<uint64_t>(stator_frame_offset(frame)) * 7919u;
  interpret::Captured captured;
  int entry_offset = stator_frame_offset(frame);
  for (int attempt = 0;; ++attempt) {
    interpret::Tracer tracer(frame, options);
    captured = tracer.run();
    if (captured.restart_at == 0) break;
    STATOR_CHECK(attempt < 20, "a capture keeps starting over");
    statistics().restarts++;
    options.break_at = captured.restart_at;
    options.break_at_reason = captured.restart_reason;
    options.break_at_detail = captured.restart_detail;
  }
  statistics().captures++;
  site.captures++;
  bool breaks_here = captured.plan.exit == breaks::ExitKind::kBreak;
  if (breaks_here && cache.fullgraph) {
    raiseUnsupported(frame, captured.plan);
    throw PythonError();
  }
  bool nothing = breaks_here && captured.plan.frames.size() == 1 && captured.plan.frames[0].offset == entry_offset && captured.graph->callCount() == 0;
  if (breaks_here) {
    statistics().breaks++;
    reportBreak(frame, captured.plan);
  }
  if (nothing) {
    if (captured.plan.reason != breaks::Reason::kForced) site.step_only = true;
    statistics().capture_seconds += secondsSince(start);
    return nullptr;
  }
  auto entry = std::make_unique<Entry>();
  entry->ops = captured.graph->callCount();
  BorrowedRef<PyCodeObject> code = stator_frame_code(frame);
  for (graph::Node* input : captured.graph->inputs()) entry->inputs.push_back(input->source);
  for (const graph::Node& node : captured.graph->nodes()) entry->has_effects |= node.mutates;
  double backend_seconds = 0;
  lastCapture().graph = captured.graph->text(code);
  if (entry->ops > 0) {
    statistics().graphs++;
    statistics().ops += static_cast<int64_t>(entry->ops);
    Ref<> module = graph::toGraphModule(captured.graph, code);
    if (!module) throw PythonError();
    auto backend_start = std::chrono::steady_clock::now();
    graph::Compiled compiled = graph::compile(captured.graph, module, cache.backend);
    backend_seconds = secondsSince(backend_start);
    if (!compiled.callable) throw PythonError();
    entry->compiled = std::move(compiled.callable);
    for (const std::string& text : compiled.conditions) {
      const symbolic::Expr* condition = symbolic::parse(text);
      STATOR_CHECK(condition != nullptr && condition->isTruth(), "a condition of the backend: " + text);
      if (condition->kind != symbolic::Kind::kBool) captured.guards->relations.conditions.push_back(condition);
    }
    for (const graph::BackendGuard& guard : compiled.guards) {
      if (guard.kind == graph::BackendGuard::Kind::kSameInput) {
        captured.guards->add(guards::Guard{guards::GuardKind::kSameAs, entry->inputs[static_cast<size_t>(guard.inputs[0])],
                                           entry->inputs[static_cast<size_t>(guard.inputs[1])]});
      }
    }
  }
  entry->plan = std::move(captured.plan);
  entry->guards = std::make_unique<guards::GuardProgram>(*captured.sources, *captured.guards, entry->inputs);
  entry->sources = std::move(captured.sources);
  lastCapture().guards = entry->guards->text(code);
  lastCapture().exit = entry->plan.text();
  statistics().entries++;
  statistics().backend_seconds += backend_seconds;
  statistics().capture_seconds += secondsSince(start) - backend_seconds;
  return entry;
}

Exit lookUp(Cache& cache, StatorFrame* frame) {
  PyCodeObject* code = stator_frame_code(frame);
  bytecode::CodeInfo* info = bytecode::CodeInfo::of(code);
  if (info == nullptr) throw PythonError();
  int offset = stator_frame_offset(frame);
  if (info->skip) return outcome(Outcome::kNative);
  const ConfigValues& config = configValues();
  if (info->captured == nullptr) {
    info->captured = info;  // the file's policy has been looked up
    if (interpret::codePolicy(code) != CodePolicy::kTrace) {
      info->skip = true;
      return outcome(Outcome::kNative);
    }
  }
  if (offset == info->firstLegal() && interpret::isDisabledFunction(reinterpret_cast<PyObject*>(stator_frame_function(frame)))) {
    return outcome(Outcome::kNative);
  }
  if (stator_frame_namespace(frame) != nullptr) return outcome(Outcome::kNative);  // class bodies, exec
  if (config.break_every == 1 && !config.break_random) return outcome(Outcome::kStep);
  Site& site = cache.site(code, offset);
  if (site.step_only || tensor::callsAreWatched()) return outcome(Outcome::kStep);
  Roots roots = Roots::of(frame);
  std::vector<Ref<>> inputs;
  for (size_t i = 0; i < site.entries.size(); ++i) {
    if (!site.entries[i]->guards->check(roots, inputs)) continue;
    if (i > 0) std::rotate(site.entries.begin(), site.entries.begin() + static_cast<std::ptrdiff_t>(i), site.entries.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    statistics().hits++;
    return runEntry(*site.entries[0], frame, roots, inputs);
  }
  statistics().misses++;
  int64_t limit = cache.recompile_limit > 0 ? cache.recompile_limit : config.recompile_limit;
  if (static_cast<int64_t>(site.entries.size()) >= limit && config.break_every == 0) {
    statistics().fallbacks++;
    bool worthless = std::all_of(site.entries.begin(), site.entries.end(), [](const auto& entry) { return entry->ops == 0; });
    if (!site.over_limit && !worthless) {
      site.over_limit = true;
      reportLimit(frame, site.entries.front()->guards->explain(roots), limit, cache.fullgraph);
      if (PyErr_Occurred()) throw PythonError();
    }
    return outcome(Outcome::kNative);
  }
  std::unique_ptr<Entry> entry = capture(cache, frame, site);
  if (!entry) return outcome(Outcome::kStep);
  if (!entry->guards->check(roots, inputs)) {
    throw InternalError("a guard fails right after the capture: " + entry->guards->explain(roots));
  }
  // The cache may have been reset, or the site moved, while the backend ran.
  Site& home = cache.site(code, offset);
  home.entries.insert(home.entries.begin(), std::move(entry));
  return runEntry(*home.entries.front(), frame, roots, inputs);
}

}  // namespace

Exit runCaptured(Cache& cache, StatorFrame* frame) {
  try {
    return lookUp(cache, frame);
  } catch (const PythonError&) {
    STATOR_CHECK(PyErr_Occurred(), "an error without an exception");
    return outcome(Outcome::kRaise);
  } catch (const std::exception& error) {
    statistics().internal_errors++;
    PyErr_Clear();
    if (reportInternal(frame, error.what())) return outcome(Outcome::kRaise);
    return outcome(Outcome::kNative);
  }
}

}  // namespace stator::runtime
