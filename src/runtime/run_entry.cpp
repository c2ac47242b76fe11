// How an entry serves a call whose frame is there: its graph runs, then its plan.
#include "base/check.h"
#include "base/error_aside.h"
#include "base/rebuilt.h"
#include "base/stack_room.h"
#include "base/text.h"
#include "breaks/draws.h"
#include "graph/graph_runner.h"
#include "interpret/core/captured.h"
#include "interpret/core/trace_options.h"
#include "known/known_types.h"
#include "known/torch_names.h"
#include "runtime/active.h"
#include "runtime/capture_turn.h"
#include "runtime/entry.h"
#include "runtime/failed_graph.h"
#include "runtime/reports.h"
#include "runtime/settings.h"
#include "runtime/watch.h"
#include "shapes/infer.h"
#include "tensor/meta_of.h"
#include "tensor/profiler_region.h"
#include "tensor/saved_tensor.h"
#include "tensor/tensor_guard.h"
#include "tensor/torch_function.h"

#include <algorithm>

namespace stator::runtime {
namespace {

using sources::Roots;

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
  pending.continuation = state.continuation;
  pending.instance = at(state.instance);
  return pending;
}

}  // namespace

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

namespace {

using Known = std::unordered_map<const graph::Node*, Ref<>>;

// A value of the trace with the values of a run in the places of stand-ins; null with an error set, or if one is not
// known.
Ref<> withValues(PyObject* value, const Known& known) {
  needStack();
  if (graph::isStandIn(value)) {
    auto found = known.find(graph::asStandIn(value)->node);
    return found == known.end() ? Ref<>() : found->second;
  }
  if (isPlainContainer(value))
    return rebuilt(value, [&](PyObject* item) { return withValues(item, known); });
  bool holds = false;
  graph::forEachStandIn(value, [&](graph::StandIn*) { holds = true; });
  return holds ? Ref<>() : newRef(value);
}

Ref<> compute(const graph::Node& node, const Known& known) {
  Ref<> args = withValues(node.args.get(), known);
  Ref<> kwargs = node.kwargs ? withValues(node.kwargs.get(), known) : Ref<>();
  if (!args || (node.kwargs && !kwargs)) return Ref<>();
  if (node.op != graph::Op::kCallMethod)
    return stealRef(PyObject_Call(node.target.get(), args.get(), kwargs.get()));
  Ref<> method = stealRef(PyObject_GetAttr(PyTuple_GET_ITEM(args.get(), 0), node.target.get()));
  Ref<> rest = stealRef(PyTuple_GetSlice(args.get(), 1, PyTuple_GET_SIZE(args.get())));
  return method ? stealRef(PyObject_Call(method.get(), rest.get(), kwargs.get())) : Ref<>();
}

bool setGradMode(bool enabled) {
  Ref<> done = stealRef(PyObject_CallOneArg(known::torchObject("torch._C._set_grad_enabled"),
                                            enabled ? Py_True : Py_False));
  if (!done) PyErr_Clear();
  return static_cast<bool>(done);
}

// The storages of the tensors among a node's arguments. False: one is not known.
bool storagesOf(const graph::Node& node, const Known& known, std::vector<uintptr_t>& storages) {
  bool all = true;
  auto add = [&](graph::StandIn* used) {
    auto found = known.find(used->node);
    if (found == known.end() || !found->second) {
      all = false;
    } else if (tensor::isTensor(found->second.get())) {
      if (uintptr_t storage = tensor::storageOf(found->second.get())) storages.push_back(storage);
    }
  };
  graph::forEachUsed(node, add);
  return all;
}

// Whether a node computes now what it computed when the graph ran: nothing that it reads was written to since.
bool computesTheSame(const graph::Node& node, const graph::Graph& graph, const Known& known) {
  if (node.mutates) return false;
  std::vector<uintptr_t> read, written;
  if (!storagesOf(node, known, read)) return false;
  for (const graph::Node& later : graph.nodes()) {
    if (!later.mutates || later.sets_mode || later.serial < node.serial) continue;
    if (!storagesOf(later, known, written)) return false;
  }
  return std::none_of(written.begin(), written.end(), [&](uintptr_t storage) {
    return std::find(read.begin(), read.end(), storage) != read.end();
  });
}

// The outputs of a graph that is the beginning of the one that failed. Null: not all can be had. The grad mode is the
// entry's, and in the end that of the place where the graph failed.
Ref<> outputsSoFar(const graph::Graph& graph, const graph::FailedRun& failed, const Roots& roots) {
  Known known;
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
    if (auto value = failed.values.find(node.serial); value != failed.values.end())
      known[&node] = value->second;
  }
  // Nobody needed these any more, but the program can still get at them.
  PyObject* const grad_switch = known::torchObject("torch._C._set_grad_enabled");
  for (const graph::Node& node : graph.nodes()) {
    if (node.sets_mode && node.target.get() == grad_switch)
      setGradMode(PyTuple_GET_ITEM(node.args.get(), 0) == Py_True);
    if (known.contains(&node) || !computesTheSame(node, graph, known)) continue;
    if (Ref<> value = compute(node, known)) known[&node] = std::move(value);
    if (PyErr_Occurred()) return Ref<>();
  }
  Ref<> outputs = stealRef(PyTuple_New(static_cast<Py_ssize_t>(graph.outputs().size())));
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    auto found = known.find(graph.outputs()[i]);
    if (found == known.end() || !found->second) return Ref<>();
    PyTuple_SET_ITEM(outputs.get(), static_cast<Py_ssize_t>(i), Py_NewRef(found->second.get()));
  }
  return outputs;
}

// A graph that writes in place or draws random numbers has failed half way, and cannot be run again. The program goes
// on in the real frame before the instruction whose operation failed, with the values that the graph has computed; that
// instruction then raises by itself. False: this could not be done, and nothing has happened.
bool resume(Cache& cache, const Entry& entry, const graph::FailedRun& failed, StatorFrame* frame,
            Roots roots, breaks::Draws& draws, Exit& exit) {
  CaptureTurn turn;
  if (!turn.held()) return false;
  HookDisabledScope disabled;
  interpret::TraceOptions options = traceOptions(cache, frame);
  // As the capture was made: what was dynamic there is so here, or the trace ends elsewhere.
  const Site& site = cache.site(stator_frame_code(frame), stator_frame_offset(frame));
  known::DynamicHistory history = entry.history ? *entry.history : site.history;
  options.history = &history;
  options.repeats = entry.history != nullptr;
  chooseFloats(site.floats, options);
  options.break_at = failed.instruction;
  options.break_at_reason = breaks::Reason::kRaises;
  interpret::Captured captured = traceFrame(frame, options);
  if (captured.plan.exit != breaks::ExitKind::kBreak || captured.instructions > failed.instruction)
    return false;
  // What has an effect and ran must lie before the place where the program goes on.
  if (failed.effect_instruction >= captured.instructions) return false;
  if (!draws.run(captured.plan, roots)) throw PythonError();
  roots.drawn = draws.values();
  setGradMode(entry.grad_enabled);
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

// The inputs that a graph writes to, as they are before it runs.
class Written {
 public:
  Written(const Entry& entry, const std::vector<PyObject*>& inputs)
      : entry_(entry), inputs_(inputs) {
    if (entry.unseen_effects) return;
    for (size_t index : entry.written)
      versions_.push_back(tensor::isTensor(inputs[index]) ? tensor::versionOf(inputs[index]) : -1);
    if (entry.saves_written) save();
  }
  bool saved() const { return !saved_.empty(); }
  // Whether the graph, which failed, has had no effect that lasts, or has none any more.
  bool undone() const {
    if (entry_.unseen_effects) return false;
    if (!saved_.empty()) {
      for (const tensor::SavedTensor& saved : saved_) saved.putBack();
      return true;
    }
    if (entry_.writes_unseen) return false;
    for (size_t i = 0; i < versions_.size(); ++i) {
      if (versions_[i] < 0 || tensor::versionOf(inputs_[entry_.written[i]]) != versions_[i])
        return false;
    }
    return true;
  }

 private:
  void save() {
    constexpr int64_t kMostBytes = int64_t{1} << 20;  // together
    for (size_t i = 0; i < versions_.size(); ++i) {
      if (versions_[i] < 0) return saved_.clear();
      tensor::SavedTensor saved = tensor::SavedTensor::of(
          inputs_[entry_.written[i]], kMostBytes / static_cast<int64_t>(versions_.size()));
      if (!saved) return saved_.clear();
      saved_.push_back(std::move(saved));
    }
  }

  const Entry& entry_;
  const std::vector<PyObject*>& inputs_;
  std::vector<int64_t> versions_;
  std::vector<tensor::SavedTensor> saved_;
};

// As a profiler shows it: the function and where it begins.
std::string regionName(const PyCodeObject& code) {
  const char* name = utf8OrNull(code.co_qualname);
  const char* file = utf8OrNull(code.co_filename);
  return std::string(name != nullptr ? name : "?") + " (" + (file != nullptr ? file : "?") + ":" +
         std::to_string(code.co_firstlineno) + ")";
}

// The graph of an entry has raised, and cannot be run again. Where it stopped, the real interpreter goes on; where even
// that fails, its error is the user's, with the user's lines in the traceback.
Exit afterHalfAGraph(Cache& cache, const Entry& entry, const graph::FailedRun* failed,
                     StatorFrame* frame, const Roots& roots, breaks::Draws& draws) {
  ErrorAside error;
  setGradMode(entry.grad_enabled);
  Exit exit;
  if (failed != nullptr && failed->executor == entry.graph_id &&
      resume(cache, entry, *failed, frame, roots, draws, exit))
    return exit;
  error.restore();
  return outcome(Outcome::kRaise);
}

// It has raised and nothing has been committed.
Exit afterNothing(Cache& cache, const Entry& entry, const graph::FailedRun* failed,
                  StatorFrame* frame, const Roots& roots, const Written& written) {
  Ref<> error = takeError();
  const bool as_captured =
      entry.graph_number < 0 || (failed != nullptr && failed->executor == entry.graph_id);
  // A second run writes too: it is made where that can be undone.
  if (!as_captured && (!entry.has_effects || written.saved())) {
    if (std::optional<Exit> exit = judgeFailure(cache, entry, frame, roots, std::move(error),
                                                [&] { (void)written.undone(); }))
      return std::move(*exit);
  }
  // The real interpreter runs this part again and raises where, and as, eager raises. What it calls is no part of any
  // graph: a break there would be refused under fullgraph=True, and hide the program's own error.
  return outcome(cache.fullgraph ? Outcome::kOverLimit : Outcome::kNative);
}

}  // namespace

void prepareInputs(const Entry& entry, const Roots& roots, std::vector<PyObject*>& inputs,
                   std::vector<Ref<>>& owned) {
  if (!entry.has_subclasses && roots.drawn == nullptr) return;
  for (size_t i = 0; roots.drawn != nullptr && i < inputs.size(); ++i) {
    const sources::Source* source = entry.inputs[i];
    if (source->kind != sources::SourceKind::kDrawn &&
        (source->base == nullptr || source->base->kind != sources::SourceKind::kDrawn))
      continue;
    owned.push_back(sources::read(*source, roots));
    if (!owned.back()) throw PythonError();
    inputs[i] = owned.back().get();
  }
  for (PyObject*& input : inputs) {
    if (!tensor::isTensor(input) || known::isPlainTensorType(Py_TYPE(input)) ||
        known::hasOwnDispatch(Py_TYPE(input)))
      continue;
    owned.push_back(tensor::asPlainInput(input));
    if (!owned.back()) throw PythonError();
    input = owned.back().get();
  }
}

Ref<> callGraph(const Entry& entry, const std::vector<PyObject*>& inputs) {
  HookDisabledScope disabled;
  tensor::TorchFunctionPause pause(entry.has_subclasses);
  Ref<> outputs =
      stealRef(PyObject_Vectorcall(entry.compiled.get(), inputs.data(), inputs.size(), nullptr));
  // What fails may stand between two switches of the mode.
  if (!outputs && shapes::State::now().grad_enabled != entry.grad_enabled) {
    ErrorKept kept;
    setGradMode(entry.grad_enabled);
  }
  return outputs;
}

bool refuseOutputs(const Entry& entry, PyObject* outputs) {
  const bool sequence = PyTuple_Check(outputs) || PyList_Check(outputs);
  const std::string length = sequence ? " of " + std::to_string(Py_SIZE(outputs)) : "";
  PyErr_Format(
      PyExc_TypeError,
      "the backend's callable returned a %.200s%s: it has to return a tuple or list of the "
      "graph's outputs (%zu)",
      Py_TYPE(outputs)->tp_name, length.c_str(), entry.outputs);
  return false;
}

Exit runEntry(Cache& cache, Entry& entry, StatorFrame* frame, Roots roots,
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
    std::vector<Ref<>> owned;
    prepareInputs(entry, roots, inputs, owned);
    statistics().graph_calls++;
    statistics().ops_run += static_cast<int64_t>(entry.ops);
    std::unique_ptr<graph::FailedRun> failed;
    static const tensor::Drawn kNothing;
    tensor::RandomStates random_states(entry.redraws ? entry.drawn : kNothing);
    const Written written(entry, inputs);
    if (!takeFailure(entry)) {
      graph::FailureScope failures;
      outputs = callGraph(entry, inputs);
      if (!outputs) failed = failures.take();
    }
    if (!outputs) {
      draws.undo();
      roots.drawn = nullptr;
      // An interrupt, or the end of the process.
      if (!PyErr_ExceptionMatches(PyExc_Exception)) return outcome(Outcome::kRaise);
      if (entry.has_effects && !written.undone())
        return afterHalfAGraph(cache, entry, failed.get(), frame, roots, draws);
      random_states.putBack();
      return afterNothing(cache, entry, failed.get(), frame, roots, written);
    }
    if (!outputsFit(entry, outputs.get())) return outcome(Outcome::kRaise);
  }
  driverCounters().counted_captured += entry.counted;
  return finishEntry(entry.plan, frame, roots, std::move(outputs));
}

}  // namespace stator::runtime
