// Instances of subclasses of str, int, float, complex and bytes, for C code that looks at the built-in value in them only; and addresses,
// which are numbers that a trace may compare but never knows.
#include "interpret/known_types.h"
#include "interpret/names.h"
#include "interpret/torch_names.h"
#include "interpret/tracer.h"
#include "python/objects.h"

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

bool keepsBuiltinMeaning(PyTypeObject* type) {
  for (; (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0; type = type->tp_base) {
    PyObject *name = nullptr, *entry = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(type->tp_dict, &position, &name, &entry)) {
      // Special methods in C: `__str__ = int.__repr__` keeps to the value, `__eq__ = object.__eq__` and `__eq__ = str.__eq__` do not.
      PyTypeObject* owner = Py_TYPE(entry) == &PyWrapperDescr_Type
                                ? reinterpret_cast<PyDescrObject*>(entry)->d_type
                                : nullptr;
      if (!PyUnicode_Check(name) || harmless(PyUnicode_AsUTF8(name))) continue;
      const bool other =
          owner != nullptr &&
          (owner == &PyBaseObject_Type || !PyType_IsSubtype(type, owner) ||
           (PyUnicode_CompareWithASCIIString(name, "__str__") != 0 &&
            PyUnicode_Compare(reinterpret_cast<PyDescrObject*>(entry)->d_name, name) != 0));
      if (PyFunction_Check(entry) || other) return false;
    }
  }
  // What is written in C beyond the built-in types (numpy.float64) has operators of its own.
  return type == &PyLong_Type || type == &PyFloat_Type || type == &PyComplex_Type ||
         type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyBool_Type;
}

PyTypeObject* addressType() {
  static PyTypeObject* type = [] {
    static PyType_Slot slots[] = {{0, nullptr}};
    static PyType_Spec spec = {"stator._core.Address", 0, 0, Py_TPFLAGS_DEFAULT, slots};
    Ref<> bases = stealRef(PyTuple_Pack(1, &PyLong_Type));
    return reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&spec, bases.get()));
  }();
  return type;
}

}  // namespace

bool isAddress(PyObject* object) { return object != nullptr && Py_TYPE(object) == addressType(); }

Out Tracer::addressOf(PyObject* object) {
  // CPython takes a tuple that nobody holds any more for the next one: whether it does cannot be told here.
  if (PyTuple_CheckExact(object) && sourceOf(object) == nullptr &&
      code_constants.count(object) == 0)
    return breakWith(breaks::Reason::kUnsupportedObject,
                     "the address of a tuple made in the trace");
  if (!values::isScalar(object)) noteIdentity(object);
  if (auto it = addresses.find(object); it != addresses.end()) return it->second.second;
  Ref<> number = stealRef(PyLong_FromVoidPtr(object));
  STATOR_VALUE(address, addressOfNumber(object, number.get()));
  addresses[object] = {newRef(object), address};
  return address;
}

Out Tracer::addressOfNumber(PyObject* object, PyObject* number) {
  Ref<> address = stealRef(PyObject_CallOneArg(reinterpret_cast<PyObject*>(addressType()), number));
  if (!address) return raiseCurrentError();
  values.addMade(address, count);
  address_targets[address.get()] = object;
  keep_alive.push_back(newRef(object));
  return address;
}

Out Tracer::pinnedAddress(PyObject* address) {
  PyObject* target = addressTarget(address);
  const sources::Source* source = nullptr;
  if (graph::isStandIn(target)) {
    source = graph::asStandIn(target)->node->source;
    target = graph::asStandIn(target)->node->example.get();
  } else if (!isMade(target)) {
    source = sourceOf(target);
  }
  // a guard must not keep it alive
  if (target != nullptr && Py_TYPE(target)->tp_weaklistoffset == 0) source = nullptr;
  if (source != nullptr && source->kind == SourceKind::kDrawn) source = nullptr;
  if (source == nullptr || target == nullptr)
    return breakWith(Reason::kUnsupportedObject, "the address of an object that the capture makes");
  guards->add(Guard{GuardKind::kIsWeak, source, nullptr, newRef(target)});
  return stealRef(PyLong_FromVoidPtr(target));
}

PyObject* Tracer::addressTarget(PyObject* address) {
  auto it = address_targets.find(address);
  return it == address_targets.end() ? nullptr : it->second;
}

void Tracer::noteCodeConstant(PyObject* constant) {
  if (PyTuple_CheckExact(constant)) {
    if (!code_constants.insert(constant).second) return;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constant); ++i)
      noteCodeConstant(PyTuple_GET_ITEM(constant, i));
  } else if (PyFrozenSet_CheckExact(constant)) {
    code_constants.insert(constant);
  }
}

void Tracer::noteIdentity(PyObject* object) {
  if (graph::isStandIn(object)) {
    graph::Node* node = graph::asStandIn(object)->node;
    if (node->op == graph::Op::kInput) identities.emplace(node->source, tensorType());
  } else if (values::Info* info = values.find(object);
             info != nullptr && info->origin == values::Origin::kOutside && !PyType_Check(object)) {
    identities.emplace(info->source, Py_TYPE(object));
  }
}

Out Tracer::exactScalar(PyObject* value) {
  if (graph::isStandIn(value) || values::isScalar(value) || isAddress(value)) return Ref<>();
  Ref<> exact = stealRef(stator_exact_scalar(value));
  if (!exact) return exact;
  values::Info* info = values.find(value);
  if (info != nullptr && info->origin == values::Origin::kOutside && !isEnumMember(value)) {
    guards->add(Guard{GuardKind::kEquals, sources->child(SourceKind::kScalarValue, info->source),
                      nullptr, exact});
  }
  return exact;
}

Out Tracer::plainScalar(PyObject* value) {
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
    STATOR_VALUE(ignored, typeLookup(type, name));
  }
  return exactScalar(value);
}

}  // namespace stator::interpret
