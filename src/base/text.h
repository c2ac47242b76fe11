// Characters of Python's strings, for names and messages.
#pragma once

#include "base/python.h"

namespace stator {

// A str may hold what no encoding knows (a path of strange bytes): a sign stands for all of it then, which is nobody's name.
inline const char* utf8(PyObject* text) {
  if (const char* characters = PyUnicode_AsUTF8(text)) return characters;
  PyErr_Clear();
  return "?";
}

}  // namespace stator
