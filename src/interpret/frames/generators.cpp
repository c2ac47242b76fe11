// Generators made in the trace: suspended symbolic frames, resumed with a value or an exception, closed.
#include "interpret/frames/generators.h"

#include "base/check.h"
#include "base/fields.h"
#include "bytecode/opcodes.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/frames/loop.h"
#include "python/generators.h"

namespace stator::interpret {

namespace {

// The iterator that a suspended generator delegates to with `yield from`, or null. CPython 3.11 tells by the RESUME
// behind the yield: 2 is `yield from`, 3 is `await`; the iterator then lies on top of the stack.
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

Out runGenerator(Tracer& tracer, PyObject* object, Ref<> sent) {
  return resumeGenerator(tracer, object, std::move(sent), Ref<>());
}

Out resumeGenerator(Tracer& tracer, PyObject* object, Ref<> sent, Ref<> exception) {
  TraceIterator* generator = asTraceIterator(object);
  if (generator->running) return tracer.raiseNew(PyExc_ValueError, "generator already executing");
  if (generator->exhausted) {
    if (exception) return tracer.raise(std::move(exception));
    generator->sources->clear();  // what it returned was told once
    return Ref<>();
  }
  Ref<> keep = newRef(object);
  generator->running = true;
  tracer.frames.commit();
  std::unique_ptr<SymbolicFrame> frame(generator->frame);
  generator->frame = nullptr;
  frame->nested = true;
  frame->generator_object = object;
  frame->call_site = tracer.location();
  // A fresh generator runs its prologue first (index 0); RETURN_GENERATOR's handler pushes what POP_TOP takes away.
  if (generator->index != 0 && !exception) frame->push(std::move(sent));
  // An exception is raised by the instruction at which the generator stands: the yield, which a suspended frame has
  // already left.
  if (generator->index != 0 && exception) frame->index--;
  generator->index = 1;
  tracer.frames.enter(std::move(frame));
  size_t base = tracer.frames.size() - 1;
  tracer.errors.enterGenerator(Ref<>::create(generator->handled));
  tracer.frames.forgetYield();
  Flow flow = Flow::kOk;
  if (exception) {
    // CPython chains it to what the generator itself is busy with, not to what its caller is.
    tracer.values.addMade(exception.get(), tracer.frames.instruction()).was_raised = true;
    PyObject* busy_with = tracer.errors.handledNow();
    if (busy_with != nullptr && busy_with != exception.get())
      PyException_SetContext(exception.get(), Py_NewRef(busy_with));
    tracer.errors.setRaised(std::move(exception));
    flow = unwind(tracer, base);
  }
  if (flow == Flow::kOk) {
    FrameStack::Nested nested(tracer.frames);
    flow = runUntil(tracer, base);
  }
  generator->running = false;
  Ref<> busy_with = tracer.errors.leaveGenerator();
  setField(generator->handled, tracer.frames.yielded() ? std::move(busy_with) : Ref<>());
  if (flow == Flow::kBreak) {
    tracer.frames.leaveTo(base);
    return Flow::kBreak;
  }
  if (flow == Flow::kRaise) {
    generator->exhausted = true;
    if (!tracer.errors.raisedIs(PyExc_StopIteration)) return flow;
    Ref<> stop = tracer.errors.takeRaised();
    Ref<> error =
        stealRef(PyObject_CallFunction(PyExc_RuntimeError, "s", "generator raised StopIteration"));
    if (!error) throw PythonError();
    tracer.values.addMade(error.get(), tracer.frames.instruction()).was_raised = true;
    PyException_SetCause(error.get(), Py_NewRef(stop.get()));
    PyException_SetContext(error.get(), Py_NewRef(stop.get()));
    tracer.errors.setRaised(std::move(error));
    return flow;
  }
  if (tracer.frames.yielded()) {
    tracer.frames.forgetYield();
    return tracer.frames.takeReturned();
  }
  generator->exhausted = true;
  generator->sources->assign(1, newRef(tracer.frames.returned()));
  return Ref<>();
}

Out throwIntoGenerator(Tracer& tracer, PyObject* object, Ref<> exception) {
  TraceIterator* generator = asTraceIterator(object);
  if (generator->running) return tracer.raiseNew(PyExc_ValueError, "generator already executing");
  PyObject* inner = generator->exhausted ? nullptr : delegate(generator);
  if (inner == nullptr) return resumeGenerator(tracer, object, Ref<>(), std::move(exception));
  Ref<> keep = newRef(inner);
  bool generator_inside =
      isTraceIterator(inner) && asTraceIterator(inner)->kind == IteratorKind::kGenerator;
  if (PyErr_GivenExceptionMatches(exception.get(), PyExc_GeneratorExit)) {
    if (generator_inside) {
      Out closed = closeGenerator(tracer, inner);
      if (closed.flow() == Flow::kRaise)
        return resumeGenerator(tracer, object, Ref<>(), tracer.errors.takeRaised());
      if (!closed.ok()) return closed;
    } else if (!isTraceIterator(inner)) {
      return tracer.breakWith(Reason::kUnsupportedGenerator,
                              "closes a generator that delegates to an object of its own");
    }
    return resumeGenerator(tracer, object, Ref<>(), std::move(exception));
  }
  // Other iterators of ours stand for built-in ones, which have no throw().
  if (!generator_inside && isTraceIterator(inner))
    return resumeGenerator(tracer, object, Ref<>(), std::move(exception));
  if (!generator_inside)
    return tracer.breakWith(Reason::kUnsupportedGenerator,
                            "throws into a generator that delegates to an object of its own");
  tracer.frames.commit();
  generator->running = true;
  Out item = throwIntoGenerator(tracer, inner, std::move(exception));
  generator->running = false;
  if (item.flow() == Flow::kBreak) return item;
  if (item.ok() && item.get() != nullptr) return item;
  // The inner one is done: the outer one goes on behind its SEND, with the returned value, or with what was raised.
  SymbolicFrame& frame = *generator->frame;
  Ref<> result = newRef(Py_None);
  bool raises = !item.ok();
  if (raises && tracer.errors.raisedIs(PyExc_StopIteration)) {
    result = stopValue(tracer.errors.raised());
    raises = false;
    tracer.errors.dropRaised();
  } else if (!raises && !asTraceIterator(inner)->sources->empty()) {
    result = (*asTraceIterator(inner)->sources)[0];
  }
  frame.drop();
  int send = frame.index;
  while (send >= 0 && frame.code->instrs()[static_cast<size_t>(send)].opcode != SEND) --send;
  STATOR_CHECK(send >= 0, "yield from without a SEND");
  if (raises) {
    // Raised by the yield, as CPython has it: resumeGenerator steps back to it.
    return resumeGenerator(tracer, object, Ref<>(), tracer.errors.takeRaised());
  }
  frame.index = frame.code->indexAt(frame.code->instrs()[static_cast<size_t>(send)].target);
  return resumeGenerator(tracer, object, std::move(result), Ref<>());
}

Out closeGenerator(Tracer& tracer, PyObject* object) {
  TraceIterator* generator = asTraceIterator(object);
  if (generator->running) return tracer.raiseNew(PyExc_ValueError, "generator already executing");
  if (generator->exhausted) return newRef(Py_None);
  tracer.frames.commit();
  if (generator->index == 0) {
    generator->exhausted = true;
    delete generator->frame;
    generator->frame = nullptr;
    return newRef(Py_None);
  }
  Ref<> exit = stealRef(PyObject_CallNoArgs(PyExc_GeneratorExit));
  if (!exit) throw PythonError();
  tracer.values.addMade(exit.get(), tracer.frames.instruction());
  Out item = throwIntoGenerator(tracer, object, exit);
  if (item.flow() == Flow::kRaise) {
    if (!tracer.errors.raisedIs(PyExc_GeneratorExit) &&
        !tracer.errors.raisedIs(PyExc_StopIteration)) {
      return Flow::kRaise;
    }
    tracer.errors.dropRaised();
    return newRef(Py_None);
  }
  if (!item.ok()) return item;
  if (item.get() != nullptr)
    return tracer.raiseNew(PyExc_RuntimeError, "generator ignored GeneratorExit");
  if (!kCloseGivesResult || generator->sources->empty()) return newRef(Py_None);
  Ref<> returned = generator->sources->front();
  generator->sources->clear();  // what it returned was told once
  return returned ? returned : newRef(Py_None);
}

}  // namespace stator::interpret
