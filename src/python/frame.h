// Everything that stator knows about a running CPython frame, behind one small C interface; one implementation file for
// each CPython version (py311.c, py312.c, py313.c). A frame is either about to run (CPython has handed it to our
// evaluator) or suspended (a generator's). "Slots" are CPython's localsplus: fast locals, then cells, then free
// variables; the value stack follows.
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
// f_locals of class bodies and exec; NULL in functions
PyObject* stator_frame_namespace(StatorFrame* frame);
// behind a frame object that a program can hold
StatorFrame* stator_frame_of(PyFrameObject* object);
int stator_frame_is_generator(StatorFrame* frame);  // generator, coroutine or async generator

// Where it is: byte offset of the instruction that runs next (of an instruction under way: its own offset). Holds while
// the frame is linked: CPython's own record is "the unit before the next one" for a frame at rest and "the instruction
// itself" for one at work.
int stator_frame_offset(StatorFrame* frame);
// The offset whose handler an exception that is thrown into a resumed generator gets.
int stator_frame_throw_offset(StatorFrame* frame);
void stator_frame_set_offset(StatorFrame* frame, int offset);

// Slots and stack. NULL is an unbound slot, or CPython's NULL on the stack. `set` takes a new reference and drops the
// old value.
int stator_frame_slot_count(StatorFrame* frame);
PyObject** stator_frame_slots(StatorFrame* frame);
int stator_frame_depth(StatorFrame* frame);
PyObject** stator_frame_stack(StatorFrame* frame);  // bottom of the value stack
void stator_frame_set_slot(StatorFrame* frame, int index, PyObject* value);
void stator_frame_push(StatorFrame* frame, PyObject* value);        // takes its own reference
void stator_frame_push_steal(StatorFrame* frame, PyObject* value);  // takes the caller's reference
// gives its reference to the caller
PyObject* stator_frame_pop(StatorFrame* frame);
void stator_frame_truncate(StatorFrame* frame, int depth);
// The same for loops that cannot afford a call for each access: values are slots[0] .. slots[*top - 1], the stack
// beginning at slot_count.
typedef struct StatorFrameView {
  PyObject** slots;
  int* top;
} StatorFrameView;
StatorFrameView stator_frame_view(StatorFrame* frame);
// CPython's own loop runs it now and alone knows its stack pointer
int stator_frame_in_default_loop(StatorFrame* frame);

// The exception that the frame's handlers are busy with (the thread's exc_info); borrowed, NULL or None when there is
// none.
PyObject* stator_handled_exception(void);
void stator_set_handled_exception(PyObject* value);  // takes its own reference

// Running. `link` makes the frame that the evaluator was given the thread's current one, so that sys._getframe,
// warnings and tracebacks see it while the driver works on its behalf, and counts it against the recursion limit. It
// fails with RecursionError set (-1, nothing linked, the frame ended). A linked frame is left in one of three ways:
// `unlink` keeps it for CPython, to which `eval_default` gives the rest of it, from its offset on (with `raising`, the
// current Python exception is raised at that offset); `suspend` is YIELD_VALUE's part in the bookkeeping of a
// generator, whose evaluator returns the value after it; `end` is for a frame that has returned or raised: from 3.12 on
// it is cleared and given back, and must not be touched any more. `abandon` ends one that was never linked.
// `eval_fresh` is for a frame that was never linked either: it passes on what the evaluator was given.
typedef struct StatorLink {
  void* storage[8];
} StatorLink;
int stator_frame_link(StatorFrame* frame, StatorLink* link, int throwflag);
void stator_frame_unlink(StatorFrame* frame, StatorLink* link);
void stator_frame_suspend(StatorFrame* frame, StatorLink* link);
void stator_frame_end(StatorFrame* frame, StatorLink* link);
void stator_frame_abandon(StatorFrame* frame);
// stator_frame_traced, for the innermost linked frame
int stator_link_traced(const StatorLink* link);
PyObject* stator_frame_eval_default(StatorFrame* frame, int raising);
// A signal waits to be handled by this thread: CPython does so when a frame starts or goes on, in the frame that eager
// would choose.
int stator_signal_waits(void);
PyObject* stator_frame_eval_fresh(StatorFrame* frame, int throwflag);
// PyTraceBack_Here for the instruction at the frame's offset
void stator_frame_add_traceback(StatorFrame* frame);

// The thread. `traced`: sys.settrace, sys.setprofile or sys.monitoring wants to know what the frame, or frames of this
// code, do, so that they have to run natively. `interrupts` does what CPython does between instructions when asked to
// (signals, pending calls, another thread waiting for the GIL); -1 with an error set.
int stator_frame_traced(StatorFrame* frame);
int stator_code_traced(PyCodeObject* code);
// Neither traced nor interrupted, and not near the recursion limit.
int stator_thread_plain(void);
int stator_thread_interrupted(void);  // whether `interrupts` has anything to do
int stator_thread_interrupts(void);
StatorFrame* stator_thread_frame(void);  // the innermost frame, NULL if there is none

// Generators, coroutines, async generators. `generator_frame` is the frame inside a generator object that has not
// finished, or NULL. `generator_set_suspended` makes one that has not started look as if it had yielded at the
// instruction `offset`, with `handled` as the exception its handlers are busy with.
// borrowed; NULL for a frame that no generator owns
PyObject* stator_frame_generator(StatorFrame* frame);
StatorFrame* stator_generator_frame(PyObject* generator);
void stator_generator_set_suspended(PyObject* generator, int offset, PyObject* handled);
// Where a generator stands: the offset of the instruction at which it has yielded, or one of these.
enum { STATOR_NOT_BEGUN = -1, STATOR_ENDED = -2, STATOR_RUNNING = -3 };
int stator_generator_place(PyObject* generator);
// The exception that the handlers of a suspended generator are busy with (borrowed); NULL: none.
PyObject* stator_generator_handled(PyObject* generator);
// Makes a generator that has not ended one that has not begun, and that holds nothing: closing it runs nothing.
void stator_generator_empty(PyObject* generator);
PyObject* stator_async_gen_wrap(PyObject* value);  // ASYNC_GEN_WRAP; new reference

// The method `name` of the object's type, bound: new reference; NULL without an error set if there is none.
PyObject* stator_lookup_special(PyObject* self, PyObject* name);

// Operations that CPython has as an instruction only. `prep_reraise_star`: what except* clauses raised and what they
// left, merged. `intrinsic_1` and `intrinsic_2`: CALL_INTRINSIC_1 and _2 of 3.12 and later, for those that do not look
// at the frame. New references. They may be done by functions that consist of the one instruction, whose frames the
// caller keeps from the hook.
PyObject* stator_prep_reraise_star(PyObject* original, PyObject* raised);
PyObject* stator_intrinsic_1(int which, PyObject* value);
PyObject* stator_intrinsic_2(int which, PyObject* first, PyObject* second);

// The exception that a bare `raise` raises (borrowed), NULL or None when there is none: stator_handled_exception of the
// innermost frame, generators included, that handles one.
PyObject* stator_topmost_exception(void);

// What a Python function's vectorcall is unless somebody has replaced it: the way into a frame.
#if PY_MINOR_VERSION < 13
static inline vectorcallfunc stator_function_vectorcall(void) { return _PyFunction_Vectorcall; }
#else
vectorcallfunc stator_function_vectorcall(void);
#endif

// Merging keyword arguments has failed with a KeyError. If it is about a key that occurs twice: clears the error and
// returns the key (new reference); NULL otherwise.
PyObject* stator_take_repeated_key(void);

// Code objects. The un-specialised instructions (a new bytes object), and the exception table (borrowed).
PyObject* stator_code_bytes(PyCodeObject* code);
PyObject* stator_code_exception_table(PyCodeObject* code);
PyObject* stator_code_slot_names(PyCodeObject* code);  // tuple, one name for each slot; borrowed
// a cell that the function makes (MAKE_CELL), or a free variable
int stator_code_slot_is_cell(PyCodeObject* code, int slot);
// offset of the first instruction behind the prologue: its RESUME
int stator_code_first_traceable(PyCodeObject* code);
// CPython's extra data on code objects: what is in the slot is freed with the code. -1: no slot is left, or an error is
// set.
Py_ssize_t stator_code_extra_index(freefunc free);
int stator_code_get_extra(PyCodeObject* code, Py_ssize_t index, void** extra);
int stator_code_set_extra(PyCodeObject* code, Py_ssize_t index, void* extra);

#ifdef __cplusplus
}
#endif
