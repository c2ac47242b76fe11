// Operations that have an instruction of their own in 3.11 and share one since: CALL_INTRINSIC_1 and _2. Those that
// decoding gives their old names (python/instructions.h) are elsewhere.
#include "python/instructions.h"
#include "runtime/active.h"
#include "runtime/concrete.h"

namespace stator::runtime::concrete {
namespace {

Ref<> display(PyObject* value) {
  Ref<> hook = newRef(PySys_GetObject("displayhook"));
  if (!hook) {
    PyErr_SetString(PyExc_RuntimeError, "lost sys.displayhook");
    return nullptr;
  }
  return stealRef(PyObject_CallOneArg(hook.get(), value));
}

// What leaves a generator where a StopIteration would: the exception itself, or a RuntimeError about it.
Ref<> stopIterationError(const Machine& m, PyObject* exception) {
  const bool async_generator = m.code->co_flags & CO_ASYNC_GENERATOR;
  const char* text = nullptr;
  if (PyErr_GivenExceptionMatches(exception, PyExc_StopIteration)) {
    text = async_generator                   ? "async generator raised StopIteration"
           : m.code->co_flags & CO_COROUTINE ? "coroutine raised StopIteration"
                                             : "generator raised StopIteration";
  } else if (async_generator && PyErr_GivenExceptionMatches(exception, PyExc_StopAsyncIteration)) {
    text = "async generator raised StopAsyncIteration";
  }
  if (!text) return newRef(exception);
  Ref<> error = stealRef(PyObject_CallFunction(PyExc_RuntimeError, "s", text));
  if (!error) return nullptr;
  PyException_SetCause(error.get(), newRef(exception).release());
  PyException_SetContext(error.get(), newRef(exception).release());
  return error;
}

}  // namespace

Step printExpr(Machine& m, int) {
  Ref<> value = m.pop();
  return display(value.get()) ? Step::kNext : Step::kRaise;
}

Step callIntrinsic1(Machine& m, int oparg) {
  switch (oparg) {
    case kIntrinsicPrint: {
      Ref<> value = m.pop();
      return m.finish(display(value.get()));
    }
    case kIntrinsicImportStar: {
      const Step step = importStar(m, 0);
      if (step == Step::kNext) m.push(newRef(Py_None));
      return step;
    }
    case kIntrinsicStopIterationError: {
      Ref<> exception = m.pop();
      return m.finish(stopIterationError(m, exception.get()));
    }
    default: {
      Ref<> value = m.pop();
      HookDisabledScope native;
      return m.finish(stealRef(stator_intrinsic_1(oparg, value.get())));
    }
  }
}

Step callIntrinsic2(Machine& m, int oparg) {
  Ref<> second = m.pop();
  Ref<> first = m.pop();
  HookDisabledScope native;
  return m.finish(stealRef(stator_intrinsic_2(oparg, first.get(), second.get())));
}

}  // namespace stator::runtime::concrete
