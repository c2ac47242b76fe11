// The evaluator of PEP 523, on top of whatever is there: TorchDynamo's, a debugger's. Frames that are not ours go to
// that one. It may have put itself on top of ours as well, and hands down to ours what it does not want; then a frame
// that comes back is CPython's.
#define Py_BUILD_CORE 1
#include "python/evaluator.h"

#include "base/hot.h"

#include <internal/pycore_interp.h>
#include <internal/pycore_pystate.h>
#undef Py_BUILD_CORE

static StatorHook current_hook = NULL;
static _PyFrameEvalFunction below = NULL;  // another's; null: CPython's own
static _Thread_local StatorFrame* handed_down = NULL;
_Thread_local int stator_evaluator_is_off = 0;

static PyObject* evaluator(PyThreadState* tstate, struct _PyInterpreterFrame* frame,
                           int throwflag) {
  if (stator_evaluator_is_off) return stator_frame_eval_fresh(frame, throwflag);
  return current_hook(frame, throwflag);
}

static _PyFrameEvalFunction topmost(void) {
  return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
}

static void put(_PyFrameEvalFunction function) {
  _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), function);
}

void* stator_evaluator_install(StatorHook hook) {
  _PyFrameEvalFunction now = topmost();
  current_hook = hook;
  if (now == evaluator) return NULL;
  below = now != _PyEval_EvalFrameDefault ? now : NULL;
  put(evaluator);
  return (void*)below;
}

PyObject* stator_evaluator_pass(StatorFrame* frame, int throwflag) {
  if (below == NULL || handed_down == frame) return stator_frame_eval_fresh(frame, throwflag);
  StatorFrame* outer = handed_down;
  handed_down = frame;
  PyObject* result = below(_PyThreadState_UncheckedGet(), frame, throwflag);
  handed_down = outer;
  return result;
}

STATOR_HOT int stator_evaluator_on_top(void) {
  return _PyThreadState_UncheckedGet()->interp->eval_frame == evaluator;
}

STATOR_HOT int stator_evaluator_in_tool(void) {
  return _PyThreadState_UncheckedGet()->tracing != 0;
}

void stator_evaluator_remove(void) {
  if (topmost() == evaluator) put(below != NULL ? below : _PyEval_EvalFrameDefault);
}

void* stator_evaluator_force(StatorHook hook) {
  void* previous = (void*)topmost();
  current_hook = hook;
  put(evaluator);
  return previous;
}

void stator_evaluator_restore(void* previous) { put((_PyFrameEvalFunction)previous); }
