// The frame interface for CPython 3.11. Only exported symbols of CPython are used; what is hidden there is done again
// here.
//
// Facts of 3.11 that this file relies on:
// - `prev_instr` is the code unit before the next instruction for a frame at rest, and the instruction itself for one
// at work. A linked
//   frame is kept in the second form, so that line numbers are right whenever somebody looks.
// - Whoever calls the evaluator (_PyEval_Vector, gen_send_ex2) clears and pops the frame; an evaluator only runs it.
// - An evaluator pushes a _PyCFrame of its own; `use_tracing` is copied inwards on entry and outwards on exit.
#define Py_BUILD_CORE 1
#include "base/hot.h"
#include "python/frame.h"

#include <internal/pycore_ceval.h>
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_object.h>
#include <internal/pycore_pyerrors.h>
#include <internal/pycore_pystate.h>
#include <internal/pycore_runtime.h>
#include <opcode.h>
#undef Py_BUILD_CORE

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030C0000
#error "py311.c is for CPython 3.11"
#endif

#define UNIT ((int)sizeof(_Py_CODEUNIT))

static PyThreadState* thread(void) { return _PyThreadState_UncheckedGet(); }

PyCodeObject* stator_frame_code(StatorFrame* frame) { return frame->f_code; }
PyFunctionObject* stator_frame_function(StatorFrame* frame) { return frame->f_func; }

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

int stator_frame_in_default_loop(StatorFrame* frame) { return frame->stacktop < 0; }

// --- Running

_Static_assert(sizeof(_PyCFrame) <= sizeof(StatorLink), "StatorLink holds a _PyCFrame");

int stator_frame_link(StatorFrame* frame, StatorLink* link, int throwflag) {
  PyThreadState* tstate = thread();
  // a failed check has given its count back
  if (_Py_EnterRecursiveCallTstate(tstate, "")) return -1;
  _PyCFrame* cframe = (_PyCFrame*)link->storage;
  _PyCFrame* outer = tstate->cframe;
  cframe->use_tracing = outer->use_tracing;
  cframe->previous = outer;
  cframe->current_frame = frame;
  tstate->cframe = cframe;
  frame->is_entry = true;
  frame->previous = outer->current_frame;
  if (!throwflag) frame->prev_instr++;
  return 0;
}

void stator_frame_unlink(StatorFrame* frame, StatorLink* link) {
  PyThreadState* tstate = thread();
  _PyCFrame* cframe = (_PyCFrame*)link->storage;
  _Py_LeaveRecursiveCallTstate(tstate);
  tstate->cframe = cframe->previous;
  tstate->cframe->use_tracing = cframe->use_tracing;
}

// Whoever called the evaluator clears the frame.
void stator_frame_end(StatorFrame* frame, StatorLink* link) { stator_frame_unlink(frame, link); }
void stator_frame_abandon(StatorFrame* frame) {}

void stator_frame_suspend(StatorFrame* frame, StatorLink* link) {
  _PyFrame_GetGenerator(frame)->gi_frame_state = FRAME_SUSPENDED;
  stator_frame_unlink(frame, link);
}

// sys.settrace and sys.setprofile set the flag in the innermost _PyCFrame; a frame that ends hands it to the one below.
int stator_link_traced(const StatorLink* link) {
  return ((const _PyCFrame*)link->storage)->use_tracing != 0;
}

PyObject* stator_frame_eval_default(StatorFrame* frame, int raising) {
  if (!raising) frame->prev_instr--;
  return _PyEval_EvalFrameDefault(thread(), frame, raising);
}

int stator_signal_waits(void) {
  return _Py_atomic_load_relaxed(&_PyRuntime.ceval.signals_pending) != 0 &&
         PyThread_get_thread_ident() == _PyRuntime.main_thread;
}

PyObject* stator_frame_eval_fresh(StatorFrame* frame, int throwflag) {
  return _PyEval_EvalFrameDefault(thread(), frame, throwflag);
}

// The "exception" event of sys.settrace. A trace function that raises replaces the error.
static void trace_exception(PyThreadState* tstate, PyFrameObject* object) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject* argument = PyTuple_Pack(3, type, value, traceback != NULL ? traceback : Py_None);
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
    PyErr_Restore(type, value, traceback);
  } else {
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
  }
}

void stator_frame_add_traceback(StatorFrame* frame) {
  PyThreadState* tstate = thread();
  if (_PyFrame_IsIncomplete(frame) || tstate->cframe->current_frame != frame) return;
  // Makes the frame object if there is none yet, and keeps the error that is set.
  PyFrameObject* object = PyEval_GetFrame();
  if (object == NULL) return;
  PyTraceBack_Here(object);
  if (tstate->c_tracefunc != NULL && !tstate->tracing) trace_exception(tstate, object);
}

// --- The thread

int stator_code_traced(PyCodeObject* code) { return 0; }

int stator_frame_traced(StatorFrame* frame) {
  PyThreadState* tstate = thread();
  return tstate->cframe->use_tracing != 0 || tstate->c_tracefunc != NULL ||
         tstate->c_profilefunc != NULL;
}

STATOR_HOT int stator_thread_plain(void) {
  enum { kRoom = 64 };
  PyThreadState* tstate = thread();
  return tstate->cframe->use_tracing == 0 && tstate->c_tracefunc == NULL &&
         tstate->c_profilefunc == NULL && tstate->recursion_remaining > kRoom &&
         !_Py_atomic_load_relaxed(&tstate->interp->ceval.eval_breaker);
}

int stator_thread_interrupted(void) {
  return _Py_atomic_load_relaxed(&thread()->interp->ceval.eval_breaker);
}

int stator_thread_interrupts(void) {
  PyThreadState* tstate = thread();
  struct _ceval_state* ceval = &tstate->interp->ceval;
  if (Py_MakePendingCalls() != 0) return -1;
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

// CPython's merging of what except* clauses raised is not exported, so a function that consists of the one instruction
// does it: lambda orig, excs: PREP_RERAISE_STAR(orig, excs).
static PyObject* make_merger(void) {
  static const char code[] = {(char)RESUME,       0, (char)LOAD_FAST,         0,
                              (char)LOAD_FAST,    1, (char)PREP_RERAISE_STAR, 0,
                              (char)RETURN_VALUE, 0};
  PyObject* globals = PyDict_New();
  PyObject* function = globals != NULL ? PyRun_String("lambda orig, excs: orig + excs",
                                                      Py_eval_input, globals, globals)
                                       : NULL;
  Py_XDECREF(globals);
  PyObject* old = function != NULL ? PyObject_GetAttrString(function, "__code__") : NULL;
  PyObject* replace = old != NULL ? PyObject_GetAttrString(old, "replace") : NULL;
  PyObject* change = Py_BuildValue("{s:y#}", "co_code", code, (Py_ssize_t)sizeof code);
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

PyObject* stator_prep_reraise_star(PyObject* original, PyObject* raised) {
  static PyObject* merger = NULL;
  if (merger == NULL) merger = make_merger();
  if (merger == NULL) return NULL;
  PyObject* arguments[] = {original, raised};
  return PyObject_Vectorcall(merger, arguments, 2, NULL);
}

static PyObject* no_intrinsics(void) {
  PyErr_SetString(PyExc_SystemError, "stator: CPython 3.11 has no intrinsics");
  return NULL;
}
PyObject* stator_intrinsic_1(int which, PyObject* value) { return no_intrinsics(); }
PyObject* stator_intrinsic_2(int which, PyObject* first, PyObject* second) {
  return no_intrinsics();
}

PyObject* stator_topmost_exception(void) { return _PyErr_GetTopmostException(thread())->exc_value; }

// It comes as the bare argument tuple of a KeyError that was not made yet.
PyObject* stator_take_repeated_key(void) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (value == NULL || !PyTuple_Check(value) || PyTuple_GET_SIZE(value) != 1) {
    PyErr_Restore(type, value, traceback);
    return NULL;
  }
  PyObject* key = Py_NewRef(PyTuple_GET_ITEM(value, 0));
  Py_XDECREF(type);
  Py_DECREF(value);
  Py_XDECREF(traceback);
  return key;
}

// --- Code objects

Py_ssize_t stator_code_extra_index(freefunc free) { return _PyEval_RequestCodeExtraIndex(free); }
int stator_code_get_extra(PyCodeObject* code, Py_ssize_t index, void** extra) {
  return _PyCode_GetExtra((PyObject*)code, index, extra);
}
int stator_code_set_extra(PyCodeObject* code, Py_ssize_t index, void* extra) {
  return _PyCode_SetExtra((PyObject*)code, index, extra);
}

#include "python/frame_alike.h"
