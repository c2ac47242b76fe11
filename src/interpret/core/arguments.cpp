#include "interpret/core/arguments.h"

#include "base/text.h"

namespace stator::interpret {

std::string nameOf(PyObject* callable) {
  Ref<> name = stealRef(
      PyObject_GetAttrString(callable, PyType_Check(callable) ? "__name__" : "__qualname__"));
  if (!name || !PyUnicode_Check(name.get())) {
    PyErr_Clear();
    return Py_TYPE(callable)->tp_name;
  }
  return utf8(name.get());
}

std::string describe(PyObject* callable) {
  Ref<> name = stealRef(PyObject_GetAttrString(callable, "__qualname__"));
  if (!name || !PyUnicode_Check(name.get())) {
    PyErr_Clear();
    return Py_TYPE(callable)->tp_name;
  }
  return utf8(name.get());
}

}  // namespace stator::interpret
