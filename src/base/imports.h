// Imports from C++.
#pragma once

#include "base/python.h"

namespace stator {

// New reference. PyImport_ImportModule takes __import__ from the builtins of the frame that runs, which may be the program's and have none
// (a named tuple's __new__) or another.
inline PyObject* importModule(const char* name) {
  PyObject* text = PyUnicode_FromString(name);
  PyObject* loaded = text != nullptr ? PyImport_GetModule(text) : nullptr;
  if (text != nullptr && loaded == nullptr && !PyErr_Occurred()) {
    // With a name in the list it is the module itself that comes back, not the package that it is in.
    PyObject* of_it = Py_BuildValue("(s)", "__name__");
    if (of_it != nullptr)
      loaded = PyImport_ImportModuleLevelObject(text, nullptr, nullptr, of_it, 0);
    Py_XDECREF(of_it);
  }
  Py_XDECREF(text);
  return loaded;
}

}  // namespace stator
