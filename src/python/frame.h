// Everything that stator knows about a running CPython frame, behind one small C interface; one implementation file for each CPython
// version (py311.c, ...). A frame is either about to run (CPython has handed it to our evaluator) or suspended (a generator's).
// "Slots" are CPython's localsplus: fast locals, then cells, then free variables; the value stack follows.
#pragma once

#include "base/python.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct _PyInterpreterFrame StatorFrame;

// What the frame is. All borrowed.
PyCodeObject* stator_frame_code(StatorFrame* frame);
PyFunctionObject* stator_frame_function(StatorFrame* frame);
PyObject* stator_frame_globals(StatorFrame* frame);
PyObject* stator_frame_builtins(StatorFrame* frame);
PyObject* stator_frame_namespace(StatorFrame* frame);  // f_locals of class bodies and exec; NULL in functions
int stator_frame_is_generator(StatorFrame* frame);     // generator, coroutine or async generator

// Where it is: byte offset of the instruction that runs next (of an instruction under way: its own offset).
int stator_frame_offset(StatorFrame* frame);
void stator_frame_set_offset(StatorFrame* frame, int offset);

// Slots and stack. NULL is an unbound slot, or CPython's NULL on the stack. `set` takes a new reference and drops the old value.
int stator_frame_slot_count(StatorFrame* frame);
PyObject** stator_frame_slots(StatorFrame* frame);
int stator_frame_depth(StatorFrame* frame);
PyObject** stator_frame_stack(StatorFrame* frame);  // bottom of the value stack
void stator_frame_set_slot(StatorFrame* frame, int index, PyObject* value);
void stator_frame_push(StatorFrame* frame, PyObject* value);       // takes its own reference
void stator_frame_push_steal(StatorFrame* frame, PyObject* value);  // takes the caller's reference
PyObject* stator_frame_pop(StatorFrame* frame);                    // gives its reference to the caller
void stator_frame_truncate(StatorFrame* frame, int depth);

// The exception that the frame's handlers are busy with (the thread's exc_info); borrowed, NULL or None when there is none.
PyObject* stator_handled_exception(void);
void stator_set_handled_exception(PyObject* value);  // takes its own reference

// Running. `link` makes the frame the thread's current one, so that sys._getframe, warnings and tracebacks see it while the driver works
// on its behalf; `unlink` undoes it. `eval_default` gives the rest of the frame to CPython, from its offset on; with `raising`, the
// current Python exception is raised at that offset.
typedef struct StatorLink {
  void* storage[8];
} StatorLink;
void stator_frame_link(StatorFrame* frame, StatorLink* link);
void stator_frame_unlink(StatorFrame* frame, StatorLink* link);
PyObject* stator_frame_eval_default(StatorFrame* frame, int raising);
void stator_frame_add_traceback(StatorFrame* frame);  // PyTraceBack_Here for the instruction at the frame's offset

// The evaluator. `hook` gets every frame that starts or resumes on any thread while it is installed.
typedef PyObject* (*StatorHook)(StatorFrame* frame, int throwflag);
int stator_hook_install(StatorHook hook);  // 0: installed or already ours; -1: another evaluator is in place
void stator_hook_remove(void);

#ifdef __cplusplus
}
#endif
