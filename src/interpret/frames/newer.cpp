// Instructions that CPython 3.12 and 3.13 have brought.
#include "base/fields.h"
#include "interpret/calls/calls.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/frames/handlers.h"
#include "interpret/frames/late_text.h"
#include "interpret/frames/loop.h"
#include "interpret/library/type_parameters.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/drops.h"
#include "interpret/objects/items.h"
#include "interpret/objects/lookups.h"
#include "interpret/objects/operators.h"
#include "interpret/objects/scalars.h"
#include "interpret/objects/truth.h"
#include "interpret/tensors/checks.h"
#include "python/frame.h"
#include "python/instructions.h"
#include "python/type_parameters.h"

#include <optional>

namespace stator::interpret::handlers {

namespace {

PyObject* nameAt(SymbolicFrame& frame, int index) {
  return PyTuple_GET_ITEM(frame.code->code()->co_names, index);
}

// The same instruction with another argument, for handlers that carry out one part of it.
Instr with(const Instr& instr, int oparg) {
  Instr part = instr;
  part.oparg = oparg;
  return part;
}

// What a store into the slot drops.
PyObject* slotNow(Tracer& tracer, SymbolicFrame& frame, size_t slot) {
  return !frame.untouched.empty() && frame.untouched[slot] ? tracer.world.roots().slots[slot]
                                                           : frame.slots[slot].get();
}

}  // namespace

// ---- locals

Flow loadFastAndClear(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  const auto slot = static_cast<size_t>(instr.oparg);
  STATOR_VALUE(value, readSlot(tracer, frame, slot));
  frame.slots[slot].reset();
  if (!frame.untouched.empty()) frame.untouched[slot] = false;
  frame.push(std::move(value));
  advance(frame);
  return Flow::kOk;
}

Flow loadFastLoadFast(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  // Looks at both before it moves the stack.
  STATOR_VALUE(first, readSlot(tracer, frame, static_cast<size_t>(instr.oparg >> 4)));
  STATOR_VALUE(second, readSlot(tracer, frame, static_cast<size_t>(instr.oparg & 15)));
  if (!first || !second) return tracer.breakWith(Reason::kRaises, "a variable that is not bound");
  frame.push(std::move(first));
  frame.push(std::move(second));
  advance(frame);
  return Flow::kOk;
}

Flow storeFastLoadFast(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  // What is loaded is read first, unless it is what is stored.
  const int stored = instr.oparg >> 4;
  const int loaded = instr.oparg & 15;
  Ref<> value = newRef(frame.top());
  if (loaded != stored) {
    STATOR_VALUE(read, readSlot(tracer, frame, static_cast<size_t>(loaded)));
    if (!read) return tracer.breakWith(Reason::kRaises, "a variable that is not bound");
    value = std::move(read);
  }
  STATOR_FLOW(storeFast(tracer, frame, with(instr, stored)));
  frame.push(std::move(value));
  return Flow::kOk;
}

Flow storeFastStoreFast(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  // The second one must not break when the first is done.
  if (dropRunsUserCode(tracer, slotNow(tracer, frame, static_cast<size_t>(instr.oparg & 15))))
    return tracer.breakWith(Reason::kUnsupportedObject, "drops an object with a finalizer");
  const int index = frame.index;
  STATOR_FLOW(storeFast(tracer, frame, with(instr, instr.oparg >> 4)));
  frame.index = index;
  return storeFast(tracer, frame, with(instr, instr.oparg & 15));
}

Flow loadLocals(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  if (!frame.contents) return tracer.breakWith(Reason::kUnsupportedOpcode, "a class body");
  frame.push(frame.contents);
  advance(frame);
  return Flow::kOk;
}

Flow loadFromDictOrDeref(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  if (!PyDict_Check(frame.top()))
    return tracer.breakWith(Reason::kUnsupportedOpcode, "a class body");
  PyObject* name = PyTuple_GET_ITEM(stator_code_slot_names(frame.code->code()), instr.oparg);
  STATOR_VALUE(own, dictGet(tracer, frame.top(), name));
  if (!own) {
    STATOR_VALUE(cell, readSlot(tracer, frame, static_cast<size_t>(instr.oparg)));
    if (!cell || !PyCell_Check(cell.get()))
      return tracer.breakWith(Reason::kRaises, "a variable that is not bound");
    STATOR_VALUE(value, cellContents(tracer, cell.get()));
    if (!value) return tracer.breakWith(Reason::kRaises, "a variable that is not bound");
    own = std::move(value);
  }
  return deliver(tracer, frame, std::move(own), 1);
}

Flow loadFromDictOrGlobals(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  if (!PyDict_Check(frame.top()))
    return tracer.breakWith(Reason::kUnsupportedOpcode, "a class body");
  STATOR_VALUE(own, dictGet(tracer, frame.top(), nameAt(frame, instr.oparg)));
  if (own) return deliver(tracer, frame, std::move(own), 1);
  return deliver(tracer, frame, loadGlobal(tracer, frame, nameAt(frame, instr.oparg)), 1);
}

// ---- operators

namespace {

bool isJumpByTruth(const Instr& instr) {
  return instr.opcode == POP_JUMP_FORWARD_IF_TRUE || instr.opcode == POP_JUMP_FORWARD_IF_FALSE;
}

bool jumpsNext(SymbolicFrame& frame) {
  const auto next = static_cast<size_t>(frame.index) + 1;
  return next < frame.code->instrs().size() && isJumpByTruth(frame.code->instrs()[next]);
}

// Whether a value that has just been computed decides the jump that follows, for tensors: see tensors/checks.cpp. The
// truth goes on the stack.
std::optional<bool> checkedAhead(Tracer& tracer, SymbolicFrame& frame) {
  if (!jumpsNext(frame)) return std::nullopt;
  frame.index++;  // the check looks at both ways from the jump
  const Instr& jump = frame.code->instrs()[static_cast<size_t>(frame.index)];
  std::optional<bool> truth =
      checkedTruth(tracer, frame, jump, jump.opcode == POP_JUMP_FORWARD_IF_TRUE);
  frame.index--;
  return truth;
}

}  // namespace

Flow toBool(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  Ref<> answer;
  if (graph::isStandIn(frame.top())) {
    if (std::optional<bool> checked = checkedAhead(tracer, frame))
      answer = newRef(*checked ? Py_True : Py_False);
  }
  if (!answer) {
    STATOR_VALUE(value, truth(tracer, frame.top()));
    answer = std::move(value);
  }
  frame.drop();
  frame.push(std::move(answer));
  advance(frame);
  return Flow::kOk;
}

Flow compareOpToBool(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  Out out = compare(tracer, instr.oparg, frame.top(1), frame.top());
  if (out.flow() == Flow::kEntered) {
    frame.drop(2);
    tracer.frames.innermost().then = Continuation::kPushTruth;
    return Flow::kEntered;
  }
  if (!out.ok()) return out.flow();
  Ref<> result = out.take();
  // The jump looks at a tensor itself, so that the graph keeps the comparison if it breaks there. The driver's jump
  // takes any object.
  const bool left_to_jump = graph::isStandIn(result.get()) && jumpsNext(frame);
  if (result.get() != Py_True && result.get() != Py_False && !left_to_jump) {
    STATOR_VALUE(answer, truth(tracer, result.get()));
    result = std::move(answer);
  }
  return deliver(tracer, frame, std::move(result), 2);
}

Flow binarySlice(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  Ref<> slice = stealRef(PySlice_New(frame.top(1), frame.top(), nullptr));
  if (!slice) return tracer.raiseCurrentError();
  tracer.world.keep(slice);
  return deliver(tracer, frame, getItem(tracer, frame.top(2), slice.get()), 3);
}

Flow storeSlice(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  Ref<> slice = stealRef(PySlice_New(frame.top(1), frame.top(), nullptr));
  if (!slice) return tracer.raiseCurrentError();
  tracer.world.keep(slice);
  Flow flow = setItem(tracer, frame.top(2), slice.get(), frame.top(3));
  if (flow == Flow::kEntered) {
    frame.drop(4);
    tracer.frames.innermost().then = Continuation::kDiscard;
    return flow;
  }
  if (flow != Flow::kOk) return flow;
  frame.drop(4);
  advance(frame);
  return Flow::kOk;
}

// super(class, self).name, without the object in between where the program has not asked for more.
Flow loadSuperAttr(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  Args args;
  if ((instr.oparg & 2) != 0) args.values = {frame.top(1), frame.top()};
  args.positional = args.values.size();
  STATOR_VALUE(made, callNested(tracer, frame.top(2), args));
  tracer.world.keep(made);
  STATOR_VALUE(value,
               runEntered(tracer, getAttr(tracer, made.get(), nameAt(frame, instr.oparg >> 2))));
  frame.drop(3);
  if ((instr.oparg & 1) != 0)
    pushCallable(frame, std::move(value));
  else
    frame.push(std::move(value));
  advance(frame);
  return Flow::kOk;
}

Flow convertValue(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  static PyObject* const functions[] = {nullptr, PyDict_GetItemString(PyEval_GetBuiltins(), "str"),
                                        PyDict_GetItemString(PyEval_GetBuiltins(), "repr"),
                                        PyDict_GetItemString(PyEval_GetBuiltins(), "ascii")};
  if (graph::isStandIn(frame.top())) {
    const Instr& next = frame.code->instrs()[static_cast<size_t>(frame.index) + 1];
    if (next.opcode != FORMAT_VALUE || (next.oparg & 4) != 0)
      return tracer.breakWith(Reason::kDataDependentRead, "formats a tensor");
    // One step with the instruction behind it, which makes the text.
    STATOR_FLOW(deliver(tracer, frame, textOfTensor(tracer, frame, instr.oparg & 3, nullptr), 1));
    advance(frame);
    return Flow::kOk;
  }
  Args args;
  args.values = {frame.top()};
  args.positional = 1;
  return deliver(tracer, frame, runEntered(tracer, call(tracer, functions[instr.oparg & 3], args)),
                 1);
}

// ---- calls and functions

Flow callKw(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  const auto given = static_cast<size_t>(instr.oparg);
  const size_t depth = frame.stack.size() - 1;
  PyObject* names = frame.top();
  const bool method = static_cast<bool>(frame.stack[depth - given - 1]);
  PyObject* callable = frame.stack[depth - given - 2].get();
  Args args;
  for (size_t i = depth - given - (method ? 1 : 0); i < depth; ++i)
    args.values.push_back(frame.stack[i].get());
  args.positional = args.values.size() - static_cast<size_t>(PyTuple_GET_SIZE(names));
  args.names = names;
  tracer.world.keep(newRef(names));
  return deliver(tracer, frame, call(tracer, callable, args), given + 3);
}

Flow setFunctionAttribute(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  auto* function = reinterpret_cast<PyFunctionObject*>(frame.top());
  STATOR_VALUE(part, contents(tracer, frame.top(1)));
  PyObject** place = instr.oparg == 8   ? &function->func_closure
                     : instr.oparg == 4 ? &function->func_annotations
                     : instr.oparg == 2 ? &function->func_kwdefaults
                                        : &function->func_defaults;
  if (!tracer.isMade(frame.top()))
    return tracer.breakWith(Reason::kUnsupportedOpcode, "a function that is half made");
  setField(*place, std::move(part));
  Ref<> made = frame.pop();
  frame.drop();
  frame.push(std::move(made));
  advance(frame);
  return Flow::kOk;
}

Flow callIntrinsic1(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  if (instr.oparg == kIntrinsicStopIterationError) {
    PyObject* exception = frame.top();
    if (!PyErr_GivenExceptionMatches(exception, PyExc_StopIteration)) {
      advance(frame);
      return Flow::kOk;
    }
    Ref<> error =
        stealRef(PyObject_CallFunction(PyExc_RuntimeError, "s", "generator raised StopIteration"));
    if (!error) return tracer.raiseCurrentError();
    tracer.values.addMade(error.get(), tracer.frames.instruction()).was_raised = true;
    PyException_SetCause(error.get(), Py_NewRef(exception));
    PyException_SetContext(error.get(), Py_NewRef(exception));
    return deliver(tracer, frame, std::move(error), 1);
  }
  if (instr.oparg >= kIntrinsicTypeVar && instr.oparg <= kIntrinsicTypeVarTuple)
    return deliver(tracer, frame, makeTypeParameter(tracer, instr.oparg, frame.top()), 1);
  return tracer.breakWith(Reason::kUnsupportedOpcode,
                          instr.oparg == kIntrinsicPrint        ? "an interactive expression"
                          : instr.oparg == kIntrinsicImportStar ? "import *"
                                                                : "type parameters");
}

Flow callIntrinsic2(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  if (instr.oparg == kIntrinsicSetTypeParams && tracer.isMade(frame.top(1))) {
    static PyObject* const name = PyUnicode_InternFromString("__type_params__");
    STATOR_VALUE(parameters, contents(tracer, frame.top()));
    if (PyObject_SetAttr(frame.top(1), name, parameters.get()) != 0)
      return tracer.raiseCurrentError();
    frame.drop();
    advance(frame);
    return Flow::kOk;
  }
  return tracer.breakWith(Reason::kUnsupportedOpcode, "type parameters");
}

// ---- control

Flow returnConst(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  STATOR_FLOW(stayIfHeld(tracer));
  PyObject* value = PyTuple_GET_ITEM(frame.code->code()->co_consts, instr.oparg);
  noteCodeConstant(tracer, value);
  tracer.frames.setReturned(newRef(value));
  return leaveFrame(tracer);
}

Flow endFor(Tracer&, SymbolicFrame& frame, const Instr&) {
  frame.drop(2);
  advance(frame);
  return Flow::kOk;
}

Flow endSend(Tracer&, SymbolicFrame& frame, const Instr&) {
  Ref<> value = frame.pop();
  frame.drop();
  frame.push(std::move(value));
  advance(frame);
  return Flow::kOk;
}

Flow cleanupThrow(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  if (!PyErr_GivenExceptionMatches(frame.top(), PyExc_StopIteration))
    return reraise(tracer, frame, instr);
  Ref<> value = stealRef(PyObject_GetAttrString(frame.top(), "value"));
  if (!value) return tracer.raiseCurrentError();
  frame.drop(3);
  frame.push(newRef(Py_None));
  frame.push(std::move(value));
  advance(frame);
  return Flow::kOk;
}

}  // namespace stator::interpret::handlers
