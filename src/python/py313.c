// The frame interface for CPython 3.13. Only exported symbols of CPython are used; what is hidden there is done again
// here.
//
// Facts of 3.13 that this file relies on:
// - `instr_ptr` is the instruction under way, or the one to begin with. A suspended generator stands behind its
// YIELD_VALUE; an exception
//   that is thrown into it is looked up for the unit before that place.
// - The evaluator clears the frame and gives its memory back; of a generator's it also takes the exception state off
// the thread's list, when
//   it yields too.
// - sys.settrace and sys.setprofile are tools 7 and 6 of sys.monitoring, for all threads, beside the thread's own
// functions. Tools are asked
//   for by events of the interpreter, or of a code object. What changes there changes the `instrumentation_version`.
// - Calls in C are counted by themselves. CPython's own loop makes none for a call of a Python function, unless an
// evaluator is in place;
//   then it takes two for each. They are given back, so that programs may recurse as deep as without one.
// - Requests to look at signals, the collector and so on are bits of the thread's `eval_breaker`.
#define Py_BUILD_CORE 1
#include "base/hot.h"
#include "python/frame.h"

#include <internal/pycore_ceval.h>
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_genobject.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_intrinsics.h>
#include <internal/pycore_object.h>
#include <internal/pycore_pyerrors.h>
#include <internal/pycore_pystate.h>
#include <internal/pycore_runtime.h>
#undef Py_BUILD_CORE

#if PY_MINOR_VERSION != 13
#error "py313.c is for CPython 3.13"
#endif

#define UNIT ((int)sizeof(_Py_CODEUNIT))

static PyThreadState* thread(void) { return PyThreadState_GetUnchecked(); }

PyCodeObject* stator_frame_code(StatorFrame* frame) { return (PyCodeObject*)frame->f_executable; }

int stator_frame_throw_offset(StatorFrame* frame) { return stator_frame_offset(frame) - UNIT; }

void stator_frame_set_offset(StatorFrame* frame, int offset) {
  frame->instr_ptr = _PyCode_CODE(stator_frame_code(frame)) + offset / UNIT;
}

int stator_frame_slot_count(StatorFrame* frame) { return stator_frame_code(frame)->co_nlocalsplus; }
int stator_frame_depth(StatorFrame* frame) {
  return frame->stacktop - stator_frame_code(frame)->co_nlocalsplus;
}
PyObject** stator_frame_stack(StatorFrame* frame) {
  return frame->localsplus + stator_frame_code(frame)->co_nlocalsplus;
}

void stator_frame_truncate(StatorFrame* frame, int depth) {
  int bottom = stator_frame_code(frame)->co_nlocalsplus + depth;
  while (frame->stacktop > bottom) {
    PyObject* value = frame->localsplus[--frame->stacktop];
    Py_XDECREF(value);
  }
}

PyObject* stator_topmost_exception(void) {
  _PyErr_StackItem* item = thread()->exc_info;
  while ((item->exc_value == NULL || item->exc_value == Py_None) && item->previous_item != NULL)
    item = item->previous_item;
  return item->exc_value;
}

// --- Running

typedef struct {
  PyThreadState* tstate;
  StatorFrame* frame;
  uintptr_t instrumentation_version;  // when it was linked, and nobody asked for events
} Link;
_Static_assert(sizeof(Link) <= sizeof(StatorLink), "StatorLink holds a Link");

// As CPython's, which does not export it.
static int enter_python_call(PyThreadState* tstate) {
  if (tstate->py_recursion_remaining-- > 0) return 0;
  if (tstate->recursion_headroom) {
    if (tstate->py_recursion_remaining < -50)
      Py_FatalError("Cannot recover from Python stack overflow.");
    return 0;
  }
  tstate->recursion_headroom++;
  PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded");
  tstate->recursion_headroom--;
  return -1;
}

int stator_frame_link(StatorFrame* frame, StatorLink* storage, int throwflag) {
  PyThreadState* tstate = thread();
  if (enter_python_call(tstate) < 0) {
    tstate->py_recursion_remaining++;
    _PyEval_FrameClearAndPop(tstate, frame);
    return -1;
  }
  Link* link = (Link*)storage;
  link->tstate = tstate;
  link->frame = frame;
  link->instrumentation_version = tstate->interp->ceval.instrumentation_version;
  frame->previous = tstate->current_frame;
  tstate->current_frame = frame;
  return 0;
}

void stator_frame_unlink(StatorFrame* frame, StatorLink* storage) {
  PyThreadState* tstate = ((Link*)storage)->tstate;
  tstate->py_recursion_remaining++;
  tstate->current_frame = frame->previous;
}

// YIELD_VALUE's argument is 1 where the generator delegates.
static int8_t suspended_state(const _Py_CODEUNIT* yield) {
  return yield->op.arg != 0 ? FRAME_SUSPENDED_YIELD_FROM : FRAME_SUSPENDED;
}

void stator_frame_suspend(StatorFrame* frame, StatorLink* link) {
  PyThreadState* tstate = ((Link*)link)->tstate;
  PyGenObject* generator = _PyFrame_GetGenerator(frame);
  generator->gi_frame_state = suspended_state(frame->instr_ptr);
  frame->instr_ptr++;
  tstate->exc_info = generator->gi_exc_state.previous_item;
  generator->gi_exc_state.previous_item = NULL;
  stator_frame_unlink(frame, link);
  frame->previous = NULL;
}

void stator_frame_end(StatorFrame* frame, StatorLink* link) {
  stator_frame_unlink(frame, link);
  _PyEval_FrameClearAndPop(((Link*)link)->tstate, frame);
}

void stator_frame_abandon(StatorFrame* frame) { _PyEval_FrameClearAndPop(thread(), frame); }

static PyObject* evaluate(StatorFrame* frame, int throwflag) {
  PyThreadState* tstate = thread();
  tstate->c_recursion_remaining += 2;
  PyObject* result = _PyEval_EvalFrameDefault(tstate, frame, throwflag);
  tstate->c_recursion_remaining -= 2;
  return result;
}

PyObject* stator_frame_eval_default(StatorFrame* frame, int raising) {
  if (raising) frame->instr_ptr++;
  return evaluate(frame, raising);
}

int stator_signal_waits(void) {
  return (_Py_atomic_load_uintptr_relaxed(&thread()->eval_breaker) & _PY_SIGNALS_PENDING_BIT) != 0;
}

// The "exception" event of sys.settrace. A trace function that raises replaces the error.
static void trace_exception(PyThreadState* tstate, PyFrameObject* object) {
  PyObject* value = PyErr_GetRaisedException();
  PyObject* traceback = PyException_GetTraceback(value);
  PyObject* argument =
      PyTuple_Pack(3, (PyObject*)Py_TYPE(value), value, traceback != NULL ? traceback : Py_None);
  Py_XDECREF(traceback);
  int status = 0;
  if (argument != NULL) {
    PyThreadState_EnterTracing(tstate);
    status = tstate->c_tracefunc(tstate->c_traceobj, object, PyTrace_EXCEPTION, argument);
    PyThreadState_LeaveTracing(tstate);
    Py_DECREF(argument);
  } else {
    PyErr_Clear();
  }
  if (status == 0) {
    PyErr_SetRaisedException(value);
  } else {
    Py_DECREF(value);
  }
}

void stator_frame_add_traceback(StatorFrame* frame) {
  PyThreadState* tstate = thread();
  if (_PyFrame_IsIncomplete(frame) || tstate->current_frame != frame) return;
  // Makes the frame object if there is none yet; an error that is set would be in its way.
  PyObject* error = PyErr_GetRaisedException();
  PyFrameObject* object = PyEval_GetFrame();
  PyErr_SetRaisedException(error);
  if (object == NULL) return;
  PyTraceBack_Here(object);
  if (tstate->c_tracefunc != NULL && !tstate->tracing) trace_exception(tstate, object);
}

// --- The thread

// Tools 6 and 7 are sys.setprofile and sys.settrace, maybe of other threads: the thread's own functions tell.
static int tools_in(const uint8_t* events, size_t count) {
  int tools = 0;
  for (size_t i = 0; i < count; i++) tools |= events[i];
  return (tools & 0x3f) != 0;
}

static int thread_watched(PyThreadState* tstate) {
  return tstate->c_tracefunc != NULL || tstate->c_profilefunc != NULL ||
         tools_in(tstate->interp->monitors.tools, sizeof tstate->interp->monitors.tools);
}

int stator_frame_traced(StatorFrame* frame) {
  return thread_watched(thread()) || stator_code_traced(stator_frame_code(frame));
}

int stator_link_traced(const StatorLink* storage) {
  const Link* link = (const Link*)storage;
  if (link->tstate->c_tracefunc != NULL || link->tstate->c_profilefunc != NULL) return 1;
  return link->instrumentation_version != link->tstate->interp->ceval.instrumentation_version &&
         stator_frame_traced(link->frame);
}

STATOR_HOT int stator_thread_plain(void) {
  enum { kRoom = 64 };
  PyThreadState* tstate = thread();
  return !thread_watched(tstate) && tstate->py_recursion_remaining > kRoom &&
         !(_Py_atomic_load_uintptr_relaxed(&tstate->eval_breaker) & _PY_EVAL_EVENTS_MASK);
}

int stator_thread_interrupted(void) {
  return (_Py_atomic_load_uintptr_relaxed(&thread()->eval_breaker) & _PY_EVAL_EVENTS_MASK) != 0;
}

int stator_thread_interrupts(void) { return _Py_HandlePending(thread()); }

StatorFrame* stator_thread_frame(void) { return thread()->current_frame; }

// --- Generators

void stator_generator_set_suspended(PyObject* generator, int offset, PyObject* handled) {
  PyGenObject* gen = (PyGenObject*)generator;
  StatorFrame* frame = (StatorFrame*)gen->gi_iframe;
  stator_frame_set_offset(frame, offset);
  gen->gi_frame_state = suspended_state(frame->instr_ptr);
  frame->instr_ptr++;
  PyObject* old = gen->gi_exc_state.exc_value;
  gen->gi_exc_state.exc_value = Py_XNewRef(handled);
  Py_XDECREF(old);
}

PyObject* stator_async_gen_wrap(PyObject* value) {
  return stator_intrinsic_1(INTRINSIC_ASYNC_GEN_WRAP, value);
}

// --- Instructions without a function

PyObject* stator_prep_reraise_star(PyObject* original, PyObject* raised) {
  return stator_intrinsic_2(INTRINSIC_PREP_RERAISE_STAR, original, raised);
}
PyObject* stator_intrinsic_1(int which, PyObject* value) {
  return _PyIntrinsics_UnaryFunctions[which].func(thread(), value);
}
PyObject* stator_intrinsic_2(int which, PyObject* first, PyObject* second) {
  return _PyIntrinsics_BinaryFunctions[which].func(thread(), first, second);
}

// Hidden since 3.13: a new function has it. None runs for that.
vectorcallfunc stator_function_vectorcall(void) {
  static vectorcallfunc found = NULL;
  if (found != NULL) return found;
  PyObject* globals = PyDict_New();
  PyCodeObject* code = PyCode_NewEmpty("", "", 1);
  PyObject* function =
      globals != NULL && code != NULL ? PyFunction_New((PyObject*)code, globals) : NULL;
  if (function != NULL) found = ((PyFunctionObject*)function)->vectorcall;
  Py_XDECREF(function);
  Py_XDECREF(code);
  Py_XDECREF(globals);
  return found;
}

#include "python/frame_alike.h"
#include "python/frame_alike312.h"
