#include "interpret/frames/loop.h"

#include "base/check.h"
#include "base/faults.h"
#include "base/text.h"
#include "interpret/calls/folded_modules.h"
#include "interpret/core/outside.h"
#include "interpret/frames/handlers.h"
#include "interpret/frames/pending_text.h"
#include "interpret/frames/trace_log.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/drops.h"
#include "python/held_frames.h"
#include "python/types.h"

#include <algorithm>
#include <array>

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

// What an instruction does with a value of the stack: it may look at it and leave it there.
enum class Use : uint8_t { kDrops, kMoves, kKeeps };

// A value that lay on the stack at the entry gets its source and its guards when an instruction takes it, not before.
Flow readFromStack(Tracer& tracer, SymbolicFrame& frame, size_t at, Use use) {
  if (frame.stack[at].get() != unreadMarker()) return Flow::kOk;
  PyObject* outside = tracer.world.roots().stack[at];
  const Source* source = tracer.world.root(SourceKind::kStack, static_cast<int64_t>(at));
  if (outside == nullptr) {
    tracer.world.guard(Guard{GuardKind::kAbsent, source});
    frame.stack[at].reset();
    return Flow::kOk;
  }
  const bool stays =
      use == Use::kMoves || (use == Use::kKeeps && !stator_is_user_class(Py_TYPE(outside)));
  if (!stays && dropRunsUserCode(tracer, outside))
    return tracer.breakWith(Reason::kUnsupportedObject, "drops an object with a finalizer");
  STATOR_VALUE(value, fromOutside(tracer, outside, source));
  frame.stack[at] = std::move(value);
  return Flow::kOk;
}

Flow readStack(Tracer& tracer, SymbolicFrame& frame, const bytecode::Instr& instr) {
  const bytecode::Instr& taker = bytecode::hasEffect(instr.opcode, bytecode::kCallUnit)
                                     ? frame.code->instrs()[static_cast<size_t>(callIndex(frame))]
                                     : instr;
  const size_t depth = frame.stack.size();
  size_t pops = depth;
  if (!bytecode::hasEffect(taker.opcode, bytecode::kLooksAround))
    pops = static_cast<size_t>(bytecode::stackPops(taker.opcode, taker.oparg, false));
  pops = std::min(pops, depth);
  const bool moves = instr.opcode == STORE_FAST || instr.opcode == STORE_FAST_LOAD_FAST ||
                     instr.opcode == STORE_FAST_STORE_FAST;
  // A loop drops its iterator where it has come to its end (forIter).
  const Use use = moves ? Use::kMoves : instr.opcode == FOR_ITER ? Use::kKeeps : Use::kDrops;
  for (size_t i = depth; i-- > depth - pops;)
    if (Flow flow = readFromStack(tracer, frame, i, use); flow != Flow::kOk) return flow;
  frame.lazy_stack = std::min(frame.lazy_stack, depth - pops);
  for (size_t under : {bytecode::hasEffect(taker.opcode, bytecode::kLooksAtTop) ? size_t{1} : 0,
                       bytecode::hasEffect(taker.opcode, bytecode::kLooksAtOparg)
                           ? static_cast<size_t>(taker.oparg)
                           : 0}) {
    if (under == 0 || pops + under > depth) continue;
    if (Flow flow = readFromStack(tracer, frame, depth - pops - under, Use::kKeeps);
        flow != Flow::kOk)
      return flow;
  }
  return Flow::kOk;
}

// Whether the trace ends before this instruction.
Flow beginInstruction(Tracer& tracer, const SymbolicFrame& frame) {
  Budget& budget = tracer.budget;
  const bytecode::Instr& instr = frame.instr();
  budget.step(*frame.code, instr);
  const size_t nodes = tracer.graphs.current().nodes().size();
  if (!tracer.frames.nested()) {
    tracer.frames.begin(budget.instructions());
    tracer.graphs.current().instruction = budget.instructions();
    if (budget.breakAsked(instr))
      return tracer.breakWith(tracer.options.break_at_reason, tracer.options.break_at_detail);
    if (budget.breakForced(instr)) return tracer.breakWith(Reason::kForced);
    if (budget.spent(instr, nodes)) return tracer.breakWith(Reason::kTraceLimit);
  } else if (budget.spentInside(nodes)) {
    return tracer.breakWith(Reason::kTraceLimit);
  }
  budget.look();
  faultPoint();
  if (tracer.options.logs != 0) [[unlikely]]
    logInstruction(tracer, frame);
  return Flow::kOk;
}

}  // namespace

Flow stayIfHeld(Tracer& tracer) {
  if (tracer.frames.size() == 1 && !tracer.options.fullgraph &&
      stator_frame_held(tracer.world.frame()) != 0)
    return tracer.breakWith(Reason::kUnsupportedObject, "the end of a frame that is looked at");
  return Flow::kOk;
}

Flow leaveFrame(Tracer& tracer) {
  FrameStack& frames = tracer.frames;
  if (frames.innermost().fold) finishFold(tracer, frames.innermost());
  std::unique_ptr<SymbolicFrame> callee = frames.leave();
  if (callee->nested || frames.empty()) {
    if (callee->then == Continuation::kPushInstance && !callee->generator)
      frames.setReturned(callee->instance);
    if (frames.empty()) frames.finish(std::move(callee));
    return Flow::kOk;
  }
  SymbolicFrame& caller = frames.innermost();
  switch (callee->then) {
    case Continuation::kPush:
      caller.push(frames.takeReturned());
      break;
    case Continuation::kDiscard:
      break;
    case Continuation::kPushInstance:
      if (frames.returned() != Py_None) {
        // CPython raises here; the call has to be made for real, from its beginning.
        tracer.ending.restartAt(callee->entered_at, Reason::kRaises);
        frames.enter(std::move(callee));
        return tracer.breakWith(Reason::kRaises, "__init__ returned something");
      }
      caller.push(callee->instance);
      break;
    case Continuation::kPushTruth:
    case Continuation::kPushNotTruth:
    case Continuation::kBranch:
      STATOR_CHECK(false, "truth continuations are settled in place");
  }
  frames.setReturned(Ref<>(), frames.yielded());
  caller.index = callIndex(caller) + 1;
  return Flow::kOk;
}

namespace {

// What lies on the stacks that an exception leaves ends before its handler begins: a generator under way is closed.
bool leavingRunsUserCode(Tracer& tracer, size_t catching, size_t depth) {
  PyObject* const* outside = tracer.world.roots().stack;
  for (size_t i = catching; i < tracer.frames.size(); ++i) {
    const SymbolicFrame& frame = tracer.frames.at(i);
    for (size_t k = i == catching ? depth : 0; k < frame.stack.size(); ++k) {
      PyObject* value = frame.stack[k].get();
      if (value == unreadMarker()) value = outside[k];
      if (dropRunsUserCode(tracer, value)) return true;
    }
  }
  return false;
}

// The class and the text of an exception, where that text is a plain string: no code of the program's runs for it.
std::string describeError(PyObject* error) {
  std::string text = Py_TYPE(error)->tp_name;
  PyObject* arguments = reinterpret_cast<PyBaseExceptionObject*>(error)->args;
  if (arguments == nullptr || PyTuple_GET_SIZE(arguments) != 1) return text;
  PyObject* message = PyTuple_GET_ITEM(arguments, 0);
  const char* words = PyUnicode_CheckExact(message) ? utf8OrNull(message) : nullptr;
  return words != nullptr && *words != '\0' ? text + ": " + words : text;
}

}  // namespace

Flow unwind(Tracer& tracer, size_t base) {
  for (size_t i = tracer.frames.size(); i-- > base;) {
    SymbolicFrame& frame = tracer.frames.at(i);
    const bytecode::Instr& instr = frame.code->instrs()[static_cast<size_t>(callIndex(frame))];
    auto handler = frame.code->findHandler(instr.opcode_offset);
    if (!handler && frame.getattr_follows && tracer.errors.raisedIs(PyExc_AttributeError)) {
      tracer.ending.restartAt(frame.entered_at, Reason::kRaises);
      return tracer.breakWith(Reason::kRaises,
                              "AttributeError of an attribute that __getattr__ may know");
    }
    if (!handler) {
      noteAttribute(tracer, frame);
      continue;
    }
    if (leavingRunsUserCode(tracer, i, static_cast<size_t>(handler->depth))) {
      tracer.errors.dropRaised();
      return tracer.breakWith(Reason::kRaises, "an exception that ends an object with a finalizer");
    }
    // RERAISE n stands for the instruction that raised first, which its operand says.
    Ref<> lasti = instr.opcode == RERAISE && instr.oparg != 0
                      ? newRef(frame.top(static_cast<size_t>(instr.oparg)))
                      : stealRef(PyLong_FromLong(instr.opcode_offset / 2));
    tracer.frames.leaveTo(i + 1);
    frame.stack.resize(static_cast<size_t>(handler->depth));
    frame.lazy_stack = std::min(frame.lazy_stack, frame.stack.size());
    if (handler->lasti) frame.push(std::move(lasti));
    frame.push(tracer.errors.takeRaised());
    frame.index = frame.code->indexAt(handler->target);
    return Flow::kOk;
  }
  if (base > 0) {
    tracer.frames.leaveTo(base);
    return Flow::kRaise;
  }
  if (tracer.errors.raisedMismatch()) {
    tracer.errors.dropRaised();
    return tracer.breakWith(Reason::kArgumentsDoNotFit, tracer.errors.mismatchText());
  }
  std::string detail = describeError(tracer.errors.raised());
  tracer.errors.dropRaised();
  return tracer.breakWith(Reason::kRaises, detail);
}

namespace {

// An instruction of a trace in which there are texts that have not been made.
Flow runWithTexts(Tracer& tracer, SymbolicFrame& frame, const bytecode::Instr& instr,
                  handlers::Handler handler) {
  const TextOperands texts(tracer, instr);
  if (PyObject* read = texts.read()) return readText(tracer, read);
  const Flow flow = handler(tracer, frame, instr);
  PyObject* read = flow == Flow::kBreak ? nullptr : texts.taken(tracer);
  return read != nullptr ? readText(tracer, read) : flow;
}

}  // namespace

Flow runUntil(Tracer& tracer, size_t depth) {
  static const std::array<handlers::Handler, 256> table = makeTable();
  while (tracer.frames.size() > depth) {
    SymbolicFrame& frame = tracer.frames.innermost();
    if (Flow flow = beginInstruction(tracer, frame); flow != Flow::kOk) return flow;
    const bytecode::Instr& instr = frame.instr();
    handlers::Handler handler = table[instr.opcode];
    STATOR_CHECK(handler != nullptr, "no handler for opcode " + std::to_string(instr.opcode));
    Flow flow = Flow::kOk;
    try {
      if (frame.lazy_stack > 0) flow = readStack(tracer, frame, instr);
      if (flow == Flow::kOk)
        flow = tracer.texts.any() ? runWithTexts(tracer, frame, instr, handler)
                                  : handler(tracer, frame, instr);
    } catch (const Unsteady&) {
      tracer.ending.restartAt(tracer.frames.instruction(), Reason::kUnsteady);
      return tracer.breakWith(Reason::kUnsteady);
    } catch (const symbolic::Undecided& undecided) {
      // The handler may have been half way: the trace starts over, and ends before this instruction.
      tracer.ending.restartAt(tracer.frames.instruction(), Reason::kDataDependentBranch);
      return tracer.breakWith(Reason::kDataDependentBranch,
                              undecided.condition == nullptr
                                  ? "depends on a number that is known only when the graph runs"
                                  : "depends on a number that is known only when the graph runs: " +
                                        symbolic::text(undecided.condition));
    }
    if (flow == Flow::kRaise) flow = unwind(tracer, depth);
    if (flow == Flow::kBreak || flow == Flow::kRaise) return flow;
  }
  return Flow::kOk;
}

}  // namespace stator::interpret
