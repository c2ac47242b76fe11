// Generators made in the trace: suspended symbolic frames, resumed with a value or an exception, closed.
#include "base/check.h"
#include "bytecode/opcodes.h"
#include "interpret/trace_iterator.h"
#include "interpret/tracer.h"

namespace stator::interpret {

namespace {

// The iterator that a suspended generator delegates to with `yield from`, or null. CPython 3.11 tells by the RESUME behind the yield: 2 is
// `yield from`, 3 is `await`; the iterator then lies on top of the stack.
PyObject* delegate(const TraceIterator* generator) {
  const SymbolicFrame* frame = generator->frame;
  if (frame == nullptr || generator->index == 0 || frame->instr().opcode != RESUME ||
      frame->instr().oparg < 2)
    return nullptr;
  return frame->top();
}

Ref<> stopValue(PyObject* exception) {
  Ref<> value = stealRef(PyObject_GetAttrString(exception, "value"));
  if (!value) PyErr_Clear();
  return value ? value : newRef(Py_None);
}

}  // namespace

Out Tracer::runGenerator(PyObject* object, Ref<> sent) {
  return resumeGenerator(object, std::move(sent), Ref<>());
}

Out Tracer::resumeGenerator(PyObject* object, Ref<> sent, Ref<> exception) {
  TraceIterator* generator = asTraceIterator(object);
  if (generator->running) return raiseNew(PyExc_ValueError, "generator already executing");
  if (generator->exhausted) {
    if (exception) return raise(std::move(exception));
    generator->sources->clear();  // what it returned was told once
    return Ref<>();
  }
  Ref<> keep = newRef(object);
  generator->running = true;
  nested_ran = true;
  std::unique_ptr<SymbolicFrame> frame(generator->frame);
  generator->frame = nullptr;
  frame->nested = true;
  frame->generator_object = object;
  frame->call_site = location();
  // A fresh generator runs its prologue first (index 0); RETURN_GENERATOR's handler pushes what POP_TOP takes away.
  if (generator->index != 0 && !exception) frame->push(std::move(sent));
  // An exception is raised by the instruction at which the generator stands: the yield, which a suspended frame has already left.
  if (generator->index != 0 && exception) frame->index--;
  generator->index = 1;
  frames.push_back(std::move(frame));
  size_t base = frames.size() - 1;
  outer_handled.emplace_back(handled, handled_touched);
  handled = Ref<>::create(generator->handled);
  handled_touched = true;
  yielded = false;
  Flow flow = Flow::kOk;
  if (exception) {
    // CPython chains it to what the generator itself is busy with, not to what its caller is.
    values.addMade(exception, instruction_start).was_raised = true;
    if (handled && handled.get() != exception.get())
      PyException_SetContext(exception.get(), Py_NewRef(handled.get()));
    raised = std::move(exception);
    flow = unwind(base);
  }
  nested_depth++;
  if (flow == Flow::kOk) flow = runUntil(base);
  nested_depth--;
  generator->running = false;
  Py_XSETREF(generator->handled, yielded ? Py_XNewRef(handled.get()) : nullptr);
  handled = outer_handled.back().first;
  handled_touched = outer_handled.back().second;
  outer_handled.pop_back();
  if (flow == Flow::kBreak) {
    while (frames.size() > base) frames.pop_back();
    return Flow::kBreak;
  }
  if (flow == Flow::kRaise) {
    generator->exhausted = true;
    if (!PyErr_GivenExceptionMatches(raised.get(), PyExc_StopIteration)) return flow;
    Ref<> stop = std::move(raised);
    Ref<> error =
        stealRef(PyObject_CallFunction(PyExc_RuntimeError, "s", "generator raised StopIteration"));
    if (!error) throw PythonError();
    values.addMade(error, instruction_start).was_raised = true;
    PyException_SetCause(error.get(), Py_NewRef(stop.get()));
    PyException_SetContext(error.get(), Py_NewRef(stop.get()));
    raised = std::move(error);
    return flow;
  }
  if (yielded) {
    yielded = false;
    return std::move(returned);
  }
  generator->exhausted = true;
  generator->sources->assign(1, returned);
  return Ref<>();
}

Out Tracer::throwIntoGenerator(PyObject* object, Ref<> exception) {
  TraceIterator* generator = asTraceIterator(object);
  if (generator->running) return raiseNew(PyExc_ValueError, "generator already executing");
  PyObject* inner = generator->exhausted ? nullptr : delegate(generator);
  if (inner == nullptr) return resumeGenerator(object, Ref<>(), std::move(exception));
  Ref<> keep = newRef(inner);
  bool generator_inside =
      isTraceIterator(inner) && asTraceIterator(inner)->kind == IteratorKind::kGenerator;
  if (PyErr_GivenExceptionMatches(exception.get(), PyExc_GeneratorExit)) {
    if (generator_inside) {
      Out closed = closeGenerator(inner);
      if (closed.flow() == Flow::kRaise) return resumeGenerator(object, Ref<>(), std::move(raised));
      if (!closed.ok()) return closed;
    } else if (!isTraceIterator(inner)) {
      return breakWith(Reason::kUnsupportedGenerator,
                       "closes a generator that delegates to an object of its own");
    }
    return resumeGenerator(object, Ref<>(), std::move(exception));
  }
  // Other iterators of ours stand for built-in ones, which have no throw().
  if (!generator_inside && isTraceIterator(inner))
    return resumeGenerator(object, Ref<>(), std::move(exception));
  if (!generator_inside)
    return breakWith(Reason::kUnsupportedGenerator,
                     "throws into a generator that delegates to an object of its own");
  nested_ran = true;
  generator->running = true;
  Out item = throwIntoGenerator(inner, std::move(exception));
  generator->running = false;
  if (item.flow() == Flow::kBreak) return item;
  if (item.ok() && item.get() != nullptr) return item;
  // The inner one is done: the outer one goes on behind its SEND, with the returned value, or with what was raised.
  SymbolicFrame& frame = *generator->frame;
  Ref<> result = newRef(Py_None);
  bool raises = !item.ok();
  if (raises && PyErr_GivenExceptionMatches(raised.get(), PyExc_StopIteration)) {
    result = stopValue(raised.get());
    raises = false;
    raised.reset();
  } else if (!raises && !asTraceIterator(inner)->sources->empty()) {
    result = (*asTraceIterator(inner)->sources)[0];
  }
  frame.drop();
  int send = frame.index;
  while (send >= 0 && frame.code->instrs()[static_cast<size_t>(send)].opcode != SEND) --send;
  STATOR_CHECK(send >= 0, "yield from without a SEND");
  if (raises) {
    // Raised by the yield, as CPython has it: resumeGenerator steps back to it.
    return resumeGenerator(object, Ref<>(), std::move(raised));
  }
  frame.index = frame.code->indexAt(frame.code->instrs()[static_cast<size_t>(send)].target);
  return resumeGenerator(object, std::move(result), Ref<>());
}

Out Tracer::closeGenerator(PyObject* object) {
  TraceIterator* generator = asTraceIterator(object);
  if (generator->running) return raiseNew(PyExc_ValueError, "generator already executing");
  if (generator->exhausted) return newRef(Py_None);
  nested_ran = true;
  if (generator->index == 0) {
    generator->exhausted = true;
    delete generator->frame;
    generator->frame = nullptr;
    return newRef(Py_None);
  }
  Ref<> exit = stealRef(PyObject_CallNoArgs(PyExc_GeneratorExit));
  if (!exit) throw PythonError();
  values.addMade(exit, instruction_start);
  Out item = throwIntoGenerator(object, exit);
  if (item.flow() == Flow::kRaise) {
    if (!PyErr_GivenExceptionMatches(raised.get(), PyExc_GeneratorExit) &&
        !PyErr_GivenExceptionMatches(raised.get(), PyExc_StopIteration)) {
      return Flow::kRaise;
    }
    raised.reset();
    return newRef(Py_None);
  }
  if (!item.ok()) return item;
  if (item.get() != nullptr) return raiseNew(PyExc_RuntimeError, "generator ignored GeneratorExit");
  return newRef(Py_None);
}

}  // namespace stator::interpret
