// The body of debug/specimen.h's rewritten(): arguments are nested containers, and every edit is a walk over them.
#pragma once

#include "base/boundary.h"
#include "base/stack_room.h"
#include "debug/specimen.h"

namespace stator::debug {

template <class Swap, class Constant>
Ref<> rewritten(PyObject* value, Swap& swap, Constant& constant) {
  needStack();
  if (graph::isStandIn(value)) return swap(graph::asStandIn(value)->node);
  if (PyTuple_Check(value) || PyList_Check(value)) {
    Py_ssize_t size = PySequence_Fast_GET_SIZE(value);
    Ref<> items = orThrow(PyTuple_New(size));
    for (Py_ssize_t i = 0; i < size; ++i) {
      PyTuple_SET_ITEM(items.get(), i,
                       rewritten(PySequence_Fast_GET_ITEM(value, i), swap, constant).release());
    }
    if (PyTuple_CheckExact(value)) return items;
    if (PyList_Check(value)) return orThrow(PySequence_List(items.get()));
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(value));
    // Named tuples take their fields one by one; torch.Size and torch's result types take one sequence.
    return orThrow(PyObject_HasAttrString(type, "_fields")
                       ? PyObject_CallObject(type, items.get())
                       : PyObject_CallOneArg(type, items.get()));
  }
  if (PyDict_Check(value)) {
    Ref<> dict = orThrow(PyDict_New());
    PyObject* key = nullptr;
    PyObject* item = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(value, &at, &key, &item);) {
      if (PyDict_SetItem(dict.get(), key, rewritten(item, swap, constant).get()) < 0)
        throw PythonError();
    }
    return dict;
  }
  if (PySlice_Check(value)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(value);
    Ref<> start = rewritten(slice->start, swap, constant);
    Ref<> stop = rewritten(slice->stop, swap, constant);
    Ref<> step = rewritten(slice->step, swap, constant);
    return orThrow(PySlice_New(start.get(), stop.get(), step.get()));
  }
  return constant(value);
}

}  // namespace stator::debug
