// An operator may take objects of a class that torch was told of (register_opaque_type). Those of kind "value" stand
// for what is in them, as constants do: they compare by it, and nobody changes them. So the graph gets a copy, which
// nothing that the program does later can reach, and each attribute of one from outside is guarded.
#include "interpret/tensors/opaque_values.h"

#include "base/imports.h"
#include "interpret/core/known.h"
#include "interpret/core/symbols.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/contents.h"
#include "interpret/tensors/torch_calls.h"
#include "python/types.h"
#include "symbolic/sym_int.h"

namespace stator::interpret {

namespace {

bool isOpaqueValue(PyTypeObject* type) {
  if (!stator_is_user_class(type)) return false;
  // Who has registered a class has imported it.
  static PyObject* const name = PyUnicode_InternFromString("torch._library.opaque_object");
  Ref<> module = stealRef(PyImport_GetModule(name));
  Ref<> answer =
      module ? stealRef(PyObject_CallMethod(module.get(), "is_opaque_value_type", "O", type))
             : Ref<>();
  PyErr_Clear();
  return answer.get() == Py_True;
}

// All of its state is its __dict__.
bool hasSlots(PyTypeObject* type) {
  Ref<> module = stealRef(importModule("copyreg"));
  Ref<> slots =
      module ? stealRef(PyObject_CallMethod(module.get(), "_slotnames", "O", type)) : Ref<>();
  PyErr_Clear();
  return !slots || PyObject_Size(slots.get()) != 0;
}

}  // namespace

Out opaqueValue(Tracer& tracer, PyObject* object, int depth) {
  PyTypeObject* type = Py_TYPE(object);
  if (!isOpaqueValue(type)) return Ref<>();
  const auto refuse = [&](const char* why) {
    return tracer.breakWith(Reason::kUnsupportedTensorOp,
                            std::string("an argument is a ") + type->tp_name + why);
  };
  Ref<> copy = hasSlots(type)
                   ? Ref<>()
                   : stealRef(PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyBaseObject_Type),
                                                  "__new__", "O", type));
  PyErr_Clear();
  Ref<> attributes = copy ? stealRef(PyObject_GenericGetDict(copy.get(), nullptr)) : Ref<>();
  PyErr_Clear();
  if (!attributes) return refuse(", whose state is not all in its __dict__");
  STATOR_VALUE(dict, tracer.isMade(object) ? Out(stealRef(PyObject_GenericGetDict(object, nullptr)))
                                           : getAttr(tracer, object, names().dunder_dict));
  STATOR_VALUE(items, contents(tracer, dict.get()));
  PyObject *key = nullptr, *raw = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(items.get(), &position, &key, &raw)) {
    STATOR_VALUE(item, symbolic::isSymbol(raw) ? concrete(tracer, raw)
                                               : graphArgument(tracer, raw, depth + 1));
    if (graph::isStandIn(item.get()) || hasStandIn(tracer, item.get()))
      return refuse(" that has a tensor in it");
    if (PyDict_SetItem(attributes.get(), key, item.get()) != 0) return tracer.raiseCurrentError();
  }
  return copy;
}

}  // namespace stator::interpret
