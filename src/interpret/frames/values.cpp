// Instructions for operators, attributes and subscripts.
#include "interpret/calls/calls.h"
#include "interpret/core/outside.h"
#include "interpret/core/symbols.h"
#include "interpret/frames/handlers.h"
#include "interpret/objects/attribute_writes.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/errors.h"
#include "interpret/objects/items.h"
#include "interpret/objects/membership.h"
#include "interpret/objects/operators.h"
#include "interpret/objects/truth.h"
#include "interpret/tensors/arrays.h"
#include "symbolic/sym_int.h"

namespace stator::interpret::handlers {

namespace {

PyObject* nameAt(SymbolicFrame& frame, int index) {
  return PyTuple_GET_ITEM(frame.code->code()->co_names, index);
}

// A store through user code: entered, it leaves nothing on the stack.
Flow finishStore(Tracer& tracer, SymbolicFrame& frame, Flow flow, size_t operands) {
  if (flow == Flow::kEntered) {
    frame.drop(operands);
    tracer.frames.innermost().then = Continuation::kDiscard;
    return flow;
  }
  if (flow != Flow::kOk) return flow;
  return done(frame, operands);
}

}  // namespace

Flow unaryPositive(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  return deliver(tracer, frame, unary(tracer, 0, frame.top()), 1);
}
Flow unaryNegative(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  return deliver(tracer, frame, unary(tracer, 1, frame.top()), 1);
}
Flow unaryInvert(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  return deliver(tracer, frame, unary(tracer, 2, frame.top()), 1);
}

Flow unaryNot(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  STATOR_VALUE(value, truth(tracer, frame.top()));
  frame.drop();
  frame.push(newRef(value.get() == Py_True ? Py_False : Py_True));
  advance(frame);
  return Flow::kOk;
}

Flow binaryOp(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  return deliver(tracer, frame, binary(tracer, instr.oparg, frame.top(1), frame.top()), 2);
}

Flow binarySubscr(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  return deliver(tracer, frame, getItem(tracer, frame.top(1), frame.top()), 2);
}

Flow storeSubscr(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  return finishStore(tracer, frame, setItem(tracer, frame.top(1), frame.top(), frame.top(2)), 3);
}

Flow deleteSubscr(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  return finishStore(tracer, frame, delItem(tracer, frame.top(1), frame.top()), 2);
}

Flow compareOp(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  if (forExport()) {
    if (Ref<> open = openCompare(tracer, instr.oparg, frame.top(1), frame.top()))
      return deliver(tracer, frame, open, 2);
  }
  return deliver(tracer, frame, compare(tracer, instr.oparg, frame.top(1), frame.top()), 2);
}

Flow isOp(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  STATOR_VALUE(value, same(tracer, frame.top(1), frame.top()));
  bool result = (value.get() == Py_True) != (instr.oparg != 0);
  frame.drop(2);
  frame.push(newRef(result ? Py_True : Py_False));
  advance(frame);
  return Flow::kOk;
}

Flow containsOp(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  STATOR_VALUE(value, contains(tracer, frame.top(), frame.top(1)));
  if (symbolic::isSymScalar(value.get())) {
    if (instr.oparg != 0) value = concrete(tracer, value.get());
    frame.drop(2);
    frame.push(std::move(value));
    advance(frame);
    return Flow::kOk;
  }
  bool result = (value.get() == Py_True) != (instr.oparg != 0);
  frame.drop(2);
  frame.push(newRef(result ? Py_True : Py_False));
  advance(frame);
  return Flow::kOk;
}

Flow getLen(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  return deliver(tracer, frame, runEntered(tracer, length(tracer, frame.top())), 0);
}

Flow loadAttr(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  return deliver(tracer, frame, getAttr(tracer, frame.top(), nameAt(frame, instr.oparg)), 1);
}

Flow loadMethod(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  // CPython leaves (function, self) for a method and (NULL, callable) for anything else; so do we, and a bound method
  // is never made.
  PyObject *owner = frame.top(), *name = nameAt(frame, instr.oparg);
  // An AttributeError of a property is not told what it is about here, unless the class has its own way with
  // attributes.
  const bool plain = typeOf(tracer, owner)->tp_getattro == PyObject_GenericGetAttr;
  STATOR_VALUE(value, runEntered(tracer, plain ? getAttrOrNull(tracer, owner, name)
                                               : getAttr(tracer, owner, name)));
  if (!value) return raiseAttributeError(tracer, owner, name);
  PyObject* object = frame.top();
  bool fresh = PyMethod_Check(value.get()) && tracer.isMade(value.get()) &&
               PyMethod_GET_SELF(value.get()) == object && !isProxied(tracer, object) &&
               // whose methods are polyfills: the bound one becomes the array's own
               !isTraceArray(object);
  Ref<> self = newRef(object);
  frame.drop();
  if (fresh) {
    frame.push(newRef(PyMethod_GET_FUNCTION(value.get())));
    frame.push(std::move(self));
  } else {
    pushCallable(frame, std::move(value));
  }
  advance(frame);
  return Flow::kOk;
}

Flow storeAttr(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  return finishStore(tracer, frame,
                     setAttr(tracer, frame.top(), nameAt(frame, instr.oparg), frame.top(1)), 2);
}

Flow deleteAttr(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  return finishStore(tracer, frame,
                     setAttr(tracer, frame.top(), nameAt(frame, instr.oparg), nullptr), 1);
}

}  // namespace stator::interpret::handlers
