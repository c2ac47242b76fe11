// Instances of subclasses of str, int, float, complex and bytes, for C code that looks at the built-in value in them
// only; and addresses, which are numbers that a trace may compare but never knows.
#include "interpret/objects/scalars.h"

#include "base/text.h"
#include "interpret/core/known.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/class_lookups.h"
#include "python/objects.h"
#include "python/types.h"

#include <string_view>

namespace stator::interpret {

namespace {

// Special methods that C code does not reach through the value: whoever names them gets them by attribute look-up.
bool harmless(std::string_view name) {
  for (std::string_view known :
       {"__new__", "__init__", "__init_subclass__", "__class_getitem__", "__getattr__", "__repr__",
        "__reduce__", "__reduce_ex__", "__getnewargs__", "__set_name__", "__del__", "__copy__",
        "__deepcopy__"}) {
    if (name == known) return true;
  }
  return name.substr(0, 2) != "__";
}

// What Python's own classes have under such names without meaning an operation by it.
bool isOperation(std::string_view name) {
  for (std::string_view known :
       {"__module__", "__doc__", "__qualname__", "__slots__", "__dict__", "__weakref__",
        "__annotations__", "__match_args__", "__orig_bases__", "__parameters__",
        "__abstractmethods__", "__class__", "__classcell__", "__static_attributes__",
        "__firstlineno__", "__type_params__"}) {
    if (name == known) return false;
  }
  return name.ends_with("__");
}

bool keepsBuiltinMeaning(PyTypeObject* type) {
  for (; stator_is_user_class(type); type = type->tp_base) {
    PyObject *name = nullptr, *entry = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(stator_type_entries(type), &position, &name, &entry)) {
      // Special methods in C: `__str__ = int.__repr__` keeps to the value, `__eq__ = object.__eq__` and `__eq__ =
      // str.__eq__` do not.
      PyTypeObject* owner = Py_TYPE(entry) == &PyWrapperDescr_Type ? PyDescr_TYPE(entry) : nullptr;
      if (!PyUnicode_Check(name) || harmless(utf8(name))) continue;
      const bool other =
          owner != nullptr && (owner == &PyBaseObject_Type || !PyType_IsSubtype(type, owner) ||
                               (PyUnicode_CompareWithASCIIString(name, "__str__") != 0 &&
                                PyUnicode_Compare(PyDescr_NAME(entry), name) != 0));
      const bool native = owner != nullptr || Py_TYPE(entry) == &PyMethodDescr_Type ||
                          Py_TYPE(entry) == &PyGetSetDescr_Type ||
                          Py_TYPE(entry) == &PyMemberDescr_Type;
      if (other || (!native && isOperation(utf8(name)))) return false;
    }
  }
  // What is written in C beyond the built-in types (numpy.float64) has operators of its own.
  return type == &PyLong_Type || type == &PyFloat_Type || type == &PyComplex_Type ||
         type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyBool_Type;
}

}  // namespace

Out addressOf(Tracer& tracer, PyObject* object) {
  // CPython takes a tuple that nobody holds any more for the next one: whether it does cannot be told here.
  if (PyTuple_CheckExact(object) && tracer.sourceOf(object) == nullptr &&
      !tracer.identities.isCodeConstant(object))
    return tracer.breakWith(breaks::Reason::kUnsupportedObject,
                            "the address of a tuple made in the trace");
  if (!values::isScalar(object)) noteIdentity(tracer, object);
  if (PyObject* known = tracer.identities.addressOf(object)) return newRef(known);
  Ref<> number = stealRef(PyLong_FromVoidPtr(object));
  STATOR_VALUE(address, addressOfNumber(tracer, object, number.get()));
  tracer.identities.setAddress(object, address);
  return address;
}

Out addressOfNumber(Tracer& tracer, PyObject* object, PyObject* number) {
  Ref<> address = stealRef(PyObject_CallOneArg(reinterpret_cast<PyObject*>(addressType()), number));
  if (!address) return tracer.raiseCurrentError();
  tracer.values.addMade(address.get(), tracer.budget.instructions());
  tracer.identities.setTarget(address.get(), object);
  tracer.world.keep(newRef(object));
  return address;
}

Out pinnedAddress(Tracer& tracer, PyObject* address) {
  PyObject* target = addressTarget(tracer, address);
  const sources::Source* source = nullptr;
  if (graph::isStandIn(target)) {
    source = graph::asStandIn(target)->node->source;
    target = graph::asStandIn(target)->node->example.get();
  } else if (!tracer.isMade(target)) {
    source = tracer.sourceOf(target);
  }
  // a guard must not keep it alive
  if (target != nullptr && !PyType_SUPPORTS_WEAKREFS(Py_TYPE(target))) source = nullptr;
  if (source != nullptr && source->kind == SourceKind::kDrawn) source = nullptr;
  if (source == nullptr || target == nullptr)
    return tracer.breakWith(Reason::kUnsupportedObject,
                            "the address of an object that the capture makes");
  tracer.world.guard(Guard{GuardKind::kIsWeak, source, nullptr, newRef(target)});
  return stealRef(PyLong_FromVoidPtr(target));
}

PyObject* addressTarget(Tracer& tracer, PyObject* address) {
  return tracer.identities.targetOf(address);
}

void noteCodeConstant(Tracer& tracer, PyObject* constant) {
  if (PyTuple_CheckExact(constant)) {
    if (!tracer.identities.addCodeConstant(constant)) return;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constant); ++i)
      noteCodeConstant(tracer, PyTuple_GET_ITEM(constant, i));
  } else if (PyFrozenSet_CheckExact(constant)) {
    tracer.identities.addCodeConstant(constant);
  }
}

void noteIdentity(Tracer& tracer, PyObject* object) {
  if (graph::isStandIn(object)) {
    graph::Node* node = graph::asStandIn(object)->node;
    if (node->op == graph::Op::kInput) tracer.identities.note(node->source, tensorType());
  } else if (values::Info* info = tracer.values.find(object);
             info != nullptr && info->origin == values::Origin::kOutside && !PyType_Check(object)) {
    tracer.identities.note(info->source, Py_TYPE(object));
  }
}

Out exactScalar(Tracer& tracer, PyObject* value) {
  if (graph::isStandIn(value) || values::isScalar(value) || isAddress(value)) return Ref<>();
  Ref<> exact = stealRef(stator_exact_scalar(value));
  if (!exact) return exact;
  values::Info* info = tracer.values.find(value);
  if (info != nullptr && info->origin == values::Origin::kOutside && !isEnumMember(value)) {
    tracer.world.guard(Guard{GuardKind::kEquals,
                             tracer.world.child(SourceKind::kScalarValue, info->source), nullptr,
                             exact});
  }
  return exact;
}

Out plainScalar(Tracer& tracer, PyObject* value) {
  if (graph::isStandIn(value) || values::isScalar(value) || isAddress(value)) return Ref<>();
  PyTypeObject* type = Py_TYPE(value);
  bool scalar = PyType_FastSubclass(type, Py_TPFLAGS_LONG_SUBCLASS | Py_TPFLAGS_UNICODE_SUBCLASS |
                                              Py_TPFLAGS_BYTES_SUBCLASS) ||
                PyFloat_Check(value) || PyComplex_Check(value);
  if (!scalar || !keepsBuiltinMeaning(type)) return Ref<>();
  static PyObject* const looked_up[] = {
      PyUnicode_InternFromString("__str__"),  PyUnicode_InternFromString("__eq__"),
      PyUnicode_InternFromString("__hash__"), PyUnicode_InternFromString("__index__"),
      PyUnicode_InternFromString("__int__"),  PyUnicode_InternFromString("__float__"),
      PyUnicode_InternFromString("__len__"),  PyUnicode_InternFromString("__format__")};
  for (PyObject* name : looked_up) {
    STATOR_VALUE(ignored, typeLookup(tracer, type, name));
  }
  return exactScalar(tracer, value);
}

}  // namespace stator::interpret
