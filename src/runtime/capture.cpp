// How an entry comes into being: trace, graph, backend, guards, plan.
#include "base/check.h"
#include "base/collector_pause.h"
#include "base/faults.h"
#include "base/imports.h"
#include "graph/fx.h"
#include "graph/graph_runner.h"
#include "interpret/core/symbols.h"
#include "interpret/frames/init.h"
#include "interpret/frames/trace.h"
#include "known/code_policy.h"
#include "runtime/active.h"
#include "runtime/backend_call.h"
#include "runtime/capture_turn.h"
#include "runtime/entry.h"
#include "runtime/failed_graph.h"
#include "runtime/guard_filter.h"
#include "runtime/kept_captures.h"
#include "runtime/learned.h"
#include "runtime/listing.h"
#include "runtime/ranks.h"
#include "runtime/reports.h"
#include "runtime/settings.h"
#include "runtime/watch.h"
#include "shapes/infer.h"
#include "tensor/tensor_guard.h"
#include "tensor/torch_function.h"

#include <algorithm>
#include <unordered_set>

namespace stator::runtime {
namespace {

// Inductor folds parameters into its code, for inference: they have to be the graph's own then.
bool freezes() {
  static PyObject* const name = PyUnicode_InternFromString("torch._inductor.config");
  Ref<> loaded = stealRef(PyImport_GetModule(name));
  if (!loaded || shapes::State::now().grad_enabled) return false;
  Ref<> set = stealRef(PyObject_GetAttrString(loaded.get(), "freezing"));
  if (!set) PyErr_Clear();
  return set.get() == Py_True;
}

// How long a capture may go on without a tensor. Each place of a long loop without one costs a capture that is thrown away: the more of them
// a function has, the sooner they are. Where a tensor is at hand it will be used, and the way to it is long if a list on the way is: what is
// captured behind the list costs a compare for each item at later calls, what is not an instruction of the driver's.
void limitQuiet(interpret::Limits& limits, const CodeEntries& code, bool has_tensor) {
  constexpr uint64_t kFirst = 200'000, kLeast = 2'000, kWithNodes = 1'000'000;
  const uint64_t first = has_tensor ? std::max<uint64_t>(kFirst, limits.instructions / 2) : kFirst;
  limits.quiet = std::max(kLeast, first >> std::min(code.quiet_sites, 20));
  limits.quiet_with_nodes = std::max(kWithNodes, limits.quiet);
}

// For backends and users who ask a graph module why it ends where it does (compile_subgraph_reason).
void giveReason(PyObject* module, Ref<> reason, int logs) {
  if ((logs & kLogGraphs) != 0) reportGraph(reason.get());
  // Each graph module has a class of its own.
  if (PyObject_SetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(module)), "_stator_reason",
                             reason.get()) < 0)
    throw PythonError();
}

// The backend that leaves a graph as it is.
Ref<> asCaptured() {
  Ref<> module = stealRef(importModule("stator._fx"));
  Ref<> eager = module ? stealRef(PyObject_GetAttrString(module.get(), "eager")) : Ref<>();
  if (!eager) throw PythonError();
  return eager;
}

}  // namespace

bool asksBackend(const Cache& cache, const char* name) {
  Ref<> answer = stealRef(PyObject_GetAttrString(cache.backend.get(), name));
  if (!answer) PyErr_Clear();
  return answer.get() == Py_True;
}

interpret::TraceOptions traceOptions(const Cache& cache, StatorFrame* frame) {
  const ConfigValues& config = configValues();
  interpret::TraceOptions options;
  options.limits = {static_cast<uint64_t>(config.trace_limit_instructions),
                    static_cast<uint64_t>(config.trace_limit_nodes), config.trace_limit_seconds};
  options.limits.quiet = options.limits.quiet_with_nodes = options.limits.instructions;
  options.fullgraph = cache.fullgraph;
  options.runs_as_captured = asksBackend(cache, "is_eager");
  interpret::setForExport(asksBackend(cache, "exports"));
  Ref<> floats = stealRef(PyObject_GetAttrString(cache.backend.get(), "takes_floats"));
  if (!floats) PyErr_Clear();
  options.symbolic_floats = !config.specialize_float && floats.get() != Py_False;
  // Where a break is an error there is no other way to go on; TorchDynamo takes it so too.
  options.capture_scalar_outputs = config.capture_scalar_outputs || cache.fullgraph;
  bool all = cache.dynamic == 1 || (cache.dynamic < 0 && !config.assume_static_by_default);
  bool automatic = cache.dynamic < 0 && config.automatic_dynamic_shapes;
  options.dynamic = all         ? known::DynamicMode::kAll
                    : automatic ? known::DynamicMode::kAutomatic
                                : known::DynamicMode::kStatic;
  options.specialize_modules = config.specialize_modules;
  options.own_parameters = config.specialize_modules || freezes();
  options.skip_fsdp_guards = config.skip_fsdp_guards;
  options.skip_hook_guards = config.skip_nnmodule_hook_guards;
  options.specialize_int = config.specialize_int;
  options.fixed_parameters = config.force_parameter_static_shapes;
  options.changed_is_unbacked = config.changed_is_unbacked;
  options.trace_numpy = config.trace_numpy;
  options.break_every = config.break_every;
  options.random = config.break_random;
  // The same place breaks at the same instructions in every process.
  options.random_seed = config.break_seed +
                        static_cast<uint64_t>(stator_frame_code(frame)->co_firstlineno) * 1000003u +
                        static_cast<uint64_t>(stator_frame_offset(frame)) * 7919u;
  return options;
}

namespace {

// Whether the error that is set is one of a trace's own: built into Python, and raised in a file of ours or torch's, or for want of memory. Others
// are for the user: demands that are not met, interrupts, what a handler of a signal raises.
bool isOurs(PyObject* error) {
  if (PyErr_GivenExceptionMatches(error, PyExc_MemoryError)) return true;
  if (!PyErr_GivenExceptionMatches(error, PyExc_Exception)) return false;
  Ref<> module =
      stealRef(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(error)), "__module__"));
  if (!module || !PyUnicode_Check(module.get()) ||
      PyUnicode_CompareWithASCIIString(module.get(), "builtins") != 0)
    return false;
  Ref<> at = stealRef(PyException_GetTraceback(error));
  if (!at) return false;
  auto* last = reinterpret_cast<PyTracebackObject*>(at.get());
  while (last->tb_next != nullptr) last = last->tb_next;
  Ref<> globals = stealRef(PyFrame_GetGlobals(last->tb_frame));
  PyObject* name = globals ? PyDict_GetItemString(globals.get(), "__name__") : nullptr;
  const char* text = name != nullptr && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  if (text == nullptr) return false;
  const std::string_view room = std::string_view(text).substr(0, std::string_view(text).find('.'));
  return room == "stator" || room == "torch";
}

}  // namespace

interpret::Captured traceFrame(StatorFrame* frame, interpret::TraceOptions& options) {
  try {
    interpret::Captured captured = interpret::trace(frame, options);
    statistics().restarts += captured.restarts;
    return captured;
  } catch (const PythonError&) {
    Ref<> error = takeError();
    const bool ours = isOurs(error.get());
    PyErr_Clear();
    if (!ours) {
      setError(std::move(error));
      throw;
    }
    Ref<> text = stealRef(PyObject_Str(error.get()));
    const char* words = text ? PyUnicode_AsUTF8(text.get()) : "";
    throw InternalError(std::string("a trace raised ") + Py_TYPE(error.get())->tp_name + ": " +
                        (words != nullptr ? words : ""));
  }
}

bool holdsTensor(StatorFrame* frame) {
  PyObject** slots = stator_frame_slots(frame);
  const int count = stator_frame_slot_count(frame) + stator_frame_depth(frame);
  for (int i = 0; i < count; ++i) {
    if (slots[i] != nullptr && tensor::isTensor(slots[i])) return true;
  }
  return false;
}

namespace {

// Whether a call writes to an input of the graph, as far as its facts say.
bool writesToInput(const graph::Node& node, const std::unordered_set<uint32_t>& written) {
  bool found = false;
  auto look = [&](graph::StandIn* used) {
    found |= used->meta != nullptr && written.count(used->meta->storage_id) != 0;
  };
  graph::forEachStandIn(node.args.get(), look);
  graph::forEachStandIn(node.kwargs.get(), look);
  return found;
}

// Whether a call may raise for the data of its tensors, whatever their facts are.
bool mayRaiseOnData(const graph::Node& node) {
  if (node.op == graph::Op::kInput || node.op == graph::Op::kAttribute) return false;
  static const char* const kParts[] = {
      "embedding", "index",    "gather",        "scatter",   "take",
      "one_hot",   "nll_loss", "cross_entropy", "bincount",  "linalg",
      "cholesky",  "inverse",  "solve",         "lu_",       "svd",
      "eig",       "multi",    "normal",        "bernoulli", "repeat_interleave",
      "histc",     "getitem",  "setitem",       "logdet",    "det",
      "pinverse",  "ctc_loss", "poisson",       "assert"};
  Ref<> name = node.op == graph::Op::kCallMethod
                   ? node.target
                   : stealRef(PyObject_GetAttrString(node.target.get(), "__name__"));
  if (!name || !PyUnicode_Check(name.get())) {
    PyErr_Clear();
    return true;
  }
  const std::string text = PyUnicode_AsUTF8(name.get());
  if (text == "forward") return true;  // of a layer
  return std::any_of(std::begin(kParts), std::end(kParts),
                     [&](const char* part) { return text.find(part) != std::string::npos; });
}

// Calls that may raise or draw random numbers, and that nothing needs, become outputs: a backend drops what leads to none. Whether there are calls
// that may raise.
bool keepRaising(graph::Graph& graph) {
  std::unordered_set<const graph::Node*> needed(graph.outputs().begin(), graph.outputs().end());
  std::vector<graph::Node*> raising, drawing, all;
  for (graph::Node& node : graph.nodes()) all.push_back(&node);
  for (size_t i = all.size(); i-- > 0;) {
    graph::Node& node = *all[i];
    if (mayRaiseOnData(node)) raising.push_back(&node);
    if (node.random) drawing.push_back(&node);
    if (!node.mutates && needed.count(&node) == 0) continue;
    auto use = [&](graph::StandIn* used) { needed.insert(used->node); };
    graph::forEachStandIn(node.args.get(), use);
    graph::forEachStandIn(node.kwargs.get(), use);
  }
  for (const std::vector<graph::Node*>& nodes : {raising, drawing}) {
    for (graph::Node* node : nodes) {
      if (node->meta != nullptr && needed.insert(node).second) graph.addOutput(node);
    }
  }
  return !raising.empty();
}

// What a run of the graph does beside computing its outputs. Whether it switches modes.
bool describeEffects(graph::Graph& graph, const Cache& cache, bool runs_as_is, Entry& entry) {
  bool has_checks = false, sets_modes = false, draws = false;
  std::unordered_set<uint32_t> storages;
  for (const graph::Node& node : graph.nodes()) has_checks |= node.check;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const graph::Node& input = *graph.inputs()[i];
    if (!input.written || input.meta == nullptr) continue;
    entry.written.push_back(i);
    storages.insert(input.meta->storage_id);
  }
  for (const graph::Node& node : graph.nodes()) {
    draws |= node.random;
    sets_modes |= node.sets_mode;
    entry.has_effects |= node.written || (node.mutates && !node.repeatable &&
                                          !(has_checks && (node.random || node.sets_mode)));
    entry.unseen_effects |= node.mutates && !node.repeatable && !node.random && !node.sets_mode &&
                            !writesToInput(node, storages);
  }
  // A graph that runs as it is can be left in its middle; others are run again, from where they began.
  const bool as_it_is = runs_as_is || asksBackend(cache, "is_eager");
  entry.redraws = draws && (has_checks || !as_it_is);
  entry.unseen_effects |= draws && !entry.redraws;
  if (!as_it_is && keepRaising(graph))
    entry.saves_written = !entry.unseen_effects && !entry.written.empty();
  entry.writes_unseen = asksBackend(cache, "writes_unseen");
  return sets_modes;
}

}  // namespace

std::unique_ptr<Entry> capture(Cache& cache, StatorFrame* frame, CaptureWish wish) {
  const bool together = !wish.runs_as_is && ranksAgree();
  CaptureTurn turn(!together);
  if (!turn.held()) return nullptr;
  Site& site = cache.site(stator_frame_code(frame), stator_frame_offset(frame));
  auto start = std::chrono::steady_clock::now();
  HookDisabledScope disabled;
  CollectorPause pause;
  if (!interpret::initTracer() || !shapes::initShapes()) throw PythonError();
  interpret::TraceOptions options = traceOptions(cache, frame);
  if (site.captures == 0) recall(cache, stator_frame_code(frame), stator_frame_offset(frame));
  options.history = &site.history;
  options.logs = wish.logs / kLogTrace % (kLogPlans / kLogTrace);
  if (site.constant_floats) options.symbolic_floats = false;
  if (!cache.fullgraph)
    limitQuiet(options.limits, cache.entriesOf(stator_frame_code(frame)), holdsTensor(frame));
  int entry_offset = stator_frame_offset(frame);
  interpret::Captured captured;
  if (together) {
    std::optional<interpret::Captured> agreed = traceTogether(
        cache, frame, options, [&](interpret::TraceOptions now) { return traceFrame(frame, now); });
    if (!agreed) return nullptr;
    captured = std::move(*agreed);
  } else {
    captured = traceFrame(frame, options);
  }
  statistics().captures++;
  if (!wish.runs_as_is) site.captures++;
  remember(cache, stator_frame_code(frame), entry_offset, captured.guards->relations);
  bool breaks_here = captured.plan.exit == breaks::ExitKind::kBreak;
  bool is_error = captured.break_is_error || captured.plan.reason == breaks::Reason::kForbidden;
  if (breaks_here && (cache.fullgraph || is_error)) {
    if (keepsCaptures()) {
      keepCapture(frame, *captured.graph, captured.plan,
                  captured.graph->text(stator_frame_code(frame)), "");
    }
    raiseUnsupported(captured, cache.fullgraph);
    throw PythonError();
  }
  bool nothing = breaks_here && captured.plan.frames.size() == 1 &&
                 captured.plan.frames[0].offset == entry_offset && captured.graph->callCount() == 0;
  if (breaks_here && !wish.runs_as_is) {
    statistics().breaks++;
    reportBreak(captured);
  }
  if (nothing) {
    site.step_only = captured.plan.reason != breaks::Reason::kForced;
  } else if (breaks_here && captured.plan.reason == breaks::Reason::kTraceLimit &&
             captured.plan.detail.empty() && captured.graph->callCount() == 0) {
    // Its plan would stand for one way through a long program. What runs instead comes to places where something can be captured.
    nothing = site.quiet = true;
    site.step_only = holdsTensor(frame);
    cache.entriesOf(stator_frame_code(frame)).quiet_sites++;
  }
  if (nothing) {
    site.why = captured.plan.place;
    statistics().capture_seconds += secondsSince(start);
    if (wantsTexts()) {
      reportCapture(
          {frame, &captured.plan, 0, "", "", secondsSince(start), 0, "", stackOf(captured)});
    }
    if (keepsCaptures()) keepCapture(frame, *captured.graph, captured.plan, "", "");
    return nullptr;
  }
  faultPoint();
  auto entry = std::make_unique<Entry>();
  entry->ops = captured.graph->callCount();
  entry->watched = static_cast<long long>(captured.watched);
  entry->outputs = captured.graph->outputs().size();
  entry->graph_id = captured.graph.get();
  entry->grad_enabled = captured.grad_enabled;
  entry->has_subclasses = captured.has_subclasses;
  BorrowedRef<PyCodeObject> code = stator_frame_code(frame);
  for (graph::Node* input : captured.graph->inputs()) entry->inputs.push_back(input->source);
  const bool sets_modes = describeEffects(*captured.graph, cache, wish.runs_as_is, *entry);
  double backend_seconds = 0;
  const bool texts = wantsTexts() || keepsCaptures();
  std::string graph_text, guards_text, regions_text;
  Ref<> lines;
  if (texts) graph_text = captured.graph->text(code);
  if (recording()) lines = linesOf(*captured.graph);
  if (entry->ops > 0) {
    statistics().graphs++;
    statistics().ops += static_cast<int64_t>(entry->ops);
    BackendCall call(captured.graph, code, cache.backend,
                     {.grad_enabled = captured.grad_enabled,
                      .as_captured = wish.runs_as_is,
                      .seen = (wish.logs & kLogGraphs) != 0},
                     [&](PyObject* module) {
                       if (!options.runs_as_captured || (wish.logs & kLogGraphs) != 0)
                         giveReason(module, compileReason(frame, captured), wish.logs);
                     });
    std::vector<PyObject*> examples;
    std::vector<bool> written;
    for (graph::Node* input : captured.graph->inputs()) {
      examples.push_back(input->example.get());
      written.push_back(input->written);
    }
    std::vector<Ref<>> keep_examples;
    for (PyObject* example : examples) keep_examples.push_back(Ref<>::create(example));
    pause.end();
    turn.end();
    auto backend_start = std::chrono::steady_clock::now();
    tensor::TorchFunctionPause plain(entry->has_subclasses);
    graph::Compiled compiled = call.compile(wish.runs_as_is ? asCaptured() : cache.backend);
    if (texts) regions_text = call.regionsText();
    entry->disk_keys = call.diskKeys();
    backend_seconds = call.searchSeconds() + secondsSince(backend_start);
    if (together && !backendsDone(cache, frame, !compiled.callable)) {
      if (compiled.callable) return nullptr;
    }
    if (!compiled.callable) {
      const ConfigValues& config = configValues();
      bool has_floats = false;
      for (const graph::Node* input : captured.graph->inputs())
        has_floats |= input->scalar_type && input->size.isStatic();
      if (config.suppress_errors && !cache.fullgraph && !together && !has_floats &&
          PyErr_ExceptionMatches(PyExc_Exception)) {
        reportSuppressed(frame);
        return capture(cache, frame, {.logs = wish.logs, .runs_as_is = true});
      }
      if (!has_floats || together) throw PythonError();
      // Not every backend takes floats as inputs: at this place they are constants from here on.
      PyErr_Clear();
      Site& again = cache.site(code, entry_offset);
      again.constant_floats = true;
      return capture(cache, frame, wish);
    }
    entry->compiled = std::move(compiled.callable);
    entry->graph_number = compiled.number;
    for (const std::string& text : compiled.conditions) {
      if (text.rfind("input ", 0) == 0) {
        // A float on which the backend decided something that has no words here: it keeps its value.
        const auto position = static_cast<size_t>(std::stoul(text.substr(6)));
        if (entry->inputs[position]->kind == sources::SourceKind::kDrawn) {
          // It has none before it is drawn.
          Site& again = cache.site(code, entry_offset);
          again.constant_floats = true;
          return capture(cache, frame, wish);
        }
        captured.guards->add(guards::Guard{guards::GuardKind::kEquals, entry->inputs[position],
                                           nullptr, keep_examples[position]});
        continue;
      }
      const symbolic::Expr* condition = symbolic::parse(text);
      STATOR_CHECK(condition != nullptr && condition->isTruth(),
                   "a condition of the backend: " + text);
      if (condition->kind != symbolic::Kind::kBool)
        captured.guards->relations.conditions.push_back(condition);
    }
    for (const graph::BackendGuard& guard : compiled.guards) {
      if (guard.kind == graph::BackendGuard::Kind::kSameInput) {
        captured.guards->add(guards::Guard{guards::GuardKind::kSameAs,
                                           entry->inputs[static_cast<size_t>(guard.inputs[0])],
                                           entry->inputs[static_cast<size_t>(guard.inputs[1])]});
      } else {
        for (int index : guard.inputs) written[static_cast<size_t>(index)] = true;
        for (int index : guard.others) written[static_cast<size_t>(index)] = true;
      }
    }
    entry->memory = tensor::StoragePattern::of(examples, written);
  }
  if ((wish.logs & kLogPlans) != 0) reportPlan(frame, captured.plan);
  if ((wish.logs & (kLogSymbols | kLogDynamic)) != 0)
    reportSymbols(frame, captured, captured.guards->relations.symbols);
  entry->watches_backward =
      entry->graph_number >= 0 && entry->grad_enabled && !options.runs_as_captured;
  entry->plan = std::move(captured.plan);
  entry->needs_no_frame = entry->plan.exit == breaks::ExitKind::kReturn &&
                          entry->plan.handled < 0 && entry->plan.draws.empty() &&
                          !entry->has_effects && !entry->redraws && !sets_modes &&
                          !entry->has_subclasses;
  filterGuards(cache, frame, captured);
  faultPoint();
  if (!captured.managed.empty()) {
    entry->same_modules = std::make_unique<guards::GuardProgram>(
        *captured.sources, *interpret::guardsOfSameModules(*captured.guards, captured.managed),
        entry->inputs);
  }
  entry->guards =
      std::make_unique<guards::GuardProgram>(*captured.sources, *captured.guards, entry->inputs);
  entry->sources = std::move(captured.sources);
  if (texts) guards_text = entry->guards->text(code);
  if (keepsCaptures()) keepCapture(frame, *captured.graph, entry->plan, graph_text, guards_text);
  statistics().entries++;
  statistics().backend_seconds += backend_seconds;
  double capture_seconds = secondsSince(start) - backend_seconds;
  statistics().capture_seconds += capture_seconds;
  if (wantsTexts()) {
    reportCapture({frame, &entry->plan, entry->ops, graph_text, guards_text, capture_seconds,
                   backend_seconds, regions_text, stackOf(captured), lines});
  }
  return entry;
}

void takeDown(Site& site, const Cache& cache, StatorFrame* frame) {
  site.captures++;
  CaptureTurn turn(true);
  if (!turn.held()) return;
  HookDisabledScope disabled;
  if (!interpret::initTracer() || !shapes::initShapes()) throw PythonError();
  interpret::TraceOptions options = traceOptions(cache, frame);
  options.history = &site.history;
  limitQuiet(options.limits, CodeEntries(), holdsTensor(frame));
  trace(frame, options);
}

}  // namespace stator::runtime
