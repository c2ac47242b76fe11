// How an entry comes into being: trace, graph, backend, guards, plan.
#include "base/check.h"
#include "base/collector_pause.h"
#include "base/error_aside.h"
#include "base/faults.h"
#include "base/imports.h"
#include "base/text.h"
#include "graph/fx.h"
#include "graph/graph_runner.h"
#include "interpret/core/outside_symbols.h"
#include "interpret/core/symbols.h"
#include "interpret/frames/init.h"
#include "interpret/frames/trace.h"
#include "known/code_policy.h"
#include "regions/apart.h"
#include "runtime/active.h"
#include "runtime/backend_call.h"
#include "runtime/backend_guards.h"
#include "runtime/capture_turn.h"
#include "runtime/entry.h"
#include "runtime/failed_graph.h"
#include "runtime/graph_effects.h"
#include "runtime/guard_filter.h"
#include "runtime/kept_captures.h"
#include "runtime/learned.h"
#include "runtime/listing.h"
#include "runtime/ranks.h"
#include "runtime/reports.h"
#include "runtime/settings.h"
#include "runtime/watch.h"
#include "shapes/infer.h"
#include "tensor/fake_modes.h"
#include "tensor/tensor_guard.h"
#include "tensor/torch_function.h"

#include <algorithm>
#include <optional>
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

// How long a capture may go on without a tensor. Each place of a long loop without one costs a capture that is thrown
// away: the more of them a function has, the sooner they are. Where a tensor is at hand it will be used, and the way to
// it is long if a list on the way is: what is captured behind the list costs a compare for each item at later calls,
// what is not an instruction of the driver's.
void limitQuiet(interpret::Limits& limits, const CodeEntries& code, bool has_tensor) {
  constexpr uint64_t kFirst = 200'000, kLeast = 2'000, kWithNodes = 1'000'000;
  const uint64_t first = has_tensor ? std::max<uint64_t>(kFirst, limits.instructions / 2) : kFirst;
  limits.quiet = std::max(kLeast, first >> std::min(code.quiet_sites, 20));
  limits.quiet_with_nodes = std::max(kWithNodes, limits.quiet);
}

// For backends and users who ask a graph module why it ends where it does (compile_subgraph_reason).
void giveReason(PyObject* module, const Ref<>& reason, int logs) {
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

void chooseFloats(Floats floats, interpret::TraceOptions& options) {
  options.floats_are_tensors |= floats == Floats::kTensors;
  options.symbolic_floats &= floats != Floats::kConstants;
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
  options.fake_mode = tensor::callersFakeMode();
  options.symbolic_floats = !config.specialize_float && !asksBackend(cache, "takes_no_floats");
  const bool traced_again = asksBackend(cache, "is_aot_autograd");
  options.floats_are_tensors = traced_again;
  options.leaves_recurrences = traced_again && !config.allow_rnn && !cache.fullgraph;
  // Where a break is an error there is no other way to go on; TorchDynamo takes it so too.
  options.capture_scalar_outputs =
      (config.capture_scalar_outputs || cache.fullgraph) && options.fake_mode == nullptr;
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
  options.only_compliant_operators = config.only_compliant_operators;
  // Who asks for one graph asks for no break.
  options.break_every = cache.fullgraph ? 0 : config.break_every;
  options.random = config.break_random;
  // The same place breaks at the same instructions in every process.
  options.random_seed = config.break_seed +
                        static_cast<uint64_t>(stator_frame_code(frame)->co_firstlineno) * 1000003u +
                        static_cast<uint64_t>(stator_frame_offset(frame)) * 7919u;
  return options;
}

namespace {

// Whether the error that is set is one of a trace's own: built into Python, and raised in a file of ours or torch's, or
// for want of memory. Others are for the user: demands that are not met, interrupts, what a handler of a signal raises.
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
  const char* text = name != nullptr && PyUnicode_Check(name) ? utf8OrNull(name) : nullptr;
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
    const char* words = text ? utf8(text.get()) : "";
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

// A capture under way.
struct Attempt {
  Cache& cache;
  StatorFrame* frame;
  const CaptureWish wish;
  const bool together;  // with the other ranks
  CaptureTurn& turn;
  CollectorPause& pause;
  const int offset;  // where it starts
  const std::chrono::steady_clock::time_point start;
  std::optional<known::DynamicHistory> history = std::nullopt;  // instead of the place's
  interpret::TraceOptions options = {};
  interpret::Captured captured = {};
  bool as_captured = false;         // the graph runs as it is, whatever the backend
  bool differentiated = false;      // the backend makes one function of autograd's of it
  std::vector<size_t> bounds = {};  // where it is cut for that
  double backend_seconds = 0;
  bool texts = false;  // somebody wants to read them
  std::string graph_text = "", regions_text = "";
  Ref<> lines = {};

  PyCodeObject* code() const { return stator_frame_code(frame); }
  Site& site() const { return cache.site(stator_frame_code(frame), offset); }
  bool breaks() const { return captured.plan.exit == breaks::ExitKind::kBreak; }
};

interpret::TraceOptions optionsOf(Attempt& now, Site& site) {
  interpret::TraceOptions options = traceOptions(now.cache, now.frame);
  if (site.captures == 0) recall(now.cache, stator_frame_code(now.frame), now.offset);
  if (now.wish.repeats != nullptr) {
    const known::DynamicHistory* made = now.wish.repeats->history.get();
    options.history = &now.history.emplace(made != nullptr ? *made : site.history);
    options.repeats = made != nullptr;
  } else
    options.history = &site.history;
  options.logs = now.wish.logs / kLogTrace % (kLogPlans / kLogTrace);
  options.breaks_at_unsteady = now.wish.steady;
  chooseFloats(site.floats, options);
  if (!now.cache.fullgraph)
    limitQuiet(options.limits, now.cache.entriesOf(stator_frame_code(now.frame)),
               holdsTensor(now.frame));
  return options;
}

// False: the ranks do not agree on a capture here.
bool runTrace(Attempt& now) {
  if (!now.together) {
    now.captured = traceFrame(now.frame, now.options);
    return true;
  }
  std::optional<interpret::Captured> agreed = traceTogether(
      now.cache, now.frame, now.options,
      [&](interpret::TraceOptions options) { return traceFrame(now.frame, options); });
  if (agreed) now.captured = std::move(*agreed);
  return agreed.has_value();
}

// Whether the call is made under a caller's FakeTensorMode whose sizes may be SymInts. What the program asks of those
// is for the real frame to do, also where a break is an error otherwise.
bool hasCallersSizes(const interpret::TraceOptions& options) {
  if (options.fake_mode == nullptr) return false;
  Ref<> shape_env = stealRef(PyObject_GetAttrString(options.fake_mode, "shape_env"));
  if (!shape_env) PyErr_Clear();
  return shape_env && shape_env.get() != Py_None;
}

// Where a break is an error.
void refuseBreak(const Attempt& now) {
  const interpret::Captured& captured = now.captured;
  const bool is_error =
      captured.break_is_error || captured.plan.reason == breaks::Reason::kForbidden;
  if (!now.breaks() || captured.passes_exception_on) return;
  if ((!now.cache.fullgraph || hasCallersSizes(now.options)) && !is_error) return;
  if (keepsCaptures())
    keepCapture(now.frame, *captured.graph, captured.plan, captured.graph->text(now.code()), "");
  raiseUnsupported(captured, now.cache.fullgraph);
  throw PythonError();
}

// Whether there is nothing here that an entry would be good for; the site says then what to do instead.
bool capturedNothing(const Attempt& now, Site& site) {
  const breaks::Plan& plan = now.captured.plan;
  if (!now.breaks() || now.captured.graph->callCount() != 0) return false;
  const bool at_once = plan.frames.size() == 1 && plan.frames[0].offset == now.offset;
  const bool at_limit = plan.reason == breaks::Reason::kTraceLimit && plan.detail.empty();
  if (!at_once && !at_limit) return false;
  if (now.wish.repeats != nullptr) return true;
  if (at_once) {
    site.step_only = plan.reason != breaks::Reason::kForced;
    return true;
  }
  // Its plan would stand for one way through a long program. What runs instead comes to places where something can be
  // captured.
  site.quiet = true;
  site.step_only = holdsTensor(now.frame);
  now.cache.entriesOf(stator_frame_code(now.frame)).quiet_sites++;
  return true;
}

void reportNothing(const Attempt& now, Site& site) {
  const interpret::Captured& captured = now.captured;
  site.why = captured.plan.place;
  statistics().capture_seconds += secondsSince(now.start);
  if (wantsTexts()) {
    reportCapture(
        {now.frame, &captured.plan, 0, "", "", secondsSince(now.start), 0, "", stackOf(captured)});
  }
  if (keepsCaptures()) keepCapture(now.frame, *captured.graph, captured.plan, "", "");
}

// Captures once more, with what is a float here as a constant.
std::unique_ptr<Entry> captureWithoutFloats(const Attempt& now) {
  now.site().floats = Floats::kConstants;
  return capture(now.cache, now.frame, now.wish);
}

// The backend has failed with a graph that takes floats, and its error is set: it gets another one. Floats that it
// names (stator/_backends.py) are constants from here on; otherwise all of them are tensors at this place, or if they
// were, constants.
std::unique_ptr<Entry> captureWithOtherFloats(const Attempt& now,
                                              const std::vector<Ref<>>& examples) {
  Ref<> error = takeError();
  Ref<> cause = stealRef(PyException_GetCause(error.get()));
  Ref<> named = cause ? stealRef(PyObject_GetAttrString(cause.get(), "stator_floats")) : Ref<>();
  PyErr_Clear();
  bool found = false;
  for (size_t at = 0; named && at < examples.size(); ++at) {
    const graph::Node* input = now.captured.graph->inputs()[at];
    if (!graph::isFloatTensor(*input)) continue;
    bool is_named = false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(named.get()); ++i)
      is_named |= PyList_GET_ITEM(named.get(), i) == examples[at].get();
    if (!is_named || input->source->base->kind == sources::SourceKind::kDrawn) continue;
    now.site().history.at(known::sourceKey(*input->source->base)).keeps_value = true;
    found = true;
  }
  if (found) return capture(now.cache, now.frame, now.wish);
  if (now.options.floats_are_tensors) return captureWithoutFloats(now);
  now.site().floats = Floats::kTensors;
  return capture(now.cache, now.frame, now.wish);
}

// The backend asks for the program to run without it (exc.SkipFrame is set).
bool isDeclined() {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return false;
  const ErrorKept kept;
  const Ref<> home = stealRef(importModule("stator.exc"));
  const Ref<> skip = home ? stealRef(PyObject_GetAttrString(home.get(), "SkipFrame")) : Ref<>();
  PyErr_Clear();
  return skip && PyErr_GivenExceptionMatches(kept.type.get(), skip.get()) != 0;
}

// The backend has failed, with an error set: what serves in the graph's place. `examples`: of the inputs.
std::unique_ptr<Entry> withoutBackend(const Attempt& now, const std::vector<Ref<>>& examples) {
  bool has_floats = false;
  for (const graph::Node* input : now.captured.graph->inputs())
    has_floats |= (input->scalar_type && input->size.isStatic()) || graph::isFloatTensor(*input);
  if (!now.together && !has_floats && isDeclined()) {
    PyErr_Clear();
    return capture(now.cache, now.frame, {.logs = now.wish.logs, .runs_as_is = true});
  }
  if (configValues().suppress_errors && !now.cache.fullgraph && !now.together && !has_floats &&
      PyErr_ExceptionMatches(PyExc_Exception)) {
    reportSuppressed(now.frame);
    return capture(now.cache, now.frame, {.logs = now.wish.logs, .runs_as_is = true});
  }
  if (!has_floats || now.together) throw PythonError();
  return captureWithOtherFloats(now, examples);
}

// Has the backend compile the graph. With a value: what the capture gives in the entry's place, or null.
std::optional<std::unique_ptr<Entry>> compileGraph(Attempt& now, Entry& entry) {
  interpret::Captured& captured = now.captured;
  const bool seen = (now.wish.logs & kLogGraphs) != 0;
  statistics().graphs++;
  statistics().ops += static_cast<int64_t>(entry.ops);
  BackendCall call(
      captured.graph, now.code(), now.cache.backend.get(),
      {.grad_enabled = captured.grad_enabled,
       .as_captured = now.as_captured,
       .seen = seen,
       .place = captured.grad_enabled && !now.options.runs_as_captured ? placeNow(now.frame) : "",
       .differentiates = now.differentiated,
       .bounds = now.bounds},
      [&](PyObject* module) {
        if (!now.options.runs_as_captured || seen)
          giveReason(module, compileReason(now.frame, captured), now.wish.logs);
      });
  std::vector<PyObject*> examples;
  std::vector<bool> written;
  std::vector<Ref<>> keep_examples;
  for (graph::Node* input : captured.graph->inputs()) {
    examples.push_back(input->example.get());
    written.push_back(input->written);
    keep_examples.push_back(input->example);
  }
  now.pause.end();
  now.turn.end();
  auto backend_start = std::chrono::steady_clock::now();
  tensor::TorchFunctionPause plain(entry.has_subclasses);
  graph::Compiled compiled =
      call.compile((now.as_captured ? asCaptured() : now.cache.backend).get());
  if (now.texts) now.regions_text = call.regionsText();
  entry.disk_keys = call.diskKeys();
  now.backend_seconds = call.searchSeconds() + secondsSince(backend_start);
  if (now.together && !backendsDone(now.cache, now.frame, !compiled.callable) && compiled.callable)
    return nullptr;
  if (!compiled.callable) return withoutBackend(now, keep_examples);
  if ((now.wish.logs & kLogRegions) != 0) reportRegions(now.frame, call.regionsText());
  entry.compiled = std::move(compiled.callable);
  entry.graph_number = compiled.number;
  if (!addConditions(compiled.conditions, entry, keep_examples, *captured.guards))
    return captureWithoutFloats(now);
  addBackendGuards(compiled.guards, entry, *captured.guards, written);
  entry.memory = tensor::StoragePattern::of(examples, written);
  return std::nullopt;
}

// A backend that differentiates makes one function of autograd's of a graph. Where the program's gradients would need
// several, it gets the graph in pieces, or not at all.
void chooseGraphs(Attempt& now) {
  now.as_captured = now.wish.runs_as_is;
  if (now.as_captured || !asksBackend(now.cache, "differentiates")) return;
  // Fakes have no data that a kernel would make anything of.
  now.as_captured = now.options.fake_mode != nullptr;
  if (now.as_captured) return;
  regions::Parting parting = regions::partingOf(*now.captured.graph, now.captured.grad_enabled);
  now.as_captured =
      now.captured.differentiated_within || (parting.needed && parting.bounds.empty());
  now.differentiated = !now.as_captured;
  if (now.differentiated) now.bounds = std::move(parting.bounds);
}

std::unique_ptr<Entry> entryOf(const Attempt& now) {
  const interpret::Captured& captured = now.captured;
  auto entry = std::make_unique<Entry>();
  entry->ops = captured.graph->callCount();
  entry->counted = static_cast<long long>(captured.counted);
  entry->outputs = captured.graph->outputs().size();
  entry->graph_id = captured.graph.get();
  entry->grad_enabled = captured.grad_enabled;
  entry->has_subclasses = captured.has_subclasses;
  for (graph::Node* input : captured.graph->inputs()) entry->inputs.push_back(input->source);
  return entry;
}

void addGuards(Attempt& now, Entry& entry) {
  interpret::Captured& captured = now.captured;
  filterGuards(now.cache, now.frame, captured);
  faultPoint();
  if (!captured.managed.empty()) {
    entry.same_modules = std::make_unique<guards::GuardProgram>(
        *captured.sources, *interpret::guardsOfSameModules(*captured.guards, captured.managed),
        entry.inputs);
  }
  entry.guards =
      std::make_unique<guards::GuardProgram>(*captured.sources, *captured.guards, entry.inputs);
  entry.guard_count = captured.guards->size();
  if (now.cache.ahead == Ahead::kCapture) {
    guards::GuardSet none;
    none.relations.symbols = captured.guards->relations.symbols;
    entry.unguarded = std::make_unique<guards::GuardProgram>(*captured.sources, none, entry.inputs);
  }
  entry.sources = std::move(captured.sources);
}

void reportEntry(const Attempt& now, const Entry& entry) {
  std::string guards_text;
  if (now.texts) guards_text = entry.guards->text(now.code());
  if (keepsCaptures())
    keepCapture(now.frame, *now.captured.graph, entry.plan, now.graph_text, guards_text);
  statistics().entries++;
  statistics().backend_seconds += now.backend_seconds;
  double capture_seconds = secondsSince(now.start) - now.backend_seconds;
  statistics().capture_seconds += capture_seconds;
  if (wantsTexts()) {
    reportCapture({now.frame, &entry.plan, entry.ops, now.graph_text, guards_text, capture_seconds,
                   now.backend_seconds, now.regions_text, stackOf(now.captured), now.lines});
  }
}

// torch.compile(shapes_spec=...): while the function that checks it is traced, what it names is dynamic and all else
// static. One thread traces at a time.
class AskedSources {
 public:
  explicit AskedSources(Attempt& now) {
    Ref<> asked = stealRef(PyObject_GetAttrString(now.cache.settings.get(), "dynamic_sources"));
    if (!asked) PyErr_Clear();
    PyObject *code = nullptr, *asks = nullptr;
    if (!asked || asked.get() == Py_None || !PyArg_ParseTuple(asked.get(), "OO", &code, &asks) ||
        code != reinterpret_cast<PyObject*>(now.code()))
      return;
    now.options.dynamic = interpret::DynamicMode::kStatic;
    before_ = interpret::setDynamicSources(newRef(asks));
    set_ = true;
  }
  ~AskedSources() {
    if (set_) interpret::setDynamicSources(std::move(before_));
  }
  AskedSources(const AskedSources&) = delete;
  AskedSources& operator=(const AskedSources&) = delete;

 private:
  Ref<> before_;
  bool set_ = false;
};

bool traceAsAsked(Attempt& now) {
  AskedSources asked(now);
  return runTrace(now);
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
  Attempt now{cache, frame, wish, together, turn, pause, stator_frame_offset(frame), start};
  now.options = optionsOf(now, site);
  if (!traceAsAsked(now)) return nullptr;
  interpret::Captured& captured = now.captured;
  statistics().captures++;
  if (!wish.runs_as_is) site.captures++;
  remember(cache, stator_frame_code(frame), now.offset, captured.guards->relations);
  refuseBreak(now);
  if (now.breaks() && !wish.runs_as_is) {
    statistics().breaks++;
    reportBreak(captured);
  }
  if (capturedNothing(now, site)) {
    reportNothing(now, site);
    return nullptr;
  }
  faultPoint();
  std::unique_ptr<Entry> entry = entryOf(now);
  chooseGraphs(now);
  const bool sets_modes =
      describeEffects(*captured.graph, now.as_captured || asksBackend(cache, "is_eager"), *entry);
  if (entry->has_effects) entry->history = std::make_unique<known::DynamicHistory>(site.history);
  entry->writes_unseen = asksBackend(cache, "writes_unseen");
  now.texts = wantsTexts() || keepsCaptures();
  if (now.texts) now.graph_text = captured.graph->text(now.code());
  if (recording()) now.lines = linesOf(*captured.graph);
  if (entry->ops > 0) {
    if (std::optional<std::unique_ptr<Entry>> other = compileGraph(now, *entry))
      return std::move(*other);
  }
  if ((wish.logs & kLogPlans) != 0) reportPlan(frame, captured);
  if ((wish.logs & (kLogSymbols | kLogDynamic)) != 0)
    reportSymbols(frame, captured, captured.guards->relations.symbols);
  entry->plan = std::move(captured.plan);
  entry->needs_no_frame = entry->plan.exit == breaks::ExitKind::kReturn &&
                          entry->plan.handled < 0 && entry->plan.draws.empty() &&
                          !entry->has_effects && !entry->redraws && !sets_modes &&
                          !entry->has_subclasses;
  addGuards(now, *entry);
  reportEntry(now, *entry);
  return entry;
}

void noteFirstRun(Site& site, const Cache& cache, StatorFrame* frame) {
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
