// Characters of Python's strings, for names and messages: the only place that asks CPython for them. A str may hold
// what no encoding knows (a lone surrogate, a path of strange bytes), and what should be a str may be anything else.
#pragma once

#include "base/python.h"

#include <optional>
#include <string_view>

namespace stator {

// null with Python's error set: for doors, which hand it on
inline const char* utf8OrError(PyObject* text) { return PyUnicode_AsUTF8(text); }

// null where there are none; no error is set, and one that is set stays
inline const char* utf8OrNull(PyObject* text) {
  if (text == nullptr || !PyUnicode_Check(text)) return nullptr;
  if (PyUnicode_IS_COMPACT_ASCII(text))
    return static_cast<const char*>(PyUnicode_DATA(text));  // the usual case: nothing can fail
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  const char* characters = PyUnicode_AsUTF8(text);
  PyErr_Restore(type, value, trace);  // which drops what the call has set
  return characters;
}

// A sign stands for all of it where there are none, which is nobody's name.
inline const char* utf8(PyObject* text) {
  const char* characters = utf8OrNull(text);
  return characters != nullptr ? characters : "?";
}

// With zero characters in the middle, if there are such.
inline std::optional<std::string_view> utf8View(PyObject* text) {
  if (utf8OrNull(text) == nullptr) return std::nullopt;
  Py_ssize_t size = 0;
  const char* characters = PyUnicode_AsUTF8AndSize(text, &size);  // kept by the str since
  return std::string_view(characters, static_cast<size_t>(size));
}

}  // namespace stator
