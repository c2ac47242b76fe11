#include "interpret/frames/trace.h"

#include "base/check.h"
#include "base/text.h"
#include "bytecode/opcodes.h"
#include "interpret/calls/modules.h"
#include "interpret/calls/switches.h"
#include "interpret/core/known.h"
#include "interpret/core/symbol_conditions.h"
#include "interpret/core/symbols.h"
#include "interpret/core/tracer.h"
#include "interpret/frames/above.h"
#include "interpret/frames/finish.h"
#include "interpret/frames/loop.h"
#include "interpret/tensors/arrays.h"
#include "interpret/tensors/function_modes.h"
#include "interpret/tensors/torch_function.h"
#include "interpret/tensors/torch_states.h"
#include "python/errors_aside.h"
#include "tensor/fake_modes.h"
#include "tensor/tensor_guard.h"

#include <string>

namespace stator::interpret {

namespace {

// What the frame's stack held at the entry, unread: CPython's NULL too, where another call may have something.
void beginStack(Tracer& tracer) {
  SymbolicFrame& root = tracer.frames.driven();
  for (int i = 0; i < stator_frame_depth(tracer.world.frame()); ++i)
    root.push(newRef(unreadMarker()));
  root.lazy_stack = root.stack.size();
  tracer.frames.setStackAtEntry(root.stack.size());
}

void runAgain(Captured& captured, uint64_t at, Reason reason, const std::string& detail) {
  captured.restart_at = at;
  captured.restart_reason = reason;
  captured.restart_detail = detail;
}

// A break cannot be left for an exit: the trace is run again, with a break before.
bool breaksEarlier(Tracer& tracer, Captured& captured) {
  const Broke& broke = tracer.ending.broke();
  if (!tracer.ending.restarts()) {
    // Outside of the trace nobody would ask __getattr__ when such a frame fails: the whole look-up is left to the real
    // interpreter.
    for (const auto& frame : tracer.frames.all()) {
      if (!frame->getattr_follows) continue;
      tracer.ending.restartAt(frame->entered_at, broke.reason);
      break;
    }
  }
  if (tracer.ending.restarts()) {
    const Ending::Restart& restart = tracer.ending.restart();
    runAgain(captured, restart.at, restart.reason, broke.detail);
    return true;
  }
  if (!tracer.frames.committed()) return false;
  runAgain(captured, tracer.frames.instruction(), broke.reason, broke.detail);
  return true;
}

void runAgainWithoutPlan(Tracer& tracer, bool returns, Captured& captured) {
  if (!tracer.ending.restarts()) {
    // Nobody knows where it was made: half of the trace may do without it, or half of that.
    const uint64_t end =
        tracer.options.break_at != 0 ? tracer.options.break_at : tracer.frames.instruction();
    STATOR_CHECK(end > 1, "an object that cannot be rebuilt was there before the trace");
    tracer.ending.restartAt(end / 2, Reason::kCannotRebuild);
  }
  const Ending::Restart& restart = tracer.ending.restart();
  const Broke& broke = tracer.ending.broke();
  if (returns)
    runAgain(captured, restart.at, restart.reason, restart.detail);
  else
    runAgain(captured, restart.at, broke.reason, broke.detail);
}

// The line of the instruction at which a frame is; of one that has none, as what leaves an `except` has, the line
// before.
int lineOf(const SymbolicFrame& frame) {
  int line = -1;
  for (int at = callIndex(frame); at >= 0 && line <= 0; --at)
    line = frame.code->line(frame.code->instrs()[static_cast<size_t>(at)].opcode_offset);
  return line;
}

void describeBreak(Tracer& tracer, Captured& captured) {
  captured.plan.reason = tracer.ending.broke().reason;
  captured.plan.detail = tracer.ending.broke().detail;
  captured.break_is_error = tracer.torch.breakIsError();
  for (const auto& frame : tracer.frames.all()) {
    captured.stack.emplace_back(newRef(reinterpret_cast<PyObject*>(frame->code->code())),
                                lineOf(*frame));
  }
  const SymbolicFrame& last = tracer.frames.innermost();
  captured.plan.line = lineOf(last);
  const bytecode::Instr& at = last.code->instrs()[static_cast<size_t>(callIndex(last))];
  captured.passes_exception_on =
      captured.plan.reason == Reason::kRaises &&
      (at.opcode == RERAISE || (at.opcode == RAISE_VARARGS && at.oparg == 0));
  PyCodeObject* code = last.code->code();
  captured.plan.place = std::string(utf8(code->co_filename)) + ":" +
                        std::to_string(captured.plan.line) + " in " + utf8(code->co_qualname);
}

bool hasSubclasses(Tracer& tracer) {
  if (!tracer.torch_function.relevant()) return false;
  if (tracer.torch_function.outerModes()) return true;
  for (const graph::Node* input : tracer.graphs.current().inputs()) {
    if (input->example && tensor::isTensor(input->example.get()) &&
        !isPlainTensorType(Py_TYPE(input->example.get())))
      return true;
  }
  return false;
}

// Tensors whose numbers were read stay inputs beside others that are written to: an entry looks whether those lie in
// the memory of another one.
void keepReadTensors(Tracer& tracer) {
  if (!tracer.storages.writesBesideNumbers()) return;
  for (graph::Node* input : tracer.graphs.current().inputs()) {
    if (input->meta != nullptr && tracer.storages.hasNumberRead(input->meta->storage_id))
      input->called = true;
  }
}

// What the trace made becomes the entry's.
void handOver(Tracer& tracer, bool returns, Captured& captured) {
  graph::Graph& graph = tracer.graphs.current();
  keepReadTensors(tracer);
  graph.dropDead();
  graph.dropSwitches();
  noteFsdpModules(tracer, captured);
  graph.specialiseInputs();
  if (tracer.sizes.environment().symbolCount() > 0) finishSymbols(tracer);
  captured.graph = tracer.graphs.shared();
  captured.plan.draws = tracer.effects.takeDraws();
  captured.instructions = tracer.budget.instructions();
  captured.counted = tracer.budget.counted();
  // The instruction at a break runs behind the entry.
  if (!returns && tracer.frames.innermost().code->counted)
    captured.counted -= bytecode::countedUnits(tracer.frames.innermost().instr());
  captured.grad_enabled = tracer.torch.initial().grad_enabled;
  captured.has_subclasses = hasSubclasses(tracer);
  captured.differentiated_within = !returns && tracer.ending.differentiatesWithin();
  captured.sources = tracer.world.takeSources();
  captured.guards = tracer.world.takeGuards();
}

struct ErrorsAside {
  ErrorsAside() { stator_errors_aside(&aside); }
  ~ErrorsAside() { stator_errors_back(&aside); }
  ErrorsAside(const ErrorsAside&) = delete;
  ErrorsAside& operator=(const ErrorsAside&) = delete;
  StatorErrorsAside aside;
};

// A backend that differentiates or traces the graph itself cannot do so from inside of a caller's transform.
bool underTransform(Tracer& tracer) {
  if (tracer.options.runs_as_captured || !tensor::transformsActive()) return false;
  Ref<> name = stealRef(PyObject_CallNoArgs(torchObject("stator._transforms.refused")));
  if (!name) throw PythonError();
  const std::string text = utf8(name.get());
  if (text.empty()) return false;
  tracer.breakWith(Reason::kUnsupportedContext,
                   "Calling " + text + "(compiled_fn) function from eager mode is not supported: " +
                       "compile the function that calls " + text + ", or use backend=\"eager\"");
  return true;
}

Captured run(Tracer& tracer) {
  Captured captured;
  ErrorsAside aside;  // its handlers are the trace's to follow
  symbolic::Environment::Scope scope(&tracer.sizes.environment());
  tracer.sizes.environment().setWhere(
      [](void* of) -> const void* { return static_cast<Tracer*>(of)->location(); }, &tracer);
  if (tensor::functionModes() > 0) readFunctionModes(tracer);
  tensor::TorchFunctionAnew none;  // what capture asks of torch is not the program's call
  tensor::DispatchModesPause unseen;
  beginStack(tracer);
  const SymbolicFrame& root = tracer.frames.driven();
  if (root.instr().offset != root.code->firstLegal()) noteStates(tracer);
  if (tracer.options.breaks_at_unsteady) tracer.world.watchUnsteady(tracer.options.history);
  const Flow flow = underTransform(tracer) ? Flow::kBreak : runUntil(tracer, 0);
  tracer.world.watchUnsteady(nullptr);
  tracer.classes.restore();
  STATOR_CHECK(flow == Flow::kOk || flow == Flow::kBreak, "a trace ended in a raise");
  const bool returns = flow == Flow::kOk;
  captured.writes_behind_numbers = tracer.storages.writesBehindNumbers();
  captured.start_anew = captured.writes_behind_numbers || tracer.ending.startsAnew() ||
                        (!returns && numbersBecomeConstant(tracer));
  captured.read_texts = tracer.texts.read();
  captured.wrappers_read_data = tracer.wrappers.readsData();
  if (captured.start_anew || (!returns && breaksEarlier(tracer, captured))) return captured;
  if (!buildPlan(tracer, returns, captured.plan)) {
    captured.start_anew = tracer.ending.startsAnew();
    captured.read_texts = tracer.texts.read();
    if (!captured.start_anew) runAgainWithoutPlan(tracer, returns, captured);
    return captured;
  }
  if (!returns) describeBreak(tracer, captured);
  handOver(tracer, returns, captured);
  return captured;
}

}  // namespace

Captured trace(StatorFrame* frame, TraceOptions& options) {
  constexpr int kMostAttempts = 20;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    FramesAbove above;
    Tracer tracer(frame, options, above);
    above.serve(tracer);
    tracer.torch.beginBreakIsError(errorOnBreak());
    setRootScope(tracer);
    Captured captured = run(tracer);
    captured.restarts = attempt;
    if (captured.restart_at == 0 && !captured.start_anew) return captured;
    options.read_texts = captured.read_texts;
    options.wrappers_read_data |= captured.wrappers_read_data;
    options.reads_numbers &= !captured.writes_behind_numbers;
    if (captured.start_anew) continue;
    options.break_at = captured.restart_at;
    options.break_at_reason = captured.restart_reason;
    options.break_at_detail = captured.restart_detail;
  }
  throw InternalError("a capture keeps starting over");
}

}  // namespace stator::interpret
