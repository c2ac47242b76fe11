// How a function takes its arguments, and how those of a call get into its slots, as CPython does it: one body for
// calls without a frame (runtime/direct_call.cpp) and for calls in a trace (interpret/calls/inlining.cpp).
#pragma once

#include "base/ref.h"
#include "python/frame.h"

#include <algorithm>
#include <utility>

namespace stator::bytecode {

struct Parameters {
  PyObject* names = nullptr;  // of all slots; the code's
  int positional = 0;
  int positional_only = 0;  // of these
  int keyword_only = 0;
  int rest = -1, named_rest = -1;  // slots of *args and **kwargs; -1: it has none

  Parameters() = default;
  explicit Parameters(PyCodeObject* code)
      : names(stator_code_slot_names(code)),
        positional(code->co_argcount),
        positional_only(code->co_posonlyargcount),
        keyword_only(code->co_kwonlyargcount) {
    int next = named();
    if ((code->co_flags & CO_VARARGS) != 0) rest = next++;
    if ((code->co_flags & CO_VARKEYWORDS) != 0) named_rest = next;
  }
  // The slots before this one have names that arguments may have, but for the first positional_only.
  int named() const { return positional + keyword_only; }
  PyObject* name(int slot) const { return PyTuple_GET_ITEM(names, slot); }
};

// False: the arguments do not fit, which is for CPython to say, or `into` gave up. It is where they go:
//   PyObject* given(Py_ssize_t i)                    the i-th without a name
//   PyObject* named(Py_ssize_t i)                    the i-th of those with names
//   bool has(int slot); void set(int slot, PyObject* value); void keep(int slot, Ref<> made)
//   bool takesName(PyObject* name)                   false: gives up
//   bool isName(PyObject* parameter, PyObject* name)
//   bool setDefaults(int first)                      those that there are, of positional slots from here on
//   bool setKeywordDefault(int slot)
template <class Into>
[[gnu::always_inline]] inline bool bindArguments(const Parameters& parameters, Py_ssize_t given,
                                                 PyObject* names, Into& into) {
  const int taken =
      static_cast<int>(std::min<Py_ssize_t>(given, static_cast<Py_ssize_t>(parameters.positional)));
  for (int slot = 0; slot < taken; ++slot) into.set(slot, into.given(slot));
  if (parameters.rest >= 0) {
    Ref<> rest = stealRef(PyTuple_New(given - taken));
    if (!rest) return false;
    for (Py_ssize_t i = taken; i < given; ++i)
      PyTuple_SET_ITEM(rest.get(), i - taken, Py_NewRef(into.given(i)));
    into.keep(parameters.rest, std::move(rest));
  } else if (given > taken) {
    return false;
  }
  PyObject* named_rest = nullptr;
  if (parameters.named_rest >= 0) {
    Ref<> made = stealRef(PyDict_New());
    if (!made) return false;
    named_rest = made.get();
    into.keep(parameters.named_rest, std::move(made));
  }
  const Py_ssize_t named = names != nullptr ? PyTuple_GET_SIZE(names) : 0;
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyObject* name = PyTuple_GET_ITEM(names, i);
    if (!into.takesName(name)) return false;
    int slot = parameters.positional_only;
    while (slot < parameters.named() && !into.isName(parameters.name(slot), name)) ++slot;
    if (slot < parameters.named()) {
      if (into.has(slot)) return false;
      into.set(slot, into.named(i));
    } else if (named_rest == nullptr || PyDict_SetItem(named_rest, name, into.named(i)) != 0) {
      return false;
    }
  }
  if (taken < parameters.positional && !into.setDefaults(taken)) return false;
  for (int slot = taken; slot < parameters.positional; ++slot) {
    if (!into.has(slot)) return false;
  }
  for (int slot = parameters.positional; slot < parameters.named(); ++slot) {
    if (!into.has(slot) && !into.setKeywordDefault(slot)) return false;
  }
  return true;
}

}  // namespace stator::bytecode
