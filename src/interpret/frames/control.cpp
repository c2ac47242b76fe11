// Jumps, loops, calls, returns, exceptions, with, generators.
#include "base/fields.h"
#include "interpret/calls/calls.h"
#include "interpret/calls/instances.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/frames/generators.h"
#include "interpret/frames/handlers.h"
#include "interpret/frames/loop.h"
#include "interpret/library/containers.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/drops.h"
#include "interpret/objects/exceptions.h"
#include "interpret/objects/globals.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/next.h"
#include "interpret/objects/outside_iterators.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/subclass_checks.h"
#include "interpret/objects/truth.h"
#include "interpret/objects/updates.h"
#include "interpret/tensors/checks.h"
#include "python/objects.h"
#include "python/types.h"

#include <optional>

namespace stator::interpret::handlers {

Flow jump(Tracer&, SymbolicFrame& frame, const Instr& instr) {
  jumpTo(frame, instr.target);
  return Flow::kOk;
}

Flow jumpBackward(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  return jump(tracer, frame, instr);
}

namespace {

Flow popJump(Tracer&, SymbolicFrame& frame, const Instr& instr, bool taken) {
  frame.drop();
  if (taken)
    jumpTo(frame, instr.target);
  else
    advance(frame);
  return Flow::kOk;
}

Flow jumpOrPop(Tracer& tracer, SymbolicFrame& frame, const Instr& instr, bool wanted) {
  STATOR_VALUE(value, truth(tracer, frame.top()));
  if ((value.get() == Py_True) == wanted) {
    jumpTo(frame, instr.target);
  } else {
    frame.drop();
    advance(frame);
  }
  return Flow::kOk;
}

}  // namespace

Flow jumpIfFalseOrPop(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  return jumpOrPop(tracer, frame, instr, false);
}
Flow jumpIfTrueOrPop(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  return jumpOrPop(tracer, frame, instr, true);
}

Flow popJumpIfFalse(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  if (graph::isStandIn(frame.top())) {
    if (std::optional<bool> truth = checkedTruth(tracer, frame, instr, false))
      return popJump(tracer, frame, instr, !*truth);
  }
  STATOR_VALUE(value, truth(tracer, frame.top()));
  return popJump(tracer, frame, instr, value.get() == Py_False);
}

Flow popJumpIfTrue(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  if (graph::isStandIn(frame.top())) {
    if (std::optional<bool> truth = checkedTruth(tracer, frame, instr, true))
      return popJump(tracer, frame, instr, *truth);
  }
  STATOR_VALUE(value, truth(tracer, frame.top()));
  return popJump(tracer, frame, instr, value.get() == Py_True);
}

Flow popJumpIfNone(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  return popJump(tracer, frame, instr, frame.top() == Py_None);
}
Flow popJumpIfNotNone(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  return popJump(tracer, frame, instr, frame.top() != Py_None);
}

Flow getIter(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  return deliver(tracer, frame, runEntered(tracer, iterate(tracer, frame.top())), 1);
}

namespace {

// Whether the rest of a loop that has begun outside is unrolled. It is at first, unless it is long; where that did not
// serve for long (numbers of rounds to come, places at which the loop is left), its body is one entry, whatever is to
// come.
bool unrolls(Tracer& tracer, PyObject* iterator) {
  constexpr Py_ssize_t kLong = 128;
  values::Info* info = tracer.values.find(iterator);
  if (tracer.options.history == nullptr || info == nullptr || info->source == nullptr) return false;
  if (info->taken > 0) return true;
  if (stealRef(stator_iterator_ahead(iterator, kLong))) return false;
  const Source* first = tracer.world.child(SourceKind::kAhead, info->source, nullptr, -1);
  return tracer.options.history->takesOver(known::sourceKey(*first), tracer.options.repeats);
}

}  // namespace

Flow forIter(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  if (takerOf(tracer, frame.top()) == nullptr && stator_iterator_known(frame.top()) &&
      !unrolls(tracer, frame.top()))
    return tracer.breakWith(breaks::Reason::kUnsupportedIterator, Py_TYPE(frame.top())->tp_name);
  STATOR_VALUE(item, next(tracer, frame.top()));
  if (item) {
    frame.push(std::move(item));
    advance(frame);
    return Flow::kOk;
  }
  if (!isTraceIterator(frame.top()) && !stator_is_user_class(Py_TYPE(frame.top())) &&
      dropRunsUserCode(tracer, frame.top()))
    return tracer.breakWith(Reason::kUnsupportedObject, "drops an object with a finalizer");
  frame.drop();
  jumpTo(frame, instr.target);
  return Flow::kOk;
}

// KW_NAMES, PRECALL and CALL: one unit, carried out at its first instruction.
Flow callUnit(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  PyObject* keyword_names = nullptr;
  int index = frame.index;
  const Instr* at = &instr;
  if (at->opcode == KW_NAMES) {
    keyword_names = PyTuple_GET_ITEM(frame.code->code()->co_consts, at->oparg);
    at = &frame.code->instrs()[static_cast<size_t>(++index)];
  }
  while (at->opcode != CALL) at = &frame.code->instrs()[static_cast<size_t>(++index)];
  size_t given = static_cast<size_t>(at->oparg);
  size_t depth = frame.stack.size();
  // Below the arguments: (function, self), or (NULL, callable) in the version's order.
  bool method = static_cast<bool>(frame.stack[depth - given - (kNullBehindCallable ? 1 : 2)]);
  PyObject* callable = frame.stack[depth - given - (method || kNullBehindCallable ? 2 : 1)].get();
  Args args;
  args.values.reserve(given + 1);
  for (size_t i = depth - given - (method ? 1 : 0); i < depth; ++i)
    args.values.push_back(frame.stack[i].get());
  size_t named =
      keyword_names != nullptr ? static_cast<size_t>(PyTuple_GET_SIZE(keyword_names)) : 0;
  args.positional = args.values.size() - named;
  args.names = keyword_names;
  // Entered, the caller stands at the first instruction of the unit with the operands popped.
  Out out = call(tracer, callable, args);
  if (out.flow() == Flow::kEntered) {
    frame.drop(given + 2);
    return Flow::kEntered;
  }
  if (!out.ok()) return out.flow();
  frame.drop(given + 2);
  frame.push(out.take());
  frame.index = index + 1;
  return Flow::kOk;
}

Flow callFunctionEx(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  bool has_keywords = (instr.oparg & 1) != 0;
  size_t operands = has_keywords ? 4 : 3;
  PyObject* keywords = has_keywords ? frame.top() : nullptr;
  PyObject* positional = frame.top(has_keywords ? 1 : 0);
  PyObject* callable = frame.top((has_keywords ? 2 : 1) + (kNullBehindCallable ? 1 : 0));
  if (!graph::isStandIn(positional) && !isTraceIterator(positional) &&
      Py_TYPE(positional)->tp_iter == nullptr && PySequence_Check(positional) == 0)
    return tracer.breakWith(Reason::kRaises, "* of something that is not iterable");
  STATOR_VALUE(items, sizedListOf(tracer, positional));
  Args args;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i)
    args.values.push_back(PyList_GET_ITEM(items.get(), i));
  args.positional = args.values.size();
  Ref<> names, named;
  if (keywords != nullptr) {
    Ref<> as_dict;
    if (!iteratesAsDict(tracer, keywords)) {
      if (graph::isStandIn(keywords) || isTraceIterator(keywords))
        return tracer.breakWith(Reason::kRaises, "** of something that is no mapping");
      as_dict = stealRef(PyDict_New());
      Args mapping;
      mapping.values = {keywords};
      mapping.positional = 1;
      STATOR_FLOW(dictUpdate(tracer, as_dict.get(), mapping, true));
      keywords = as_dict.get();
      tracer.world.keep(as_dict);
    }
    STATOR_VALUE(contents, contents(tracer, keywords));
    named = contents;
    Ref<> list = stealRef(PyDict_Keys(named.get()));
    names = stealRef(PyList_AsTuple(list.get()));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i) {
      if (!PyUnicode_CheckExact(PyTuple_GET_ITEM(names.get(), i)))
        return tracer.breakWith(Reason::kRaises, "keywords that are no strings");
      args.values.push_back(PyDict_GetItem(named.get(), PyTuple_GET_ITEM(names.get(), i)));
    }
    if (PyTuple_GET_SIZE(names.get()) > 0) args.names = names.get();
  }
  Ref<> keep_callable = newRef(callable);
  Out out = call(tracer, callable, args);
  // A callee entered with Args that point into `items` has bound its own references by now.
  return deliver(tracer, frame, std::move(out), operands);
}

Flow makeFunction(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  size_t n = 1;
  PyObject* code = frame.top();
  Ref<> function = stealRef(PyFunction_New(code, globalsOf(tracer, frame)));
  if (!function) return tracer.raiseCurrentError();
  auto* raw = reinterpret_cast<PyFunctionObject*>(function.get());
  // After a break the parts lie on the stack as values from outside: the cells and defaults in them get their sources
  // here.
  const std::pair<int, PyObject**> parts[] = {{8, &raw->func_closure},
                                              {4, &raw->func_annotations},
                                              {2, &raw->func_kwdefaults},
                                              {1, &raw->func_defaults}};
  for (const auto& [flag, place] : parts) {
    if ((instr.oparg & flag) == 0) continue;
    STATOR_VALUE(part, contents(tracer, frame.top(n++)));
    setField(*place, std::move(part));
  }
  return deliver(tracer, frame, tracer.made(function), n);
}

Flow returnValue(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  STATOR_FLOW(stayIfHeld(tracer));
  tracer.frames.setReturned(frame.pop());
  return leaveFrame(tracer);
}

Flow returnGenerator(Tracer&, SymbolicFrame& frame, const Instr&) {
  // Reached when a fresh generator is resumed for the first time: what POP_TOP behind it takes away.
  frame.push(newRef(Py_None));
  advance(frame);
  return Flow::kOk;
}

Flow yieldValue(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  if (frame.generator_object == nullptr)
    return tracer.breakWith(Reason::kUnsupportedGenerator, "yields");
  tracer.frames.setReturned(frame.pop(), true);
  advance(frame);
  PyObject* generator = frame.generator_object;
  asTraceIterator(generator)->frame = tracer.frames.leave().release();
  return Flow::kOk;
}

Flow send(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  PyObject* value = frame.top();
  STATOR_VALUE(taken, takenOver(tracer, frame.top(1)));
  PyObject* receiver = taken ? taken.get() : frame.top(1);
  Ref<> item;
  if (isTraceIterator(receiver)) {
    TraceIterator* iterator = asTraceIterator(receiver);
    if (iterator->kind == IteratorKind::kGenerator) {
      STATOR_VALUE(sent, runGenerator(tracer, receiver, newRef(value)));
      item = std::move(sent);
    } else if (value == Py_None) {
      STATOR_VALUE(got, next(tracer, receiver));
      item = std::move(got);
    } else {
      return tracer.breakWith(Reason::kRaises, "sends to an iterator that takes nothing");
    }
    Ref<> result = newRef(Py_None);
    if (!item && iterator->kind == IteratorKind::kGenerator && !iterator->sources->empty())
      result = (*iterator->sources)[0];
    if (item) {
      frame.drop();
      frame.push(item);
      advance(frame);
    } else {
      frame.drop(2);
      frame.push(result);
      jumpTo(frame, instr.target);
    }
    return Flow::kOk;
  }
  return tracer.breakWith(Reason::kUnsupportedIterator, "yield from an iterator from outside");
}

Flow getYieldFromIter(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  return deliver(tracer, frame, runEntered(tracer, iterate(tracer, frame.top())), 1);
}

Flow asyncGenWrap(Tracer& tracer, SymbolicFrame&, const Instr&) {
  return tracer.breakWith(Reason::kUnsupportedGenerator, "an async generator");
}
Flow getAwaitable(Tracer& tracer, SymbolicFrame&, const Instr&) {
  return tracer.breakWith(Reason::kUnsupportedGenerator, "await");
}
Flow getAiter(Tracer& tracer, SymbolicFrame&, const Instr&) {
  return tracer.breakWith(Reason::kUnsupportedGenerator, "async for");
}
Flow getAnext(Tracer& tracer, SymbolicFrame&, const Instr&) {
  return tracer.breakWith(Reason::kUnsupportedGenerator, "async for");
}
Flow beforeAsyncWith(Tracer& tracer, SymbolicFrame&, const Instr&) {
  return tracer.breakWith(Reason::kUnsupportedGenerator, "async with");
}
Flow endAsyncFor(Tracer& tracer, SymbolicFrame&, const Instr&) {
  return tracer.breakWith(Reason::kUnsupportedGenerator, "async for");
}

// ---- exceptions

namespace {

// Raising again adds nothing to the traceback here, but each frame that the exception leaves does: for one from outside
// that would be an effect, so it has to be caught in this frame.
Flow raiseAgain(Tracer& tracer, SymbolicFrame& frame, const Instr& instr, PyObject* exception) {
  if (!tracer.isMade(exception) && !frame.code->findHandler(instr.opcode_offset)) {
    return tracer.breakWith(Reason::kRaises, "re-raises an exception from outside");
  }
  tracer.errors.setRaised(newRef(exception));
  return Flow::kRaise;
}

}  // namespace

Flow raiseVarargs(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  if (instr.oparg == 0) {
    STATOR_VALUE(again, tracer.errors.topmost(tracer));
    if (!again) return tracer.breakWith(Reason::kRaises, "raise without an exception");
    return raiseAgain(tracer, frame, instr, again.get());
  }
  PyObject* cause = instr.oparg == 2 ? frame.top() : nullptr;
  PyObject* exception = frame.top(instr.oparg == 2 ? 1 : 0);
  if (!tracer.isMade(exception) && !PyExceptionClass_Check(exception))
    return tracer.breakWith(Reason::kRaises, "raises an exception from outside");
  Ref<> instance = newRef(exception);
  if (PyExceptionClass_Check(exception)) {
    STATOR_VALUE(made, callNested(tracer, exception, {}));
    instance = std::move(made);
  }
  if (graph::isStandIn(instance.get()) || !PyExceptionInstance_Check(instance.get()))
    return tracer.breakWith(Reason::kRaises, "raises what is no exception");
  if (cause != nullptr) {
    Ref<> fixed = newRef(cause);
    if (PyExceptionClass_Check(cause)) {
      STATOR_VALUE(made, callNested(tracer, cause, {}));
      fixed = std::move(made);
    }
    if (fixed.get() != Py_None &&
        (graph::isStandIn(fixed.get()) || !PyExceptionInstance_Check(fixed.get()))) {
      return tracer.breakWith(Reason::kRaises, "a cause that is no exception");
    }
    PyException_SetCause(instance.get(), fixed.get() == Py_None ? nullptr : Py_NewRef(fixed.get()));
  }
  return tracer.raise(instance);
}

Flow reraise(Tracer& tracer, SymbolicFrame& frame, const Instr& instr) {
  return raiseAgain(tracer, frame, instr, frame.top());
}

Flow pushExcInfo(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  Ref<> exception = frame.pop();
  STATOR_VALUE(previous, tracer.errors.handled(tracer));
  frame.push(previous ? previous : newRef(Py_None));
  frame.push(exception);
  tracer.errors.setHandled(std::move(exception));
  advance(frame);
  return Flow::kOk;
}

Flow popExcept(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  PyObject* ends =
      tracer.errors.handledTouched() ? tracer.errors.handledNow() : tracer.world.roots().handled;
  if (dropRunsUserCode(tracer, ends))
    return tracer.breakWith(Reason::kUnsupportedObject, "drops an object with a finalizer");
  Ref<> previous = frame.pop();
  tracer.errors.setHandled(previous.get() == Py_None ? Ref<>() : previous);
  advance(frame);
  return Flow::kOk;
}

Flow checkExcMatch(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  PyObject* classes = frame.top();
  PyObject* exception = frame.top(1);
  auto is_exception_class = [](PyObject* c) { return PyExceptionClass_Check(c); };
  if (PyTuple_Check(classes)) {
    STATOR_VALUE(items, contents(tracer, classes));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
      if (!is_exception_class(PyTuple_GET_ITEM(items.get(), i)))
        return tracer.breakWith(Reason::kRaises, "except with what is no exception class");
    }
  } else if (!is_exception_class(classes)) {
    return tracer.breakWith(Reason::kRaises, "except with what is no exception class");
  }
  STATOR_VALUE(matches,
               isSubclass(tracer, reinterpret_cast<PyObject*>(Py_TYPE(exception)), classes));
  frame.drop();
  frame.push(matches);
  advance(frame);
  return Flow::kOk;
}

Flow checkEgMatch(Tracer& tracer, SymbolicFrame&, const Instr&) {
  return tracer.breakWith(Reason::kUnsupportedOpcode, "except*");
}
Flow prepReraiseStar(Tracer& tracer, SymbolicFrame&, const Instr&) {
  return tracer.breakWith(Reason::kUnsupportedOpcode, "except*");
}

Flow beforeWith(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  PyObject* manager = frame.top();
  if (graph::isStandIn(manager) || isTraceIterator(manager))
    return tracer.breakWith(Reason::kRaises, "with over what is no context manager");
  STATOR_VALUE(enter, runEntered(tracer, special(tracer, manager, "__enter__")));
  STATOR_VALUE(exit, runEntered(tracer, special(tracer, manager, "__exit__")));
  if (!enter || !exit)
    return tracer.breakWith(Reason::kRaises, "with over what is no context manager");
  auto python = [](PyObject* bound) {
    return PyMethod_Check(bound) && (PyFunction_Check(PyMethod_GET_FUNCTION(bound)) ||
                                     findCall(PyMethod_GET_FUNCTION(bound)) != nullptr);
  };
  if (!python(enter.get()) || !python(exit.get())) {
    return tracer.breakWith(Reason::kUnsupportedContext, Py_TYPE(manager)->tp_name);
  }
  tracer.world.keep(enter);
  Out out = call(tracer, enter.get(), Args{});
  if (out.flow() == Flow::kEntered) {
    frame.drop();
    frame.push(exit);
    return Flow::kEntered;
  }
  if (!out.ok()) return out.flow();
  frame.drop();
  frame.push(exit);
  frame.push(out.take());
  advance(frame);
  return Flow::kOk;
}

Flow withExceptStart(Tracer& tracer, SymbolicFrame& frame, const Instr&) {
  // Stack: exit function, lasti, previous exc_info, exception.
  PyObject* exception = frame.top();
  PyObject* exit = frame.top(3);
  STATOR_VALUE(traceback, tracebackOf(tracer, exception));
  Args args;
  args.values = {reinterpret_cast<PyObject*>(Py_TYPE(exception)), exception, traceback.get()};
  args.positional = 3;
  return deliver(tracer, frame, call(tracer, exit, args), 0);
}

}  // namespace stator::interpret::handlers
