#include "known/names.h"

#include "base/hot.h"
#include "known/known_types.h"

namespace stator::known {

namespace {

Names table;

// A function that torch's file with nn.Module defines under that name. The first one that is seen is kept in `code`.
bool isOwn(PyObject* found, const char* qualname, PyObject*& code) {
  if (found == nullptr || !PyFunction_Check(found)) return false;
  if (code != nullptr) return PyFunction_GET_CODE(found) == code;
  static PyObject* file = PyImport_ImportModule("torch.nn.modules.module");
  if (file == nullptr) {
    PyErr_Clear();
    return false;
  }
  PyObject* seen = PyFunction_GET_CODE(found);
  if (PyFunction_GET_GLOBALS(found) != PyModule_GetDict(file) ||
      PyUnicode_CompareWithASCIIString(reinterpret_cast<PyCodeObject*>(seen)->co_qualname,
                                       qualname) != 0)
    return false;
  code = Py_NewRef(seen);
  return true;
}

void noteHooksPart(PyCodeObject* call_impl) {
  PyObject* constants = call_impl->co_consts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i) {
    PyObject* constant = PyTuple_GET_ITEM(constants, i);
    if (PyCode_Check(constant) &&
        PyUnicode_CompareWithASCIIString(reinterpret_cast<PyCodeObject*>(constant)->co_name,
                                         "inner") == 0)
      table.nn_module_call_inner = constant;
  }
}

}  // namespace

STATOR_HOT const Names& names() { return table; }

bool initNames() {
  if (table.func != nullptr) return true;
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
  table.dunder_getattribute = intern("__getattribute__");
  table.call_impl = intern("_call_impl");
  table.compiled_call_impl = intern("_compiled_call_impl");
  table.forward = intern("forward");
  table.parameters = intern("_parameters");
  table.buffers = intern("_buffers");
  table.modules = intern("_modules");
  isModuleGetattr(_PyType_Lookup(moduleType(), table.dunder_getattr));
  isModuleCall(_PyType_Lookup(moduleType(), table.dunder_call));
  isModuleCallImpl(_PyType_Lookup(moduleType(), table.call_impl));
  return true;
}

bool isModuleGetattr(PyObject* found) {
  return isOwn(found, "Module.__getattr__", table.nn_module_getattr);
}

bool isModuleCall(PyObject* found) {
  return isOwn(found, "Module._wrapped_call_impl", table.nn_module_call);
}

bool isModuleCallImpl(PyObject* found) {
  const bool first = table.nn_module_call_impl == nullptr;
  const bool own = isOwn(found, "Module._call_impl", table.nn_module_call_impl);
  if (own && first) noteHooksPart(reinterpret_cast<PyCodeObject*>(table.nn_module_call_impl));
  return own;
}

}  // namespace stator::known
