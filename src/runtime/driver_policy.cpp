#include "runtime/driver_policy.h"

#include "base/imports.h"
#include "base/ref.h"
#include "known/code_policy.h"
#include "known/marks.h"

namespace stator::runtime {

namespace {

// torch._compile._disable_dynamo(fn) gives a function of this code, which marks fn at its first call only.
PyObject* disablingCode() {
  static PyObject* const found = []() -> PyObject* {
    Ref<> module = stealRef(importModule("torch._compile"));
    Ref<> outer =
        module ? stealRef(PyObject_GetAttrString(module.get(), "_disable_dynamo")) : Ref<>();
    PyErr_Clear();
    if (!outer || !PyFunction_Check(outer.get())) return nullptr;
    PyObject* constants =
        reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(outer.get()))->co_consts;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i) {
      if (PyCode_Check(PyTuple_GET_ITEM(constants, i)))
        return newRef(PyTuple_GET_ITEM(constants, i)).release();
    }
    return nullptr;
  }();
  return found;
}

bool disablesAllBelow(PyFunctionObject* function) {
  if (function->func_code != disablingCode() || function->func_closure == nullptr) return false;
  Ref<> names = stealRef(PyCode_GetFreevars(reinterpret_cast<PyCodeObject*>(function->func_code)));
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names.get()); ++i) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names.get(), i), "recursive") == 0)
      return PyCell_GET(PyTuple_GET_ITEM(function->func_closure, i)) == Py_True;
  }
  PyErr_Clear();
  return false;
}

}  // namespace

bool isMarkedNative(PyFunctionObject* function) {
  if (disablesAllBelow(function)) return true;
  return known::markOf(reinterpret_cast<PyObject*>(function)) == known::Mark::kDisabled;
}

bool importsModule(PyCodeObject* code) {
  static PyObject* const name = PyUnicode_InternFromString("_find_and_load");
  return code->co_name == name &&
         PyUnicode_CompareWithASCIIString(code->co_filename, "<frozen importlib._bootstrap>") == 0;
}

bool standsForNative(PyCodeObject* code) { return known::isPolyfill(code); }

}  // namespace stator::runtime
