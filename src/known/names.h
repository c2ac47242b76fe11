// Interned names that the tracer compares with, made once.
#pragma once

#include "base/python.h"

namespace stator::known {

struct Names {
  PyObject* func;         // __func__
  PyObject* dunder_self;  // __self__
  PyObject* name;         // __name__
  PyObject* fget;
  PyObject* dunder_class;
  PyObject* dunder_dict;
  PyObject* dunder_get;
  PyObject* dunder_set;
  PyObject* dunder_getattr;
  PyObject* dunder_call;
  PyObject* dunder_new;
  PyObject* dunder_init;
  PyObject* dunder_iter;
  PyObject* dunder_next;
  PyObject* dunder_enter;
  PyObject* dunder_exit;
  PyObject* dunder_contains;
  PyObject* forward;
  PyObject* parameters;         // _parameters
  PyObject* buffers;            // _buffers
  PyObject* modules;            // _modules
  PyObject* nn_module_getattr;  // the function nn.Module.__getattr__
  PyObject* nn_module_setattr;
  // the code of nn.Module._call_impl, and of the function inside that sees to hooks
  PyObject* nn_module_call_impl;
  PyObject* nn_module_call_inner;
  PyObject* nn_module_call;  // nn.Module.__call__ (_wrapped_call_impl)
};

const Names& names();
bool initNames();  // after initKnownTypes

}  // namespace stator::known
