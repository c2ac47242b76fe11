// The frame interface for CPython 3.12. Only exported symbols of CPython are used; what is hidden there is done again
// here.
//
// Facts of 3.12 that this file relies on:
// - `prev_instr` is the code unit before the next instruction for a frame at rest, and the instruction itself for one
// at work. A linked
//   frame is kept in the second form, so that line numbers are right whenever somebody looks.
// - The evaluator clears the frame and gives its memory back; of a generator's it also takes the exception state off
// the thread's list, when
//   it yields too.
// - sys.settrace and sys.setprofile are tools 7 and 6 of sys.monitoring, for all threads, beside the thread's own
// functions. Tools are asked
//   for by events of the interpreter, or of a code object. What changes there changes `monitoring_version`.
// - Calls in C are counted by themselves. CPython's own loop makes none for a call of a Python function, unless an
// evaluator is in place;
//   then it takes two of 1,500 for each. They are given back, so that programs may recurse as deep as without one.
// - The garbage collector runs between instructions.
#define Py_BUILD_CORE 1
#include "base/hot.h"
#include "python/evaluator.h"
#include "python/frame.h"

#include <internal/pycore_ceval.h>
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_genobject.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_object.h>
#include <internal/pycore_pyerrors.h>
#include <internal/pycore_pystate.h>
#include <internal/pycore_runtime.h>
#include <opcode.h>
#undef Py_BUILD_CORE

#if PY_MINOR_VERSION != 12
#error "py312.c is for CPython 3.12"
#endif

#define UNIT ((int)sizeof(_Py_CODEUNIT))

static PyThreadState* thread(void) { return _PyThreadState_UncheckedGet(); }

PyCodeObject* stator_frame_code(StatorFrame* frame) { return frame->f_code; }

int stator_frame_throw_offset(StatorFrame* frame) { return stator_frame_offset(frame); }

void stator_frame_set_offset(StatorFrame* frame, int offset) {
  frame->prev_instr = _PyCode_CODE(frame->f_code) + offset / UNIT;
}

int stator_frame_slot_count(StatorFrame* frame) { return frame->f_code->co_nlocalsplus; }
int stator_frame_depth(StatorFrame* frame) {
  return frame->stacktop - frame->f_code->co_nlocalsplus;
}
PyObject** stator_frame_stack(StatorFrame* frame) {
  return frame->localsplus + frame->f_code->co_nlocalsplus;
}

void stator_frame_truncate(StatorFrame* frame, int depth) {
  int bottom = frame->f_code->co_nlocalsplus + depth;
  while (frame->stacktop > bottom) {
    PyObject* value = frame->localsplus[--frame->stacktop];
    Py_XDECREF(value);
  }
}

PyObject* stator_topmost_exception(void) { return _PyErr_GetTopmostException(thread())->exc_value; }

// --- The end of a frame

// A frame object that others hold takes the frame's contents over. Frames below are reached through frame objects from
// then on: the frame is not linked any more, so that the innermost one is the caller.
static void take_ownership(PyFrameObject* object, StatorFrame* frame) {
  size_t size = (size_t)((char*)&frame->localsplus[frame->stacktop] - (char*)frame);
  Py_INCREF(frame->f_code);
  memcpy((StatorFrame*)object->_f_frame_data, frame, size);
  StatorFrame* own = (StatorFrame*)object->_f_frame_data;
  object->f_frame = own;
  own->owner = FRAME_OWNED_BY_FRAME_OBJECT;
  if (_PyFrame_IsIncomplete(own))
    own->prev_instr = _PyCode_CODE(own->f_code) + own->f_code->_co_firsttraceable;
  own->previous = NULL;
  if (_PyThreadState_GetFrame(thread()) != NULL) {
    PyObject* error = PyErr_GetRaisedException();
    object->f_back = (PyFrameObject*)Py_XNewRef(PyEval_GetFrame());
    PyErr_SetRaisedException(error);
  }
  if (!_PyObject_GC_IS_TRACKED((PyObject*)object)) PyObject_GC_Track(object);
}

static void clear_frame(StatorFrame* frame) {
  PyFrameObject* object = frame->frame_obj;
  if (object != NULL) {
    frame->frame_obj = NULL;
    if (Py_REFCNT(object) > 1) {
      take_ownership(object, frame);
      Py_DECREF(object);
      return;
    }
    Py_DECREF(object);
  }
  for (int i = 0; i < frame->stacktop; i++) Py_XDECREF(frame->localsplus[i]);
  Py_XDECREF(frame->f_locals);
  Py_DECREF(frame->f_funcobj);
}

// The frame is the last one on the thread's stack of frames, and maybe the first one in its chunk.
static void pop_frame(PyThreadState* tstate, StatorFrame* frame) {
  PyObject** base = (PyObject**)frame;
  _PyStackChunk* chunk = tstate->datastack_chunk;
  if (base != &chunk->data[0]) {
    tstate->datastack_top = base;
    return;
  }
  _PyStackChunk* previous = chunk->previous;
  tstate->datastack_top = &previous->data[previous->top];
  tstate->datastack_chunk = previous;
  PyObjectArenaAllocator arenas;
  PyObject_GetArenaAllocator(&arenas);
  arenas.free(arenas.ctx, chunk, chunk->size);
  tstate->datastack_limit = (PyObject**)((char*)previous + previous->size);
}

static void leave_generator(PyThreadState* tstate, PyGenObject* generator) {
  tstate->exc_info = generator->gi_exc_state.previous_item;
  generator->gi_exc_state.previous_item = NULL;
}

static void end_frame(PyThreadState* tstate, StatorFrame* frame) {
  // Destructors may run that look for room on the C stack.
  tstate->c_recursion_remaining--;
  if (frame->owner == FRAME_OWNED_BY_GENERATOR) {
    PyGenObject* generator = _PyFrame_GetGenerator(frame);
    generator->gi_frame_state = FRAME_CLEARED;
    leave_generator(tstate, generator);
    clear_frame(frame);
    tstate->c_recursion_remaining++;
    frame->previous = NULL;
    return;
  }
  PyCodeObject* code = frame->f_code;
  clear_frame(frame);
  Py_DECREF(code);
  tstate->c_recursion_remaining++;
  pop_frame(tstate, frame);
}

// --- Running

typedef struct {
  PyThreadState* tstate;
  StatorFrame* frame;
  uint64_t monitoring_version;  // when it was linked, and nobody asked for events
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
    end_frame(tstate, frame);
    return -1;
  }
  Link* link = (Link*)storage;
  link->tstate = tstate;
  link->frame = frame;
  link->monitoring_version = tstate->interp->monitoring_version;
  frame->previous = tstate->cframe->current_frame;
  tstate->cframe->current_frame = frame;
  if (!throwflag) frame->prev_instr++;
  return 0;
}

void stator_frame_unlink(StatorFrame* frame, StatorLink* storage) {
  PyThreadState* tstate = ((Link*)storage)->tstate;
  tstate->py_recursion_remaining++;
  tstate->cframe->current_frame = frame->previous;
}

void stator_frame_suspend(StatorFrame* frame, StatorLink* link) {
  PyGenObject* generator = _PyFrame_GetGenerator(frame);
  generator->gi_frame_state = FRAME_SUSPENDED;
  leave_generator(((Link*)link)->tstate, generator);
  stator_frame_unlink(frame, link);
  frame->previous = NULL;
}

void stator_frame_end(StatorFrame* frame, StatorLink* link) {
  stator_frame_unlink(frame, link);
  end_frame(((Link*)link)->tstate, frame);
}

void stator_frame_abandon(StatorFrame* frame) { end_frame(thread(), frame); }

static PyObject* evaluate(StatorFrame* frame, int throwflag) {
  PyThreadState* tstate = thread();
  tstate->c_recursion_remaining += 2;
  PyObject* result = _PyEval_EvalFrameDefault(tstate, frame, throwflag);
  tstate->c_recursion_remaining -= 2;
  return result;
}

PyObject* stator_frame_eval_default(StatorFrame* frame, int raising) {
  if (!raising) frame->prev_instr--;
  return evaluate(frame, raising);
}

int stator_signal_waits(void) {
  return _Py_atomic_load_relaxed(&_PyRuntime.ceval.signals_pending) != 0 &&
         PyThread_get_thread_ident() == _PyRuntime.main_thread;
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
  if (_PyFrame_IsIncomplete(frame) || tstate->cframe->current_frame != frame) return;
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
  return thread_watched(thread()) || stator_code_traced(frame->f_code);
}

int stator_link_traced(const StatorLink* storage) {
  const Link* link = (const Link*)storage;
  if (link->tstate->c_tracefunc != NULL || link->tstate->c_profilefunc != NULL) return 1;
  return link->monitoring_version != link->tstate->interp->monitoring_version &&
         stator_frame_traced(link->frame);
}

STATOR_HOT int stator_thread_plain(void) {
  enum { kRoom = 64 };
  PyThreadState* tstate = thread();
  return !thread_watched(tstate) && tstate->py_recursion_remaining > kRoom &&
         !_Py_atomic_load_relaxed(&tstate->interp->ceval.eval_breaker);
}

int stator_thread_interrupted(void) {
  return _Py_atomic_load_relaxed(&thread()->interp->ceval.eval_breaker);
}

// The collector is run by CPython's loop alone: by the first instruction of a function that does nothing. Not where
// somebody would see that function: the request stands, and the program's own instructions find it.
static int run_collector(void) {
  static PyObject* nothing = NULL;
  stator_evaluator_is_off++;
  if (nothing == NULL) {
    PyObject* globals = PyDict_New();
    if (globals != NULL) nothing = PyRun_String("lambda: None", Py_eval_input, globals, globals);
    Py_XDECREF(globals);
  }
  PyObject* done = nothing != NULL ? PyObject_CallNoArgs(nothing) : NULL;
  stator_evaluator_is_off--;
  Py_XDECREF(done);
  return done != NULL ? 0 : -1;
}

int stator_thread_interrupts(void) {
  PyThreadState* tstate = thread();
  struct _ceval_state* ceval = &tstate->interp->ceval;
  if (Py_MakePendingCalls() != 0) return -1;
  if (_Py_atomic_load_relaxed(&ceval->gc_scheduled) && !thread_watched(tstate) &&
      run_collector() < 0)
    return -1;
  if (_Py_atomic_load_relaxed(&ceval->gil_drop_request)) {
    PyEval_RestoreThread(PyEval_SaveThread());
  }
  if (tstate->async_exc != NULL) {
    // PyThreadState_SetAsyncExc was called for this thread. The breaker is computed anew by the next
    // Py_MakePendingCalls.
    PyObject* exc = tstate->async_exc;
    tstate->async_exc = NULL;
    ceval->pending.async_exc = 0;
    PyErr_SetNone(exc);
    Py_DECREF(exc);
    return -1;
  }
  return 0;
}

StatorFrame* stator_thread_frame(void) { return thread()->cframe->current_frame; }

// --- Generators

void stator_generator_set_suspended(PyObject* generator, int offset, PyObject* handled) {
  PyGenObject* gen = (PyGenObject*)generator;
  stator_frame_set_offset((StatorFrame*)gen->gi_iframe, offset);
  gen->gi_frame_state = FRAME_SUSPENDED;
  PyObject* old = gen->gi_exc_state.exc_value;
  gen->gi_exc_state.exc_value = Py_XNewRef(handled);
  Py_XDECREF(old);
}

// Layout of the wrapper that an async generator yields its values in; its type is exported, its constructor is not.
typedef struct {
  PyObject_HEAD
  PyObject* value;
} WrappedValue;

PyObject* stator_async_gen_wrap(PyObject* value) {
  WrappedValue* wrapped = PyObject_GC_New(WrappedValue, &_PyAsyncGenWrappedValue_Type);
  if (wrapped == NULL) return NULL;
  wrapped->value = Py_NewRef(value);
  PyObject_GC_Track(wrapped);
  return (PyObject*)wrapped;
}

// --- Instructions without a function

PyObject* stator_prep_reraise_star(PyObject* original, PyObject* raised) {
  return _PyExc_PrepReraiseStar(original, raised);
}

// lambda a, b: CALL_INTRINSIC_n(a, b), as code that is never captured by itself (known/code_policy.cpp)
static PyObject* make_intrinsic(int arity, int which) {
  const char two[] = {(char)RESUME,       0, (char)LOAD_FAST,        0,
                      (char)LOAD_FAST,    1, (char)CALL_INTRINSIC_2, (char)which,
                      (char)RETURN_VALUE, 0};
  const char one[] = {(char)RESUME,           0,           (char)LOAD_FAST,    0,
                      (char)CALL_INTRINSIC_1, (char)which, (char)RETURN_VALUE, 0};
  PyObject* globals = PyDict_New();
  PyObject* function = globals != NULL
                           ? PyRun_String(arity == 2 ? "lambda a, b: a + b" : "lambda a: -a",
                                          Py_eval_input, globals, globals)
                           : NULL;
  Py_XDECREF(globals);
  PyObject* old = function != NULL ? PyObject_GetAttrString(function, "__code__") : NULL;
  PyObject* replace = old != NULL ? PyObject_GetAttrString(old, "replace") : NULL;
  PyObject* change = Py_BuildValue("{s:y#,s:s}", "co_code", arity == 2 ? two : one,
                                   (Py_ssize_t)(arity == 2 ? sizeof two : sizeof one),
                                   "co_filename", "<frozen stator>");
  PyObject* nothing = PyTuple_New(0);
  PyObject* made = replace != NULL && change != NULL && nothing != NULL
                       ? PyObject_Call(replace, nothing, change)
                       : NULL;
  if (made == NULL || PyObject_SetAttrString(function, "__code__", made) < 0) Py_CLEAR(function);
  Py_XDECREF(old);
  Py_XDECREF(replace);
  Py_XDECREF(change);
  Py_XDECREF(nothing);
  Py_XDECREF(made);
  return function;
}

static PyObject* call_intrinsic(int arity, int which, PyObject* const* arguments) {
  static PyObject* functions[2][32];
  if (which < 0 || which >= 32) {
    PyErr_SetString(PyExc_SystemError, "unknown intrinsic");
    return NULL;
  }
  PyObject** function = &functions[arity - 1][which];
  if (*function == NULL) *function = make_intrinsic(arity, which);
  if (*function == NULL) return NULL;
  PyObject* result = PyObject_Vectorcall(*function, arguments, (size_t)arity, NULL);
  if (result == NULL) {
    // The helper's frame is nobody's business.
    PyObject* error = PyErr_GetRaisedException();
    PyException_SetTraceback(error, Py_None);
    PyErr_SetRaisedException(error);
  }
  return result;
}

PyObject* stator_intrinsic_1(int which, PyObject* value) {
  return call_intrinsic(1, which, &value);
}
PyObject* stator_intrinsic_2(int which, PyObject* first, PyObject* second) {
  PyObject* arguments[] = {first, second};
  return call_intrinsic(2, which, arguments);
}

#include "python/frame_alike.h"
#include "python/frame_alike312.h"
