#include "known/names.h"

#include "base/hot.h"
#include "known/known_types.h"

namespace stator::known {

namespace {
Names table;
}

STATOR_HOT const Names& names() { return table; }

bool initNames() {
  auto intern = [](const char* text) { return PyUnicode_InternFromString(text); };
  table.func = intern("__func__");
  table.dunder_self = intern("__self__");
  table.name = intern("__name__");
  table.fget = intern("fget");
  table.dunder_class = intern("__class__");
  table.dunder_dict = intern("__dict__");
  table.dunder_get = intern("__get__");
  table.dunder_set = intern("__set__");
  table.dunder_getattr = intern("__getattr__");
  table.dunder_call = intern("__call__");
  table.dunder_new = intern("__new__");
  table.dunder_init = intern("__init__");
  table.dunder_iter = intern("__iter__");
  table.dunder_next = intern("__next__");
  table.dunder_enter = intern("__enter__");
  table.dunder_exit = intern("__exit__");
  table.dunder_contains = intern("__contains__");
  table.forward = intern("forward");
  table.parameters = intern("_parameters");
  table.buffers = intern("_buffers");
  table.modules = intern("_modules");
  table.nn_module_getattr = Py_XNewRef(_PyType_Lookup(moduleType(), table.dunder_getattr));
  PyObject* setattr_name = intern("__setattr__");
  table.nn_module_setattr = Py_XNewRef(_PyType_Lookup(moduleType(), setattr_name));
  table.nn_module_call = Py_XNewRef(_PyType_Lookup(moduleType(), table.dunder_call));
  PyObject* call_impl = _PyType_Lookup(moduleType(), intern("_call_impl"));
  if (call_impl != nullptr && PyFunction_Check(call_impl)) {
    table.nn_module_call_impl = PyFunction_GET_CODE(call_impl);
    PyObject* constants = reinterpret_cast<PyCodeObject*>(table.nn_module_call_impl)->co_consts;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i) {
      PyObject* constant = PyTuple_GET_ITEM(constants, i);
      if (PyCode_Check(constant) &&
          PyUnicode_CompareWithASCIIString(reinterpret_cast<PyCodeObject*>(constant)->co_name,
                                           "inner") == 0) {
        table.nn_module_call_inner = constant;
      }
    }
  }
  return table.nn_module_getattr != nullptr && table.nn_module_call != nullptr;
}

}  // namespace stator::known
