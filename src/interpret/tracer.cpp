#include "interpret/tracer.h"

#include "base/check.h"
#include "interpret/attributes.h"
#include "interpret/calls/switches.h"
#include "interpret/calls/torch_states.h"
#include "interpret/drops.h"
#include "interpret/handlers/handlers.h"
#include "interpret/known_types.h"
#include "interpret/names.h"
#include "interpret/trace_iterator.h"
#include "tensor/tensor_guard.h"

#include <algorithm>
#include <array>
#include <cstdarg>

namespace stator::interpret {

namespace {

std::array<handlers::Handler, 256> makeTable() {
  std::array<handlers::Handler, 256> table{};
#define OPCODE(name, since, until, pops, pushes, effects, handler)         \
  if (bytecode::inThisVersion(bytecode::kPy##since, bytecode::kPy##until)) \
    table[name] = handlers::handler;
#include "bytecode/opcodes.def"
#undef OPCODE
  return table;
}

}  // namespace

// The instruction that raises or returns on behalf of a call unit is its CALL.
int callIndex(const SymbolicFrame& frame) {
  int index = frame.index;
  const auto& instrs = frame.code->instrs();
  int opcode = instrs[static_cast<size_t>(index)].opcode;
  if (opcode != KW_NAMES && opcode != PRECALL) return index;
  while (instrs[static_cast<size_t>(index)].opcode != CALL) ++index;
  return index;
}

Tracer::Tracer(StatorFrame* frame, const TraceOptions& trace_options)
    : options(trace_options),
      real_frame(frame),
      roots(sources::Roots::of(frame)),
      sources(std::make_unique<sources::SourceSet>()),
      guards(std::make_unique<guards::GuardSet>()),
      graph(std::make_shared<graph::Graph>()),
      state(shapes::State::now()),
      initial_state(state),
      started_(std::chrono::steady_clock::now()),
      random_state_(trace_options.random_seed * 0x9E3779B97F4A7C15ull + 0x1234567ull) {
  auto root = std::make_unique<SymbolicFrame>();
  PyCodeObject* code = stator_frame_code(frame);
  root->code = bytecode::CodeInfo::of(code);
  if (root->code == nullptr) throw PythonError();
  root->keep_code = newRef(reinterpret_cast<PyObject*>(code));
  root->globals = stator_frame_globals(frame);
  root->builtins = stator_frame_builtins(frame);
  root->globals_source = sources->root(SourceKind::kGlobals);
  root->slots.resize(static_cast<size_t>(stator_frame_slot_count(frame)));
  root->untouched.assign(root->slots.size(), true);
  root->index = root->code->indexAt(stator_frame_offset(frame));
  root->generator = stator_frame_is_generator(frame) != 0;
  frames.push_back(std::move(root));
  error_on_break = initial_error_on_break = errorOnBreak();
  guards->add(Guard{GuardKind::kGlobalState});
  setRootScope();
}

Tracer::~Tracer() {
  // Suspended generators and what they hold may form cycles with the objects of the trace.
  frames.clear();
  finished.reset();
  restoreClasses();
  for (values::Info* info : values.all()) {
    if (isTraceIterator(info->object.get())) {
      TraceIterator* iterator = asTraceIterator(info->object.get());
      delete iterator->frame;
      iterator->frame = nullptr;
      iterator->sources->clear();
      Py_CLEAR(iterator->function);
    }
  }
}

Flow Tracer::breakWith(Reason reason, std::string detail) {
  broke.reason = reason;
  broke.detail = std::move(detail);
  return Flow::kBreak;
}

Flow Tracer::raise(Ref<> exception) {
  values.addMade(exception, instruction_start).was_raised = true;
  STATOR_VALUE(context, topmostException());
  if (context && context.get() != exception.get()) {
    // As CPython does: a chain that already holds the new exception is cut there.
    Ref<> behind = context;  // at half the speed: the chain may hold a cycle already
    bool step = false;
    for (Ref<> link = context; link;) {
      Ref<> next = stealRef(PyException_GetContext(link.get()));
      if (next.get() == exception.get()) {
        PyException_SetContext(link.get(), nullptr);
        break;
      }
      link = std::move(next);
      if (link.get() == behind.get()) break;
      if (step) behind = stealRef(PyException_GetContext(behind.get()));
      step = !step;
    }
    PyException_SetContext(exception.get(), context.release());
  }
  raised = std::move(exception);
  return Flow::kRaise;
}

Flow Tracer::raiseCurrentError() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  STATOR_CHECK(type != nullptr, "no error is set");
  if (PyErr_GivenExceptionMatches(type, PyExc_KeyboardInterrupt) ||
      PyErr_GivenExceptionMatches(type, PyExc_MemoryError)) {
    PyErr_Restore(type, value, traceback);
    throw PythonError();
  }
  PyErr_NormalizeException(&type, &value, &traceback);
  Ref<> instance = stealRef(value);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  // What this thread is really busy with is not what the trace is busy with, and the frames it really has are not the program's.
  PyException_SetTraceback(instance.get(), Py_None);
  Ref<> context = stealRef(PyException_GetContext(instance.get()));
  if (context && context.get() == _PyErr_GetTopmostException(PyThreadState_Get())->exc_value)
    PyException_SetContext(instance.get(), nullptr);
  return raise(instance);
}

Flow Tracer::raiseNew(PyObject* type, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  PyErr_FormatV(type, format, arguments);
  va_end(arguments);
  return raiseCurrentError();
}

Out Tracer::fromNative(Ref<> result) {
  if (!result) return raiseCurrentError();
  return result;
}

Out Tracer::topmostException() {
  if (handled) return handled;
  for (size_t i = outer_handled.size(); i-- > 0;) {
    auto& [exception, touched] = outer_handled[i];
    if (!touched) {
      STATOR_VALUE(value, readHandled());
      exception = value;
      touched = true;
    }
    if (exception) return exception;
  }
  return handledException();
}

Out Tracer::handledException() {
  if (handled_touched) return handled;
  STATOR_VALUE(value, readHandled());
  handled = value;
  handled_touched = true;
  return value;
}

Out Tracer::readHandled() {
  PyObject* raw = roots.handled;
  const sources::Source* source = sources->root(SourceKind::kHandled);
  if (raw == nullptr) {
    guards->add(Guard{GuardKind::kAbsent, source});
    return Ref<>();
  }
  if (raw == Py_None) {
    guards->add(Guard{GuardKind::kIs, source, nullptr, newRef(Py_None)});
    return Ref<>();
  }
  return fromOutside(raw, source);
}

const graph::Location* Tracer::location() {
  if (frames.empty()) return nullptr;
  SymbolicFrame& current = *frames.back();
  graph::Location here;
  here.caller = current.call_site;
  here.code = Ref<PyCodeObject>::create(current.code->code());
  here.offset = current.code->instrs()[static_cast<size_t>(callIndex(current))].opcode_offset;
  if (!graph->locations.empty()) {
    const graph::Location& last = graph->locations.back();
    if (last.offset == here.offset && last.code.get() == here.code.get() &&
        last.caller == here.caller)
      return &last;
  }
  graph->locations.push_back(std::move(here));
  return &graph->locations.back();
}

bool Tracer::forcedBreak(SymbolicFrame& frame) {
  if (options.break_every == 0 || nested_depth > 0 || !frame.instr().legal_exit) return false;
  legal_count++;
  if (!options.random) return legal_count % options.break_every == 0;
  random_state_ = random_state_ * 6364136223846793005ull + 1442695040888963407ull;
  return (random_state_ >> 33) % options.break_every == 0;
}

void Tracer::checkLimits() {
  if (PyErr_CheckSignals() != 0) throw PythonError();
  std::chrono::duration<double> spent = std::chrono::steady_clock::now() - started_;
  if (spent.count() > options.limits.seconds) options.limits.instructions = limit_check = count;
}

// A program that goes on and on without touching a tensor is not worth following; one that does is, for as long as it makes nodes.
bool Tracer::overLimit() {
  const Limits& limits = options.limits;
  const size_t nodes = graph->nodes().size();
  if (count > limits.instructions || nodes > limits.nodes) return true;
  if (limit_check != 0 && nodes == nodes_at_check) return true;
  nodes_at_check = nodes;
  const uint64_t quiet = nodes == 0 ? limits.quiet : limits.quiet_with_nodes;
  limit_check = std::min(limits.instructions, count + quiet);
  return false;
}

Flow Tracer::leaveFrame() {
  std::unique_ptr<SymbolicFrame> callee = std::move(frames.back());
  if (callee->fold) finishFold(*callee);
  frames.pop_back();
  if (callee->nested || frames.empty()) {
    if (callee->then == Then::kPushInstance && !callee->generator) returned = callee->instance;
    if (frames.empty()) finished = std::move(callee);
    return Flow::kOk;
  }
  SymbolicFrame& caller = *frames.back();
  switch (callee->then) {
    case Then::kPush:
      caller.push(std::move(returned));
      break;
    case Then::kDiscard:
      break;
    case Then::kPushInstance:
      if (returned.get() != Py_None) {
        // CPython raises here; the call has to be made for real, from its beginning.
        restart_at = callee->entered_at;
        restart_reason = Reason::kRaises;
        frames.push_back(std::move(callee));
        return breakWith(Reason::kRaises, "__init__ returned something");
      }
      caller.push(callee->instance);
      break;
    case Then::kPushTruth:
    case Then::kPushNotTruth:
      STATOR_CHECK(false, "truth continuations are settled in place");
  }
  returned.reset();
  caller.index = callIndex(caller) + 1;
  return Flow::kOk;
}

Flow Tracer::unwind(size_t base) {
  for (size_t i = frames.size(); i-- > base;) {
    SymbolicFrame& frame = *frames[i];
    const bytecode::Instr& instr = frame.code->instrs()[static_cast<size_t>(callIndex(frame))];
    auto handler = frame.code->findHandler(instr.opcode_offset);
    if (!handler && frame.getattr_follows &&
        PyErr_GivenExceptionMatches(raised.get(), PyExc_AttributeError)) {
      restart_at = frame.entered_at;
      restart_reason = Reason::kRaises;
      return breakWith(Reason::kRaises, "AttributeError of an attribute that __getattr__ may know");
    }
    if (!handler) {
      noteAttribute(*this, frame);
      continue;
    }
    // RERAISE n stands for the instruction that raised first, which its operand says.
    Ref<> lasti = instr.opcode == RERAISE && instr.oparg != 0
                      ? newRef(frame.top(static_cast<size_t>(instr.oparg)))
                      : stealRef(PyLong_FromLong(instr.opcode_offset / 2));
    while (frames.size() > i + 1) frames.pop_back();
    frame.stack.resize(static_cast<size_t>(handler->depth));
    frame.lazy_stack = std::min(frame.lazy_stack, frame.stack.size());
    if (handler->lasti) frame.push(std::move(lasti));
    frame.push(std::move(raised));
    frame.index = frame.code->indexAt(handler->target);
    return Flow::kOk;
  }
  if (base > 0) {
    while (frames.size() > base) frames.pop_back();
    return Flow::kRaise;
  }
  std::string detail = Py_TYPE(raised.get())->tp_name;
  raised.reset();
  return breakWith(Reason::kRaises, detail);
}

// How many instructions a trace function of CPython's sees here: none in the prologue, two or three at a call.
uint64_t watchedUnits(const bytecode::Instr& instr) {
  switch (instr.opcode) {
    case RESUME:
    case COPY_FREE_VARS:
    case MAKE_CELL:
    case RETURN_GENERATOR:
      return 0;
    case KW_NAMES:
      return 3;
    case PRECALL:
      return 2;
    default:
      return 1;
  }
}

Flow Tracer::runUntil(size_t depth) {
  static const std::array<handlers::Handler, 256> table = makeTable();
  while (frames.size() > depth) {
    SymbolicFrame& frame = *frames.back();
    ++count;
    if (frame.code->watched) [[unlikely]]
      watched_count += watchedUnits(frame.instr());
    if (nested_depth == 0) {
      nested_ran = false;
      instruction_start = graph->instruction = count;
      // Behind it, where it lay inside of a function that was run from C++.
      if (options.break_at != 0 && count >= options.break_at &&
          (count == options.break_at || frame.instr().legal_exit))
        return breakWith(options.break_at_reason, options.break_at_detail);
      if (forcedBreak(frame)) return breakWith(Reason::kForced);
      if (count > limit_check || graph->nodes().size() > options.limits.nodes) {
        if (frame.instr().legal_exit && overLimit()) return breakWith(Reason::kTraceLimit);
      }
    } else if (count > limit_check + 100'000 && overLimit()) {
      return breakWith(Reason::kTraceLimit);
    }
    if ((count & 0xfff) == 0) checkLimits();
    const bytecode::Instr& instr = frame.instr();
    handlers::Handler handler = table[instr.opcode];
    STATOR_CHECK(handler != nullptr, "no handler for opcode " + std::to_string(instr.opcode));
    Flow flow = Flow::kOk;
    try {
      if (frame.lazy_stack > 0) flow = readStack(frame, instr);
      if (flow == Flow::kOk) flow = handler(*this, frame, instr);
    } catch (const symbolic::Undecided& undecided) {
      // The handler may have been half way: the trace starts over, and ends before this instruction.
      restart_at = instruction_start;
      restart_reason = Reason::kDataDependentBranch;
      return breakWith(Reason::kDataDependentBranch,
                       undecided.condition == nullptr
                           ? "depends on a number that is known only when the graph runs"
                           : "depends on a number that is known only when the graph runs: " +
                                 symbolic::text(undecided.condition));
    }
    if (flow == Flow::kRaise) flow = unwind(depth);
    if (flow == Flow::kBreak || flow == Flow::kRaise) return flow;
  }
  return Flow::kOk;
}

PyObject* unreadMarker() {
  static PyObject* marker = PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type));
  return marker;
}

// The values on the stack at the entry get their sources and guards when an instruction takes them, not before.
Flow Tracer::readStack(SymbolicFrame& frame, const bytecode::Instr& instr) {
  size_t depth = frame.stack.size();
  size_t wanted = depth;
  switch (instr.opcode) {
    case KW_NAMES:
    case PRECALL:
    case CALL: {
      const bytecode::Instr& call = frame.code->instrs()[static_cast<size_t>(callIndex(frame))];
      wanted = static_cast<size_t>(call.oparg) + 2;
      break;
    }
    case NOP:
    case RESUME:
    case LOAD_CONST:
    case LOAD_FAST:
    case LOAD_GLOBAL:
    case LOAD_DEREF:
    case PUSH_NULL:
    case JUMP_FORWARD:
    case JUMP_BACKWARD:
      wanted = 0;
      break;
    case STORE_FAST:
    case POP_TOP:
    case LOAD_ATTR:
    case LOAD_METHOD:
    case STORE_GLOBAL:
    case GET_ITER:
    case FOR_ITER:
    case RETURN_VALUE:
      wanted = 1;
      break;
    case BINARY_OP:
    case BINARY_SUBSCR:
    case COMPARE_OP:
    case IS_OP:
    case CONTAINS_OP:
    case STORE_ATTR:
      wanted = 2;
      break;
    case STORE_SUBSCR:
      wanted = 3;
      break;
    default:
      break;
  }
  for (size_t i = depth; i-- > depth - std::min(wanted, depth);) {
    if (frame.stack[i].get() != unreadMarker()) continue;
    if (instr.opcode != STORE_FAST && dropRunsUserCode(*this, roots.stack[i])) {
      return breakWith(Reason::kUnsupportedObject, "drops an object with a finalizer");
    }
    STATOR_VALUE(value, fromOutside(roots.stack[i],
                                    sources->root(SourceKind::kStack, static_cast<int64_t>(i))));
    frame.stack[i] = std::move(value);
  }
  frame.lazy_stack = std::min(frame.lazy_stack, depth - std::min(wanted, depth));
  return Flow::kOk;
}

Captured Tracer::run() {
  Captured captured;
  symbolic::Environment::Scope scope(&environment);
  environment.setWhere(
      [](void* tracer) -> const void* { return static_cast<Tracer*>(tracer)->location(); }, this);
  SymbolicFrame& root = *frames.front();
  if (tensor::functionModes() > 0) readFunctionModes();
  tensor::TorchFunctionAnew none;  // what capture asks of torch is not the program's call
  for (int i = 0; i < stator_frame_depth(real_frame); ++i) {
    PyObject* raw = roots.stack[i];
    root.push(raw == nullptr ? Ref<>() : newRef(unreadMarker()));
  }
  root.lazy_stack = stack_at_entry = root.stack.size();
  if (root.instr().offset != root.code->firstLegal()) noteStates(*this);
  Flow flow = runUntil(0);
  restoreClasses();
  STATOR_CHECK(flow == Flow::kOk || flow == Flow::kBreak, "a trace ended in a raise");
  bool returns = flow == Flow::kOk;
  if (start_anew) {
    captured.start_anew = true;
    return captured;
  }
  if (!returns && restart_at == 0) {
    // Outside of the trace nobody would ask __getattr__ when such a frame fails: the whole look-up is left to the real interpreter.
    for (auto& frame : frames) {
      if (!frame->getattr_follows) continue;
      restart_at = frame->entered_at;
      restart_reason = broke.reason;
      break;
    }
  }
  if (!returns && restart_at != 0) {
    captured.restart_at = restart_at;
    captured.restart_reason = restart_reason;
    captured.restart_detail = broke.detail;
    return captured;
  }
  if (!returns && nested_ran) {
    captured.restart_at = instruction_start;
    captured.restart_reason = broke.reason;
    captured.restart_detail = broke.detail;
    return captured;
  }
  if (!buildPlan(*this, returns, captured.plan)) {
    if (restart_at == 0) {
      // Nobody knows where it was made: half of the trace may do without it, or half of that.
      const uint64_t end = options.break_at != 0 ? options.break_at : instruction_start;
      STATOR_CHECK(end > 1, "an object that cannot be rebuilt was there before the trace");
      restart_at = end / 2;
      restart_reason = Reason::kCannotRebuild;
    }
    captured.restart_at = restart_at;
    captured.restart_reason = returns ? restart_reason : broke.reason;
    captured.restart_detail = returns ? restart_detail : broke.detail;
    return captured;
  }
  if (!returns) {
    captured.plan.reason = broke.reason;
    captured.plan.detail = broke.detail;
    captured.break_is_error = error_on_break;
    SymbolicFrame& last = *frames.back();
    captured.plan.line =
        last.code->line(last.code->instrs()[static_cast<size_t>(callIndex(last))].opcode_offset);
    PyCodeObject* code = last.code->code();
    captured.plan.place = std::string(PyUnicode_AsUTF8(code->co_filename)) + ":" +
                          std::to_string(captured.plan.line) + " in " +
                          PyUnicode_AsUTF8(code->co_qualname);
  }
  graph->dropDead();
  graph->dropSwitches();
  noteFsdpModules(captured);
  if (options.own_parameters) graph->specialiseInputs();
  if (environment.symbolCount() > 0) finishSymbols(captured);
  captured.graph = graph;
  captured.plan.draws = std::move(draws);
  captured.sources = std::move(sources);
  captured.guards = std::move(guards);
  captured.instructions = count;
  captured.watched = watched_count;
  // The instruction at a break runs behind the entry.
  if (!returns && frames.back()->code->watched)
    captured.watched -= watchedUnits(frames.back()->instr());
  captured.grad_enabled = initial_state.grad_enabled;
  if (torch_function.relevant) {
    captured.has_subclasses = torch_function.outer_modes;
    for (const graph::Node* input : graph->inputs()) {
      captured.has_subclasses |= input->example && tensor::isTensor(input->example.get()) &&
                                 !isPlainTensorType(Py_TYPE(input->example.get()));
    }
  }
  return captured;
}

}  // namespace stator::interpret
