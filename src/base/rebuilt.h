// Containers made anew with other elements. Arguments of calls are nested containers, and whoever replaces what is in
// them is a walk: the caller says what becomes of one element, here is how a container is taken apart and put together
// again.
#pragma once

#include "base/python.h"
#include "base/ref.h"
#include "base/stack_room.h"

#include <string_view>

namespace stator {

// A tuple, list or dict of exactly that type, or a slice.
inline bool isPlainContainer(PyObject* value) {
  return PyTuple_CheckExact(value) || PyList_CheckExact(value) || PyDict_CheckExact(value) ||
         PySlice_Check(value);
}
// The same with subclasses: named tuples, torch.Size, defaultdict.
inline bool isContainer(PyObject* value) {
  return PyTuple_Check(value) || PyList_Check(value) || PyDict_Check(value) || PySlice_Check(value);
}

// The items of a tuple or list as a plain one of them.
template <class Part>
Ref<> rebuiltItems(PyObject* value, Part&& part) {
  const bool is_list = PyList_Check(value);
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(value);
  Ref<> items = stealRef(is_list ? PyList_New(size) : PyTuple_New(size));
  for (Py_ssize_t i = 0; items && i < size; ++i) {
    Ref<> item = part(PySequence_Fast_GET_ITEM(value, i));
    if (!item) return Ref<>();
    if (is_list) {
      PyList_SET_ITEM(items.get(), i, item.release());
    } else {
      PyTuple_SET_ITEM(items.get(), i, item.release());
    }
  }
  return items;
}

template <class Part>
Ref<> rebuiltSequence(PyObject* value, Part& part) {
  Ref<> items = rebuiltItems(value, part);
  if (PyList_Check(value) || PyTuple_CheckExact(value) || !items) return items;
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(value));
  if (std::string_view(Py_TYPE(value)->tp_name) == "torch.Size") {
    // It takes ints alone.
    Ref<> packed = stealRef(PyTuple_Pack(1, items.get()));
    return packed ? stealRef(PyTuple_Type.tp_new(Py_TYPE(value), packed.get(), nullptr)) : Ref<>();
  }
  // Named tuples take their fields one by one, torch's result types one sequence.
  return stealRef(PyObject_HasAttrString(type, "_fields") ? PyObject_CallObject(type, items.get())
                                                          : PyObject_CallOneArg(type, items.get()));
}

template <class Part>
Ref<> rebuiltDict(PyObject* value, Part& part) {
  PyTypeObject* type = Py_TYPE(value);
  // Those that cannot be written as dicts are, as torch.fx has them, become plain ones.
  const bool writable =
      PyODict_CheckExact(value) ||
      type->tp_as_mapping->mp_ass_subscript == PyDict_Type.tp_as_mapping->mp_ass_subscript;
  Ref<> made = stealRef(PyDict_CheckExact(value) || !writable
                            ? PyDict_New()
                            : PyObject_CallNoArgs(reinterpret_cast<PyObject*>(type)));
  PyObject *key = nullptr, *item = nullptr;
  for (Py_ssize_t at = 0; made && PyDict_Next(value, &at, &key, &item) != 0;) {
    Ref<> changed = part(item);
    if (!changed || PyObject_SetItem(made.get(), key, changed.get()) != 0) return Ref<>();
  }
  return made;
}

// `part(PyObject*)` gives a Ref<>; null from it ends the walk, and is the answer, with its error if it has set one.
// Lists become plain ones. `part` changes no container.
template <class Part>
Ref<> rebuilt(PyObject* container, Part&& part) {
  needStack();
  if (PyTuple_Check(container) || PyList_Check(container)) return rebuiltSequence(container, part);
  if (PyDict_Check(container)) return rebuiltDict(container, part);
  const auto* slice = reinterpret_cast<PySliceObject*>(container);
  Ref<> bounds[3];
  PyObject* const parts[3] = {slice->start, slice->stop, slice->step};
  for (int i = 0; i < 3; ++i) {
    bounds[i] = part(parts[i]);
    if (!bounds[i]) return Ref<>();
  }
  return stealRef(PySlice_New(bounds[0].get(), bounds[1].get(), bounds[2].get()));
}

}  // namespace stator
