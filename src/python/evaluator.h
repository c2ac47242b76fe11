// Our evaluator among others: see evaluator.c.
#pragma once

#include "python/frame.h"

#ifdef __cplusplus
extern "C" {
#endif

// Gets every frame that starts or resumes on any thread while our evaluator is on top.
typedef PyObject* (*StatorHook)(StatorFrame* frame, int throwflag);
// Puts it on top. What was there instead, if that is neither ours nor CPython's: frames go there that `hook` passes on.
void* stator_evaluator_install(StatorHook hook);
PyObject* stator_evaluator_pass(StatorFrame* frame, int throwflag);
int stator_evaluator_on_top(void);
// A trace function, a monitoring tool or an audit hook is being called: no part of the program.
int stator_evaluator_in_tool(void);
void stator_evaluator_remove(void);  // where it is on top
// Puts it on top for the length of one call that must reach it; `restore` takes what `force` or `install` returned.
void* stator_evaluator_force(StatorHook hook);
void stator_evaluator_restore(void* previous);

#ifndef __cplusplus
// Frames of this thread go to CPython's own loop while it is set.
extern _Thread_local int stator_evaluator_is_off;
#else
}
#endif
