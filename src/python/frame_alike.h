// Functions of frame.h that read the same in every version, included by each version's file behind its own layouts.
#pragma once

#include "python/held_frames.h"

PyObject* stator_frame_globals(StatorFrame* frame) { return frame->f_globals; }
PyObject* stator_frame_builtins(StatorFrame* frame) { return frame->f_builtins; }
PyObject* stator_frame_namespace(StatorFrame* frame) { return frame->f_locals; }

int stator_frame_held(StatorFrame* frame) {
  return frame->frame_obj != NULL && Py_REFCNT(frame->frame_obj) > 1;
}

StatorFrame* stator_frame_of(PyFrameObject* object) { return object->f_frame; }

int stator_frame_is_generator(StatorFrame* frame) {
  return frame->owner == FRAME_OWNED_BY_GENERATOR;
}

int stator_frame_offset(StatorFrame* frame) { return _PyInterpreterFrame_LASTI(frame) * UNIT; }
PyObject** stator_frame_slots(StatorFrame* frame) { return frame->localsplus; }

void stator_frame_set_slot(StatorFrame* frame, int index, PyObject* value) {
  PyObject* old = frame->localsplus[index];
  frame->localsplus[index] = Py_XNewRef(value);
  Py_XDECREF(old);
}

void stator_frame_push(StatorFrame* frame, PyObject* value) {
  frame->localsplus[frame->stacktop++] = Py_XNewRef(value);
}

void stator_frame_push_steal(StatorFrame* frame, PyObject* value) {
  frame->localsplus[frame->stacktop++] = value;
}

PyObject* stator_frame_pop(StatorFrame* frame) { return frame->localsplus[--frame->stacktop]; }

StatorFrameView stator_frame_view(StatorFrame* frame) {
  StatorFrameView view = {frame->localsplus, &frame->stacktop};
  return view;
}

STATOR_HOT PyObject* stator_handled_exception(void) { return thread()->exc_info->exc_value; }

void stator_set_handled_exception(PyObject* value) {
  _PyErr_StackItem* item = thread()->exc_info;
#if PY_MINOR_VERSION >= 13
  if (value == Py_None) value = NULL;  // up to 3.12 None is no exception either
#endif
  PyObject* old = item->exc_value;
  item->exc_value = Py_XNewRef(value);
  Py_XDECREF(old);
}

PyObject* stator_frame_generator(StatorFrame* frame) {
  return frame->owner == FRAME_OWNED_BY_GENERATOR ? (PyObject*)_PyFrame_GetGenerator(frame) : NULL;
}

StatorFrame* stator_generator_frame(PyObject* generator) {
  if (!PyGen_CheckExact(generator) && !PyCoro_CheckExact(generator) &&
      !PyAsyncGen_CheckExact(generator))
    return NULL;
  PyGenObject* gen = (PyGenObject*)generator;
  return gen->gi_frame_state < FRAME_COMPLETED ? (StatorFrame*)gen->gi_iframe : NULL;
}

int stator_generator_place(PyObject* generator) {
  const PyGenObject* gen = (const PyGenObject*)generator;
  if (gen->gi_frame_state == FRAME_CREATED) return STATOR_NOT_BEGUN;
  if (gen->gi_frame_state == FRAME_EXECUTING) return STATOR_RUNNING;
  if (gen->gi_frame_state >= FRAME_COMPLETED) return STATOR_ENDED;
  return stator_frame_throw_offset((StatorFrame*)gen->gi_iframe);
}

PyObject* stator_generator_handled(PyObject* generator) {
  PyObject* handled = ((PyGenObject*)generator)->gi_exc_state.exc_value;
  return handled != Py_None ? handled : NULL;
}

// Behind RETURN_GENERATOR come POP_TOP and the first RESUME.
void stator_generator_empty(PyObject* generator) {
  PyGenObject* gen = (PyGenObject*)generator;
  StatorFrame* frame = (StatorFrame*)gen->gi_iframe;
  PyCodeObject* code = stator_frame_code(frame);
  stator_frame_set_offset(frame, (code->_co_firsttraceable - 2) * UNIT);
  gen->gi_frame_state = FRAME_CREATED;
  stator_frame_truncate(frame, 0);
  for (int i = 0; i < code->co_nlocalsplus; i++) stator_frame_set_slot(frame, i, NULL);
}

PyObject* stator_lookup_special(PyObject* self, PyObject* name) {
  return _PyObject_LookupSpecial(self, name);
}

PyObject* stator_code_bytes(PyCodeObject* code) { return PyCode_GetCode(code); }
PyObject* stator_code_exception_table(PyCodeObject* code) { return code->co_exceptiontable; }
PyObject* stator_code_slot_names(PyCodeObject* code) { return code->co_localsplusnames; }
int stator_code_first_traceable(PyCodeObject* code) { return code->_co_firsttraceable * UNIT; }

int stator_code_slot_is_cell(PyCodeObject* code, int slot) {
  return (_PyLocals_GetKind(code->co_localspluskinds, slot) & (CO_FAST_CELL | CO_FAST_FREE)) != 0;
}
