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
  PyObject* dunder_getattribute;
  PyObject* call_impl;           // _call_impl
  PyObject* compiled_call_impl;  // _compiled_call_impl
  PyObject* forward;
  PyObject* parameters;  // _parameters
  PyObject* buffers;     // _buffers
  PyObject* modules;     // _modules
  // The code of torch's own nn.Module.__getattr__, __call__ (_wrapped_call_impl) and _call_impl, and of the function
  // inside the last that sees to hooks; null until they were seen, since somebody may have replaced them before.
  PyObject* nn_module_getattr;
  PyObject* nn_module_call;
  PyObject* nn_module_call_impl;
  PyObject* nn_module_call_inner;
};

const Names& names();
bool initNames();  // after initKnownTypes

// Whether what a look-up in a class found is torch's own function of nn.Module. A replacement is not, whenever it was
// made.
bool isModuleGetattr(PyObject* found);
bool isModuleCall(PyObject* found);
bool isModuleCallImpl(PyObject* found);

}  // namespace stator::known
