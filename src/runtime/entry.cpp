// The captured side of the driver: finds the entry of a place whose guards hold, or captures one, and runs it. The one boundary at which
// stator's own failures end: the user's program goes on eagerly.
#include "runtime/entry.h"

#include "base/check.h"
#include "base/collector_pause.h"
#include "breaks/draws.h"
#include "bytecode/code_info.h"
#include "graph/fx.h"
#include "graph/graph_runner.h"
#include "interpret/calls/switches.h"
#include "interpret/calls/tables.h"
#include "interpret/drops.h"
#include "interpret/known_types.h"
#include "interpret/torch_names.h"
#include "interpret/tracer.h"
#include "python/recursion.h"
#include "runtime/active.h"
#include "runtime/cache.h"
#include "runtime/capture_turn.h"
#include "runtime/driver.h"
#include "runtime/listing.h"
#include "runtime/ranks.h"
#include "runtime/reports.h"
#include "runtime/settings.h"
#include "runtime/watch.h"
#include "tensor/profiler_region.h"
#include "tensor/tensor_guard.h"
#include "tensor/torch_function.h"

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
void writeFrame(StatorFrame* frame, const breaks::FrameState& state,
                const std::vector<Ref<>>& registers) {
  auto at = [&](breaks::Register index) {
    return index < 0 ? nullptr : registers[static_cast<size_t>(index)].get();
  };
  std::vector<Ref<>> stack;
  for (breaks::Register index : state.stack) stack.push_back(Ref<>::create(at(index)));
  stator_frame_truncate(frame, 0);
  for (size_t i = 0; i < state.slots.size(); ++i) {
    if (state.slots[i] != breaks::kKeep)
      stator_frame_set_slot(frame, static_cast<int>(i), at(state.slots[i]));
  }
  for (Ref<>& value : stack) stator_frame_push_steal(frame, value.release());
  stator_frame_set_offset(frame, state.offset);
}

PendingFrame pendingFrame(const breaks::FrameState& state, const std::vector<Ref<>>& registers) {
  auto at = [&](breaks::Register index) {
    return index < 0 ? Ref<>() : registers[static_cast<size_t>(index)];
  };
  PendingFrame pending;
  pending.function =
      Ref<PyFunctionObject>::create(reinterpret_cast<PyFunctionObject*>(at(state.function).get()));
  for (breaks::Register index : state.slots) pending.slots.push_back(at(index));
  for (breaks::Register index : state.stack) pending.stack.push_back(at(index));
  pending.offset = state.offset;
  pending.continuation = static_cast<Continuation>(state.continuation);
  pending.instance = at(state.instance);
  return pending;
}

// Inductor folds parameters into its code, for inference: they have to be the graph's own then.
bool freezes() {
  static PyObject* const name = PyUnicode_InternFromString("torch._inductor.config");
  Ref<> loaded = stealRef(PyImport_GetModule(name));
  if (!loaded || shapes::State::now().grad_enabled) return false;
  Ref<> set = stealRef(PyObject_GetAttrString(loaded.get(), "freezing"));
  if (!set) PyErr_Clear();
  return set.get() == Py_True;
}

interpret::TraceOptions traceOptions(const Cache& cache, StatorFrame* frame) {
  const ConfigValues& config = configValues();
  interpret::TraceOptions options;
  options.limits = {static_cast<uint64_t>(config.trace_limit_instructions),
                    static_cast<uint64_t>(config.trace_limit_nodes), config.trace_limit_seconds};
  options.limits.quiet = options.limits.quiet_with_nodes = options.limits.instructions;
  options.fullgraph = cache.fullgraph;
  Ref<> is_eager = stealRef(PyObject_GetAttrString(cache.backend.get(), "is_eager"));
  if (!is_eager) PyErr_Clear();
  options.runs_as_captured = is_eager.get() == Py_True;
  Ref<> floats = stealRef(PyObject_GetAttrString(cache.backend.get(), "takes_floats"));
  if (!floats) PyErr_Clear();
  options.symbolic_floats = !config.specialize_float && floats.get() != Py_False;
  options.capture_scalar_outputs = config.capture_scalar_outputs;
  bool all = cache.dynamic == 1 || (cache.dynamic < 0 && !config.assume_static_by_default);
  bool automatic = cache.dynamic < 0 && config.automatic_dynamic_shapes;
  options.dynamic = all         ? interpret::DynamicMode::kAll
                    : automatic ? interpret::DynamicMode::kAutomatic
                                : interpret::DynamicMode::kStatic;
  options.specialize_modules = config.specialize_modules;
  options.own_parameters = config.specialize_modules || freezes();
  options.skip_fsdp_guards = config.skip_fsdp_guards;
  options.break_every = config.break_every;
  options.random = config.break_random;
  // The same place breaks at the same instructions in every process.
  options.random_seed = config.break_seed +
                        static_cast<uint64_t>(stator_frame_code(frame)->co_firstlineno) * 1000003u +
                        static_cast<uint64_t>(stator_frame_offset(frame)) * 7919u;
  return options;
}

// How long a capture may go on without a tensor. Each place of a long loop without one costs a capture that is thrown away: the more of them
// a function has, the sooner they are.
void limitQuiet(interpret::Limits& limits, const CodeEntries& code) {
  constexpr uint64_t kFirst = 200'000, kLeast = 2'000, kWithNodes = 1'000'000;
  limits.quiet = std::max(kLeast, kFirst >> std::min(code.quiet_sites, 20));
  limits.quiet_with_nodes = kWithNodes;
}

bool holdsTensor(StatorFrame* frame) {
  PyObject** slots = stator_frame_slots(frame);
  const int count = stator_frame_slot_count(frame) + stator_frame_depth(frame);
  for (int i = 0; i < count; ++i) {
    if (slots[i] != nullptr && tensor::isTensor(slots[i])) return true;
  }
  return false;
}

// Traces until no capture has to start over.
interpret::Captured trace(StatorFrame* frame, interpret::TraceOptions& options) {
  for (int attempt = 0;; ++attempt) {
    interpret::Tracer tracer(frame, options);
    interpret::Captured captured = tracer.run();
    if (captured.restart_at == 0 && !captured.start_anew) return captured;
    STATOR_CHECK(attempt < 20, "a capture keeps starting over");
    statistics().restarts++;
    if (captured.start_anew) continue;
    options.break_at = captured.restart_at;
    options.break_at_reason = captured.restart_reason;
    options.break_at_detail = captured.restart_detail;
  }
}

Exit finishEntry(const breaks::Plan& plan, StatorFrame* frame, const Roots& roots, Ref<> outputs);

// A value of the trace with the values of a run in the places of stand-ins; null with an error set, or if one is not known.
Ref<> withValues(PyObject* value, const std::unordered_map<const graph::Node*, Ref<>>& known) {
  if (graph::isStandIn(value)) {
    auto found = known.find(graph::asStandIn(value)->node);
    return found == known.end() ? Ref<>() : found->second;
  }
  if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) {
    Ref<> items = stealRef(PyList_New(0));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
      Ref<> item = withValues(PySequence_Fast_GET_ITEM(value, i), known);
      if (!item) return item;
      PyList_Append(items.get(), item.get());
    }
    return PyList_CheckExact(value) ? items : stealRef(PyList_AsTuple(items.get()));
  }
  if (PyDict_CheckExact(value)) {
    Ref<> dict = stealRef(PyDict_New());
    PyObject *key = nullptr, *item = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(value, &position, &key, &item)) {
      Ref<> made = withValues(item, known);
      if (!made) return made;
      PyDict_SetItem(dict.get(), key, made.get());
    }
    return dict;
  }
  if (PySlice_Check(value)) {
    auto* slice = reinterpret_cast<PySliceObject*>(value);
    Ref<> start = withValues(slice->start, known), stop = withValues(slice->stop, known),
          step = withValues(slice->step, known);
    return start && stop && step ? stealRef(PySlice_New(start.get(), stop.get(), step.get()))
                                 : Ref<>();
  }
  bool holds = false;
  graph::forEachStandIn(value, [&](graph::StandIn*) { holds = true; });
  return holds ? Ref<>() : newRef(value);
}

Ref<> compute(const graph::Node& node, const std::unordered_map<const graph::Node*, Ref<>>& known) {
  Ref<> args = withValues(node.args.get(), known);
  Ref<> kwargs = node.kwargs ? withValues(node.kwargs.get(), known) : Ref<>();
  if (!args || (node.kwargs && !kwargs)) return Ref<>();
  if (node.op != graph::Op::kCallMethod)
    return stealRef(PyObject_Call(node.target.get(), args.get(), kwargs.get()));
  Ref<> method = stealRef(PyObject_GetAttr(PyTuple_GET_ITEM(args.get(), 0), node.target.get()));
  Ref<> rest = stealRef(PyTuple_GetSlice(args.get(), 1, PyTuple_GET_SIZE(args.get())));
  return method ? stealRef(PyObject_Call(method.get(), rest.get(), kwargs.get())) : Ref<>();
}

// The outputs of a graph that is the beginning of the one that failed. Null: not all can be had.
Ref<> outputsSoFar(const graph::Graph& graph, const graph::FailedRun& failed, const Roots& roots) {
  std::unordered_map<const graph::Node*, Ref<>> known;
  for (const graph::Node& node : graph.nodes()) {
    if (node.op == graph::Op::kInput) {
      known[&node] = sources::read(*node.source, roots);
      continue;
    }
    if (node.op == graph::Op::kAttribute) {
      known[&node] = node.example;
      continue;
    }
    auto ran = failed.targets.find(node.serial);
    if (ran != failed.targets.end() && ran->second.get() != node.target.get() &&
        PyObject_RichCompareBool(ran->second.get(), node.target.get(), Py_EQ) != 1) {
      return Ref<>();  // another program than the one that failed
    }
    if (auto value = failed.values.find(node.serial); value != failed.values.end()) {
      known[&node] = value->second;
    } else if (!node.mutates && node.serial > failed.effect_serial) {
      // Nobody needed it any more, but the program can still get at it: nothing has changed since it was computed.
      if (Ref<> value = compute(node, known)) known[&node] = std::move(value);
      if (PyErr_Occurred()) return Ref<>();
    }
  }
  Ref<> outputs = stealRef(PyTuple_New(static_cast<Py_ssize_t>(graph.outputs().size())));
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    auto found = known.find(graph.outputs()[i]);
    if (found == known.end() || !found->second) return Ref<>();
    PyTuple_SET_ITEM(outputs.get(), static_cast<Py_ssize_t>(i), Py_NewRef(found->second.get()));
  }
  return outputs;
}

bool setGradMode(bool enabled) {
  Ref<> done = stealRef(PyObject_CallOneArg(interpret::torchObject("torch._C._set_grad_enabled"),
                                            enabled ? Py_True : Py_False));
  if (!done) PyErr_Clear();
  return static_cast<bool>(done);
}

// A graph that writes in place or draws random numbers has failed half way, and cannot be run again. The program goes on in the real frame
// before the instruction whose operation failed, with the values that the graph has computed; that instruction then raises by itself.
// False: this could not be done, and nothing has happened.
bool resume(const Cache& cache, const Entry& entry, const graph::FailedRun& failed,
            bool grad_at_failure, StatorFrame* frame, Roots roots, breaks::Draws& draws,
            Exit& exit) {
  CaptureTurn turn;
  if (!turn.held()) return false;
  HookDisabledScope disabled;
  interpret::TraceOptions options = traceOptions(cache, frame);
  options.break_at = failed.instruction;
  options.break_at_reason = breaks::Reason::kRaises;
  interpret::Captured captured = trace(frame, options);
  if (captured.plan.exit != breaks::ExitKind::kBreak || captured.instructions > failed.instruction)
    return false;
  // What has an effect and ran must lie before the place where the program goes on.
  if (failed.effect_instruction >= options.break_at) return false;
  if (!draws.run(captured.plan, roots)) throw PythonError();
  roots.drawn = draws.values();
  setGradMode(grad_at_failure);
  Ref<> outputs = outputsSoFar(*captured.graph, failed, roots);
  setGradMode(entry.grad_enabled);
  if (!outputs) {
    PyErr_Clear();
    draws.undo();
    return false;
  }
  exit = finishEntry(captured.plan, frame, roots, std::move(outputs));
  return true;
}

// As a profiler shows it: the function and where it begins.
std::string regionName(const PyCodeObject& code) {
  const char* name = PyUnicode_AsUTF8(code.co_qualname);
  const char* file = PyUnicode_AsUTF8(code.co_filename);
  return std::string(name != nullptr ? name : "?") + " (" + (file != nullptr ? file : "?") + ":" +
         std::to_string(code.co_firstlineno) + ")";
}

// `inputs`: the graph's, held.
Exit runEntry(const Cache& cache, Entry& entry, StatorFrame* frame, Roots roots,
              std::vector<PyObject*>& inputs) {
  if (watching()) ranUntil(entry.plan.place);
  tensor::ProfilerRegion region;
  if (tensor::isProfiled()) [[unlikely]]
    region.begin("Torch-Compiled Region: " + regionName(*roots.code));
  Ref<> outputs;
  breaks::Draws draws;
  if (!entry.plan.draws.empty()) {
    HookDisabledScope disabled;
    if (!draws.run(entry.plan, roots)) throw PythonError();
    roots.drawn = draws.values();
  }
  if (entry.compiled) {
    std::vector<Ref<>> plain;
    if (entry.has_subclasses || roots.drawn != nullptr) {
      for (size_t i = 0; roots.drawn != nullptr && i < inputs.size(); ++i) {
        const sources::Source* source = entry.inputs[i];
        if (source->kind != sources::SourceKind::kDrawn &&
            (source->base == nullptr || source->base->kind != sources::SourceKind::kDrawn))
          continue;
        plain.push_back(sources::read(*source, roots));
        if (!plain.back()) throw PythonError();
        inputs[i] = plain.back().get();
      }
      for (PyObject*& input : inputs) {
        if (!tensor::isTensor(input) || interpret::isPlainTensorType(Py_TYPE(input)) ||
            interpret::hasOwnDispatch(Py_TYPE(input)))
          continue;
        plain.push_back(tensor::asPlainInput(input));
        if (!plain.back()) throw PythonError();
        input = plain.back().get();
      }
    }
    statistics().graph_calls++;
    statistics().ops_run += static_cast<int64_t>(entry.ops);
    std::unique_ptr<graph::FailedRun> failed;
    {
      HookDisabledScope disabled;
      graph::FailureScope failures;
      tensor::TorchFunctionPause pause(entry.has_subclasses);
      outputs = stealRef(
          PyObject_Vectorcall(entry.compiled.get(), inputs.data(), inputs.size(), nullptr));
      if (!outputs) failed = failures.take();
    }
    if (!outputs) {
      draws.undo();
      roots.drawn = nullptr;
      if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) return outcome(Outcome::kRaise);
      // Nothing has been committed: the real interpreter runs this part again and raises where, and as, eager raises.
      // A graph with effects of its own cannot be run again: where it stopped, the real interpreter goes on. Where even that fails, its
      // error is the user's, with the user's lines in the traceback.
      if (!PyErr_ExceptionMatches(PyExc_Exception)) return outcome(Outcome::kRaise);
      if (entry.has_effects) {
        PyObject *type = nullptr, *error = nullptr, *traceback = nullptr;
        PyErr_Fetch(&type, &error, &traceback);
        bool grad_at_failure = shapes::State::now().grad_enabled;
        setGradMode(entry.grad_enabled);
        Exit exit;
        if (failed && failed->executor == entry.graph_id &&
            resume(cache, entry, *failed, grad_at_failure, frame, roots, draws, exit)) {
          Py_XDECREF(type);
          Py_XDECREF(error);
          Py_XDECREF(traceback);
          return exit;
        }
        PyErr_Restore(type, error, traceback);
        return outcome(Outcome::kRaise);
      }
      PyErr_Clear();
      return outcome(Outcome::kNative);
    }
  }
  driverCounters().watched_captured += entry.watched;
  return finishEntry(entry.plan, frame, roots, std::move(outputs));
}

// What follows a graph: objects, effects, and the state in which the frame goes on.
Exit finishEntry(const breaks::Plan& plan, StatorFrame* frame, const Roots& roots, Ref<> outputs) {
  References memory;
  std::vector<Ref<>>& registers = *memory;
  if (!breaks::runSteps(plan, roots, outputs.get(), registers)) return outcome(Outcome::kRaise);
  outputs.reset();
  Exit exit;
  auto at = [&](breaks::Register index) { return registers[static_cast<size_t>(index)]; };
  if (plan.handled >= 0) stator_set_handled_exception(at(plan.handled).get());
  if (plan.exit == breaks::ExitKind::kReturn) {
    exit.outcome = Outcome::kReturn;
    exit.value = at(plan.returned);
    for (int slot : plan.dropped_slots) stator_frame_set_slot(frame, slot, nullptr);
    return exit;
  }
  if (plan.frames.size() == 1) {
    writeFrame(frame, plan.frames[0], registers);
    exit.outcome = Outcome::kStep;
    return exit;
  }
  exit.outcome = Outcome::kInlined;
  exit.pending = std::make_unique<std::vector<PendingFrame>>();
  for (size_t i = 1; i < plan.frames.size(); ++i)
    exit.pending->push_back(pendingFrame(plan.frames[i], registers));
  writeFrame(frame, plan.frames[0], registers);
  return exit;
}

// What the entry overwrites in the frame was looked at when it was captured, but is not guarded: it may be anything that dies quietly.
bool dropsRunCode(const Entry& entry, const Roots& roots) {
  for (int slot : entry.plan.dropped_slots) {
    if (interpret::lastReferenceRunsCode(roots.slots[slot])) return true;
  }
  return false;
}

// Why an entry does not serve.
std::string explain(Entry& entry, const Roots& roots) {
  std::string why = entry.guards->explain(roots);
  GraphInputs inputs;
  if (why.empty() && entry.memory != nullptr && inputs.guardsHold(*entry.guards, roots))
    why = entry.memory->explain(inputs.values);
  return why;
}

// The same for all entries of a place, most recent first, one to a line.
std::string explainAll(Site& site, const Roots& roots) {
  std::string text;
  for (const std::shared_ptr<Entry>& entry : site.entries)
    text += (text.empty() ? "" : "\n") + explain(*entry, roots);
  return text;
}

// Captures from the frame's offset on. Null: nothing was captured here (the site says why).
std::unique_ptr<Entry> capture(Cache& cache, StatorFrame* frame) {
  const bool together = ranksAgree();
  CaptureTurn turn(!together);
  if (!turn.held()) return nullptr;
  Site& site = cache.site(stator_frame_code(frame), stator_frame_offset(frame));
  auto start = std::chrono::steady_clock::now();
  HookDisabledScope disabled;
  CollectorPause pause;
  if (!interpret::initCallTables() || !shapes::initShapes()) throw PythonError();
  interpret::TraceOptions options = traceOptions(cache, frame);
  options.history = &site.history;
  if (site.constant_floats) options.symbolic_floats = false;
  if (!cache.fullgraph) limitQuiet(options.limits, cache.entriesOf(stator_frame_code(frame)));
  int entry_offset = stator_frame_offset(frame);
  interpret::Captured captured;
  if (together) {
    std::optional<interpret::Captured> agreed = traceTogether(
        cache, frame, options, [&](interpret::TraceOptions now) { return trace(frame, now); });
    if (!agreed) return nullptr;
    captured = std::move(*agreed);
  } else {
    captured = trace(frame, options);
  }
  statistics().captures++;
  site.captures++;
  bool breaks_here = captured.plan.exit == breaks::ExitKind::kBreak;
  bool is_error = captured.break_is_error || captured.plan.reason == breaks::Reason::kForbidden;
  if (breaks_here && (cache.fullgraph || is_error)) {
    raiseUnsupported(frame, captured.plan, cache.fullgraph);
    throw PythonError();
  }
  bool nothing = breaks_here && captured.plan.frames.size() == 1 &&
                 captured.plan.frames[0].offset == entry_offset && captured.graph->callCount() == 0;
  if (breaks_here) {
    statistics().breaks++;
    reportBreak(frame, captured.plan);
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
    if (wantsTexts()) reportCapture({frame, &captured.plan, 0, "", "", secondsSince(start), 0});
    return nullptr;
  }
  auto entry = std::make_unique<Entry>();
  entry->ops = captured.graph->callCount();
  entry->watched = static_cast<long long>(captured.watched);
  entry->graph_id = captured.graph.get();
  entry->grad_enabled = captured.grad_enabled;
  entry->has_subclasses = captured.has_subclasses;
  BorrowedRef<PyCodeObject> code = stator_frame_code(frame);
  for (graph::Node* input : captured.graph->inputs()) entry->inputs.push_back(input->source);
  for (const graph::Node& node : captured.graph->nodes())
    entry->has_effects |= node.written || (node.mutates && !node.repeatable);
  double backend_seconds = 0;
  const bool texts = wantsTexts() || lastCapture().kept;
  if (texts) lastCapture().graph = captured.graph->text(code);
  if (entry->ops > 0) {
    statistics().graphs++;
    statistics().ops += static_cast<int64_t>(entry->ops);
    Ref<> module = graph::toGraphModule(captured.graph, code);
    if (!module) throw PythonError();
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
    graph::Compiled compiled = graph::compile(captured.graph, module, cache.backend);
    backend_seconds = secondsSince(backend_start);
    if (together && !backendsDone(cache, frame, !compiled.callable)) {
      if (compiled.callable) return nullptr;
    }
    if (!compiled.callable) {
      bool has_floats = false;
      for (const graph::Node* input : captured.graph->inputs())
        has_floats |= input->scalar_type && input->size.isStatic();
      if (!has_floats || together) throw PythonError();
      // Not every backend takes floats as inputs: at this place they are constants from here on.
      PyErr_Clear();
      Site& again = cache.site(code, entry_offset);
      again.constant_floats = true;
      return capture(cache, frame);
    }
    entry->compiled = std::move(compiled.callable);
    for (const std::string& text : compiled.conditions) {
      if (text.rfind("input ", 0) == 0) {
        // A float on which the backend decided something that has no words here: it keeps its value.
        const auto position = static_cast<size_t>(std::stoul(text.substr(6)));
        if (entry->inputs[position]->kind == sources::SourceKind::kDrawn) {
          // It has none before it is drawn.
          Site& again = cache.site(code, entry_offset);
          again.constant_floats = true;
          return capture(cache, frame);
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
  entry->plan = std::move(captured.plan);
  entry->needs_no_frame = entry->plan.exit == breaks::ExitKind::kReturn &&
                          entry->plan.handled < 0 && entry->plan.draws.empty() &&
                          !entry->has_effects && !entry->has_subclasses;
  if (!captured.managed.empty()) {
    entry->same_modules = std::make_unique<guards::GuardProgram>(
        *captured.sources, *interpret::guardsOfSameModules(*captured.guards, captured.managed),
        entry->inputs);
  }
  entry->guards =
      std::make_unique<guards::GuardProgram>(*captured.sources, *captured.guards, entry->inputs);
  entry->sources = std::move(captured.sources);
  if (texts) {
    lastCapture().guards = entry->guards->text(code);
    lastCapture().exit = entry->plan.text();
  }
  statistics().entries++;
  statistics().backend_seconds += backend_seconds;
  double capture_seconds = secondsSince(start) - backend_seconds;
  statistics().capture_seconds += capture_seconds;
  if (wantsTexts()) {
    reportCapture({frame, &entry->plan, entry->ops, lastCapture().graph, lastCapture().guards,
                   capture_seconds, backend_seconds});
  }
  return entry;
}

// The stance eager_then_compile: a place runs eagerly the first time. What it reads is taken down all the same, so that what is other the
// second time is dynamic at once.
void takeDown(Site& site, const Cache& cache, StatorFrame* frame) {
  site.captures++;
  CaptureTurn turn(true);
  if (!turn.held()) return;
  HookDisabledScope disabled;
  if (!interpret::initCallTables() || !shapes::initShapes()) throw PythonError();
  interpret::TraceOptions options = traceOptions(cache, frame);
  options.history = &site.history;
  limitQuiet(options.limits, CodeEntries());
  trace(frame, options);
}

Exit lookUp(Cache& cache, StatorFrame* frame, bytecode::CodeInfo& code_info) {
  bytecode::CodeInfo* info = &code_info;
  PyCodeObject* code = stator_frame_code(frame);
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
  if (offset == info->firstLegal() &&
      interpret::isDisabled(reinterpret_cast<PyObject*>(stator_frame_function(frame)))) {
    return outcome(Outcome::kNative);
  }
  // Class bodies, exec. A function has such a dict too once somebody asked for its locals(), but does not run on it.
  if (stator_frame_namespace(frame) != nullptr && (code->co_flags & CO_OPTIMIZED) == 0)
    return outcome(Outcome::kNative);
  if (config.break_every == 1 && !config.break_random) return outcome(Outcome::kStep);
  if (callEndsEagerly()) return outcome(Outcome::kNative);
  if (gaveUpAgreeing(cache)) {
    endCallEagerly(cache);
    return outcome(Outcome::kNative);
  }
  Site& site = cache.site(code, offset);
  if (site.step_only || (site.quiet && !holdsTensor(frame)) || tensor::callsAreWatched()) {
    if (watching()) ranUntil(site.why);
    return outcome(Outcome::kStep);
  }
  // Close to the end of the recursion the program goes on by itself: what a plan calls would find it first, in other words than eager's.
  constexpr int kDepthOfPlan = 6;
  if (stator_recursion_left() < kDepthOfPlan) return outcome(Outcome::kStep);
  Roots roots = Roots::of(frame);
  Spare<GraphInputs> memory;
  GraphInputs& inputs = *memory;
  bool looked_alone = !config.guard_collectives;
  for (size_t i = 0; i < site.entries.size(); ++i) {
    if (!inputs.found(*site.entries[i], roots) || dropsRunCode(*site.entries[i], roots)) continue;
    inputs.hold();
    if (!looked_alone) {
      looked_alone = true;
      if (!hitOnAll(cache, frame, true)) break;
    }
    if (i > 0)
      std::rotate(site.entries.begin(), site.entries.begin() + static_cast<std::ptrdiff_t>(i),
                  site.entries.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    statistics().hits++;
    std::shared_ptr<Entry> entry = site.entries[0];  // the cache may let it go while it runs
    if (measuresGuards()) [[unlikely]]
      measureGuards(*entry, frame, roots);
    return runEntry(cache, *entry, frame, roots, inputs.values);
  }
  if (!looked_alone) hitOnAll(cache, frame, false);
  if (callEndsEagerly()) return outcome(Outcome::kNative);
  statistics().misses++;
  // Entries about modules that are gone: nothing can match them any more.
  std::erase_if(site.entries, [](const auto& entry) { return entry->guards->dead(); });
  cache.generation++;
  if (config.stance == Stance::kEagerOnRecompile) return outcome(Outcome::kNative);
  if (config.stance == Stance::kEagerThenCompile && site.captures == 0) {
    takeDown(site, cache, frame);
    return outcome(Outcome::kNative);
  }
  followTorchConfig();
  if (config.stance == Stance::kFailOnRecompile ||
      (config.error_on_recompile && !site.entries.empty())) {
    reportRecompile(frame, explainAll(site, roots), config.stance == Stance::kFailOnRecompile);
    throw PythonError();
  }
  int64_t limit = cache.recompile_limit > 0 ? cache.recompile_limit : config.recompile_limit;
  // Forced breaks leave many places with few instructions each: the search goes on for longer.
  if (config.break_every != 0) limit = std::max<int64_t>(limit, 64);
  // A function whose places together were captured too often is as bad as one place that was.
  const bool too_many =
      cache.capturesOf(code) >= config.accumulated_recompile_limit && !site.entries.empty();
  if (static_cast<int64_t>(site.entries.size()) >= limit || too_many) {
    if (too_many) limit = config.accumulated_recompile_limit;
    statistics().fallbacks++;
    bool worthless = std::all_of(site.entries.begin(), site.entries.end(),
                                 [](const auto& entry) { return entry->ops == 0; });
    if (!site.over_limit && !worthless) {
      site.over_limit = true;
      reportLimit(frame, explainAll(site, roots), limit,
                  cache.fullgraph || config.fail_on_recompile_limit_hit);
      if (PyErr_Occurred()) throw PythonError();
    }
    return outcome(info->watched ? Outcome::kStep : Outcome::kNative);
  }
  // A capture calls Python itself: the program is to find the end of the recursion, in its own words.
  constexpr int kDepthOfCapture = 120;
  if (stator_recursion_left() < kDepthOfCapture) return outcome(Outcome::kStep);
  const bool again = !site.entries.empty();
  // Explanations are for those who asked, and for the last place that is left.
  const bool last_place = again && static_cast<int64_t>(site.entries.size()) + 1 == limit;
  const int logs = wantedLogs();
  std::string failed_guards;
  if (again && (last_place || (logs & kLogRecompiles) != 0))
    failed_guards = explainAll(site, roots);
  const auto capture_start = std::chrono::steady_clock::now();
  std::unique_ptr<Entry> entry = capture(cache, frame);
  // Capture and backends import modules on first use, which may change what was read before: the second time nothing is new.
  if (entry && !inputs.guardsHold(*entry->guards, roots)) entry = capture(cache, frame);
  if (!entry) {
    if (callEndsEagerly()) return outcome(Outcome::kNative);
    if (watching()) ranUntil(cache.site(code, offset).why);
    return outcome(Outcome::kStep);
  }
  if (!inputs.guardsHold(*entry->guards, roots) || !inputs.memoryHolds(*entry))
    throw InternalError("a guard fails right after the capture: " + explain(*entry, roots));
  inputs.hold();
  // The cache may have been reset, or the site moved, while the backend ran.
  Site& home = cache.site(code, offset);
  home.entries.insert(home.entries.begin(), std::move(entry));
  cache.generation++;
  std::shared_ptr<Entry> running = home.entries.front();
  if (!failed_guards.empty()) {
    reportRecompiled(frame, failed_guards, running->guards->symbolText(code),
                     secondsSince(capture_start), home.entries.size(), limit);
  }
  if ((logs & (kLogGuards | kLogDynamic)) != 0)
    reportGuards(frame, running->guards->text(code), running->guards->symbolText(code));
  return runEntry(cache, *running, frame, roots, inputs.values);
}

}  // namespace

Exit runCaptured(Cache& cache, StatorFrame* frame, bytecode::CodeInfo& info) {
  try {
    return lookUp(cache, frame, info);
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
