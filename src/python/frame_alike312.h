// The same for CPython 3.12 and later.
#pragma once

PyFunctionObject* stator_frame_function(StatorFrame* frame) {
  return (PyFunctionObject*)frame->f_funcobj;
}

int stator_frame_in_default_loop(StatorFrame* frame) {
  return frame->owner != FRAME_OWNED_BY_CSTACK && frame->stacktop < 0;
}

PyObject* stator_frame_eval_fresh(StatorFrame* frame, int throwflag) {
  return evaluate(frame, throwflag);
}

int stator_code_traced(PyCodeObject* code) {
  const _PyCoMonitoringData* data = code->_co_monitoring;
  return data != NULL && tools_in(data->local_monitors.tools, sizeof data->local_monitors.tools);
}

// CPython takes every KeyError with one argument for it.
PyObject* stator_take_repeated_key(void) {
  PyObject* error = PyErr_GetRaisedException();
  PyObject* arguments = error != NULL ? ((PyBaseExceptionObject*)error)->args : NULL;
  if (arguments == NULL || !PyTuple_Check(arguments) || PyTuple_GET_SIZE(arguments) != 1) {
    PyErr_SetRaisedException(error);
    return NULL;
  }
  PyObject* key = Py_NewRef(PyTuple_GET_ITEM(arguments, 0));
  Py_DECREF(error);
  return key;
}

Py_ssize_t stator_code_extra_index(freefunc free) {
  return PyUnstable_Eval_RequestCodeExtraIndex(free);
}

int stator_code_get_extra(PyCodeObject* code, Py_ssize_t index, void** extra) {
  return PyUnstable_Code_GetExtra((PyObject*)code, index, extra);
}

int stator_code_set_extra(PyCodeObject* code, Py_ssize_t index, void* extra) {
  return PyUnstable_Code_SetExtra((PyObject*)code, index, extra);
}
