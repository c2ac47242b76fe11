// How an entry serves a call whose frame is there: its graph runs, then its plan.
#include "base/check.h"
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
#include "tensor/profiler_region.h"
#include "tensor/tensor_guard.h"
#include "tensor/torch_function.h"

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
  pending.continuation = static_cast<Continuation>(state.continuation);
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
  Ref<> done = stealRef(PyObject_CallOneArg(known::torchObject("torch._C._set_grad_enabled"),
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
  interpret::Captured captured = traceFrame(frame, options);
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

// The graph of an entry has raised, and cannot be run again. Where it stopped, the real interpreter goes on; where even that fails, its error
// is the user's, with the user's lines in the traceback.
Exit afterHalfAGraph(const Cache& cache, const Entry& entry, const graph::FailedRun* failed,
                     StatorFrame* frame, const Roots& roots, breaks::Draws& draws) {
  PyObject *type = nullptr, *error = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &error, &traceback);
  bool grad_at_failure = shapes::State::now().grad_enabled;
  setGradMode(entry.grad_enabled);
  Exit exit;
  if (failed != nullptr && failed->executor == entry.graph_id &&
      resume(cache, entry, *failed, grad_at_failure, frame, roots, draws, exit)) {
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(traceback);
    return exit;
  }
  PyErr_Restore(type, error, traceback);
  return outcome(Outcome::kRaise);
}

// It has raised and nothing has been committed.
Exit afterNothing(Cache& cache, const Entry& entry, const graph::FailedRun* failed,
                  StatorFrame* frame, const Roots& roots) {
  Ref<> error = takeError();
  // A check that fails may stand between two switches of the mode.
  if (shapes::State::now().grad_enabled != entry.grad_enabled) setGradMode(entry.grad_enabled);
  const bool as_captured =
      entry.graph_number < 0 || (failed != nullptr && failed->executor == entry.graph_id);
  if (!as_captured) {
    if (std::optional<Exit> exit = judgeFailure(cache, entry, frame, roots, std::move(error)))
      return std::move(*exit);
  }
  // The real interpreter runs this part again and raises where, and as, eager raises.
  return outcome(Outcome::kNative);
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
  return stealRef(PyObject_Vectorcall(entry.compiled.get(), inputs.data(), inputs.size(), nullptr));
}

Ref<> randomState() {
  Ref<> state =
      stealRef(PyObject_CallNoArgs(known::torchObject("torch.default_generator.get_state")));
  if (!state) throw PythonError();
  return state;
}

void setRandomState(PyObject* state) {
  PyObject *type = nullptr, *error = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &error, &traceback);
  Ref<> done =
      stealRef(PyObject_CallOneArg(known::torchObject("torch.default_generator.set_state"), state));
  if (!done) PyErr_Clear();
  PyErr_Restore(type, error, traceback);
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
    Ref<> random_state;
    if (entry.redraws) random_state = randomState();
    if (!takeFailure(entry)) {
      graph::FailureScope failures;
      outputs = callGraph(entry, inputs);
      if (!outputs) failed = failures.take();
    }
    if (!outputs) {
      draws.undo();
      roots.drawn = nullptr;
      if (random_state) setRandomState(random_state.get());
      // An interrupt, or the end of the process.
      if (!PyErr_ExceptionMatches(PyExc_Exception)) return outcome(Outcome::kRaise);
      return entry.has_effects ? afterHalfAGraph(cache, entry, failed.get(), frame, roots, draws)
                               : afterNothing(cache, entry, failed.get(), frame, roots);
    }
  }
  driverCounters().watched_captured += entry.watched;
  return finishEntry(entry.plan, frame, roots, std::move(outputs));
}

}  // namespace stator::runtime
