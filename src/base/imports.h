// Imports from C++.
#pragma once

#include "base/ref.h"

namespace stator {

// A module that somebody has imported; null without an error: nobody has.
inline Ref<> loadedModule(const char* name) {
  const Ref<> text = stealRef(PyUnicode_FromString(name));
  Ref<> found = text ? stealRef(PyImport_GetModule(text.get())) : Ref<>();
  PyErr_Clear();
  return found;
}

// New reference. PyImport_ImportModule takes __import__ from the builtins of the frame that runs, which may be the
// program's and have none (a named tuple's __new__) or another.
inline PyObject* importModule(const char* name) {
  const Ref<> text = stealRef(PyUnicode_FromString(name));
  PyObject* loaded = text ? PyImport_GetModule(text.get()) : nullptr;
  if (!text || loaded != nullptr || PyErr_Occurred()) return loaded;
  // With a name in the list it is the module itself that comes back, not the package that it is in.
  const Ref<> of_it = stealRef(Py_BuildValue("(s)", "__name__"));
  return of_it ? PyImport_ImportModuleLevelObject(text.get(), nullptr, nullptr, of_it.get(), 0)
               : nullptr;
}

}  // namespace stator
