// Slot wrappers and method descriptors without a row of their own, by the name of what they do: what the operator would
// do on the type that is named, whatever a subclass does otherwise.
#include "interpret/calls/slot_calls.h"

#include "base/text.h"
#include "interpret/calls/calls.h"
#include "interpret/calls/instances.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/objects/attribute_writes.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/comparisons.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/descriptors.h"
#include "interpret/objects/errors.h"
#include "interpret/objects/items.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/keys.h"
#include "interpret/objects/lookups.h"
#include "interpret/objects/membership.h"
#include "interpret/objects/native_calls.h"
#include "interpret/objects/next.h"
#include "interpret/objects/operators.h"
#include "interpret/objects/scalars.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/texts.h"
#include "interpret/objects/truth.h"
#include "interpret/objects/updates.h"
#include "interpret/tensors/tensor_call.h"
#include "values/dicts.h"

#include <optional>
#include <string_view>

namespace stator::interpret {

namespace {

// A call of a descriptor: owner.name(self, ...).
struct SlotCall {
  PyObject* descriptor;
  std::string name;
  PyTypeObject* owner;
  PyObject* self;
  const Args& args;
  Continuation then;

  // Of that name, with so many positional arguments, self among them.
  bool is(std::string_view wanted, size_t count) const {
    return args.positional == count && name == wanted;
  }
};

Out done(Flow flow) {
  STATOR_FLOW(flow);
  return newRef(Py_None);
}

bool ownsScalars(PyTypeObject* owner) {
  return owner == &PyUnicode_Type || owner == &PyLong_Type || owner == &PyFloat_Type ||
         owner == &PyBytes_Type || owner == &PyComplex_Type;
}

// What object itself does: nothing of it depends on the kind of object. Without a value: it is another slot.
std::optional<Out> callObjectSlot(Tracer& tracer, const SlotCall& slot) {
  PyObject* self = slot.self;
  const std::vector<PyObject*>& values = slot.args.values;
  if (slot.name == "__init__" && slot.owner == &PyBaseObject_Type) {
    PyTypeObject* type = typeOf(tracer, self);
    if (slot.args.positional > 1 &&
        (type->tp_init != PyBaseObject_Type.tp_init || type->tp_new == PyBaseObject_Type.tp_new))
      return tracer.breakWith(Reason::kRaises, "object.__init__() takes exactly one argument");
    return newRef(Py_None);
  }
  if (slot.name == "__init__") return nativeInit(tracer, slot.owner, slot.args);
  if (slot.name == "__get__" && slot.owner == &PyFunction_Type && PyFunction_Check(self) &&
      slot.args.positional >= 2) {
    if (values[1] == Py_None) return newRef(self);
    return stealRef(PyMethod_New(self, values[1]));
  }
  if ((slot.name == "__setattr__" || slot.name == "__delattr__") && slot.owner != &PyType_Type &&
      PyType_Check(self))
    return tracer.breakWith(Reason::kRaises, "object.__setattr__ of a class");
  if (slot.is("__setattr__", 3)) return done(setAttrGeneric(tracer, self, values[1], values[2]));
  if (slot.is("__delattr__", 2)) return done(setAttrGeneric(tracer, self, values[1], nullptr));
  if (slot.is("__getattribute__", 2) && slot.owner->tp_getattro == PyObject_GenericGetAttr &&
      !PyType_Check(self) && !PyModule_Check(self)) {
    STATOR_VALUE(found, runEntered(tracer, getAttrGeneric(tracer, self, values[1])));
    if (found) return found;
    return tracer.raiseNew(PyExc_AttributeError, "'%.50s' object has no attribute '%U'",
                           Py_TYPE(self)->tp_name, values[1]);
  }
  return std::nullopt;
}

bool isContainer(PyObject* self) {
  return PyList_Check(self) || PyTuple_Check(self) || PyDict_Check(self) || PyAnySet_Check(self) ||
         isDeque(self) || isTraceIterator(self) || PyUnicode_Check(self) || PyBytes_Check(self) ||
         PyRange_Check(self);
}

std::optional<Out> callTextSlot(Tracer& tracer, const SlotCall& slot) {
  // The slot of the type that is named: int's of True is "1", and object.__str__ asks for the repr.
  if (isNativeSafe(tracer, slot.self))
    return tracer.fromNative(stealRef(PyObject_CallOneArg(slot.descriptor, slot.self)));
  if (!isContainer(slot.self)) return std::nullopt;
  PyObject* function = slot.name == "__repr__" || slot.owner == &PyBaseObject_Type
                           ? builtinFunction("repr")
                           : reinterpret_cast<PyObject*>(&PyUnicode_Type);
  return call(tracer, function, slot.args, slot.then);
}

// A slot that the program's own classes leave as it is: the operator does the same.
std::optional<Out> callOperatorSlot(Tracer& tracer, const SlotCall& slot) {
  PyObject* self = slot.self;
  const std::vector<PyObject*>& values = slot.args.values;
  if (slot.is("__len__", 1)) return length(tracer, self);
  if (slot.is("__getitem__", 2)) return getItem(tracer, self, values[1]);
  if (slot.is("__contains__", 2)) return contains(tracer, self, values[1]);
  if (slot.is("__iter__", 1)) return iterate(tracer, self);
  if (slot.is("__next__", 1)) {
    STATOR_VALUE(item, next(tracer, self));
    if (!item) return raiseStop(tracer, self);
    return item;
  }
  if (slot.is("__setitem__", 3)) return done(setItem(tracer, self, values[1], values[2]));
  if (slot.is("__delitem__", 2)) return done(delItem(tracer, self, values[1]));
  if (slot.is("__hash__", 1) && isNativeSafe(tracer, self))
    return tracer.fromNative(stealRef(PyLong_FromSsize_t(PyObject_Hash(self))));
  if (slot.is("__repr__", 1) || slot.is("__str__", 1)) return callTextSlot(tracer, slot);
  return std::nullopt;
}

// super().__getitem__ and friends of a list or tuple subclass that overrides them.
std::optional<Out> readSequenceSlot(Tracer& tracer, const SlotCall& slot) {
  PyObject* self = slot.self;
  const std::vector<PyObject*>& values = slot.args.values;
  STATOR_VALUE(items, contents(tracer, self));
  if (slot.is("__iter__", 1))
    return tracer.made(makeTraceIterator(IteratorKind::kSequence, {newRef(self)}));
  if (slot.is("__len__", 1)) return stealRef(PyLong_FromSsize_t(Py_SIZE(items.get())));
  if (slot.is("__getitem__", 2) && isNativeSafe(tracer, values[1])) {
    const PyMappingMethods* slots = slot.owner->tp_as_mapping;
    return tracer.fromNative(stealRef(slots->mp_subscript(items.get(), values[1])));
  }
  if (slot.is("__contains__", 2)) {
    STATOR_VALUE(plain_items, tracer.made(values::itemsOf(items.get())));
    return contains(tracer, plain_items.get(), values[1]);
  }
  return std::nullopt;
}

std::optional<Out> writeListSlot(Tracer& tracer, const SlotCall& slot) {
  const std::vector<PyObject*>& values = slot.args.values;
  const size_t count = slot.args.positional;
  if (count < 2 || !isNativeSafe(tracer, values[1])) return std::nullopt;
  PyObject* value = count == 3 ? values[2] : nullptr;
  if ((slot.name == "__setitem__") != (count == 3) || PySlice_Check(values[1])) return std::nullopt;
  STATOR_VALUE(items, contentsForWrite(tracer, slot.self));
  if (PyList_Type.tp_as_mapping->mp_ass_subscript(items.get(), values[1], value) != 0)
    return tracer.raiseCurrentError();
  return newRef(Py_None);
}

// super().__getitem__ and friends of a dict subclass that overrides them.
std::optional<Out> callDictSlot(Tracer& tracer, const SlotCall& slot) {
  PyObject* self = slot.self;
  const std::vector<PyObject*>& values = slot.args.values;
  if (slot.is("__getitem__", 2)) {
    STATOR_VALUE(found, dictGet(tracer, self, values[1]));
    return found ? Out(found) : missingItem(tracer, self, values[1]);
  }
  if (slot.is("__delitem__", 2)) return done(delItemBase(tracer, self, values[1]));
  if (slot.is("__setitem__", 3)) {
    STATOR_FLOW(requireHashable(tracer, values[1]));
    STATOR_VALUE(items, contentsForWrite(tracer, self));
    return withOwnKeys(tracer, items.get(), [&](PyObject* dict) {
      return values::dictSet(dict, values[1], values[2]) ? Py_NewRef(Py_None) : nullptr;
    });
  }
  if (slot.is("__contains__", 2)) {
    STATOR_VALUE(found, dictGet(tracer, self, values[1]));
    return newRef(found ? Py_True : Py_False);
  }
  if (slot.is("__len__", 1)) {
    STATOR_VALUE(items, contents(tracer, self));
    return stealRef(PyLong_FromSsize_t(PyDict_Size(items.get())));
  }
  return std::nullopt;
}

// The slots of built-in types, reached by name or through super(): what the operator would do on the base type.
std::optional<Out> callBuiltinSlot(Tracer& tracer, const SlotCall& slot) {
  PyObject* self = slot.self;
  const std::string& name = slot.name;
  if (const int operation = comparisonOf(name.c_str());
      operation >= 0 && slot.args.positional == 2 &&
      PyType_IsSubtype(typeOf(tracer, self), slot.owner))
    return compareSlot(tracer, slot.owner, operation, self, slot.args.values[1]);
  if (slot.is("__repr__", 1) && slot.owner != &PyBaseObject_Type && isTextContainer(self) &&
      PyType_IsSubtype(Py_TYPE(self), slot.owner))
    return containerText(tracer, slot.owner, self);
  if (!isUserOverride(tracer, self, name) &&
      (isContainer(self) || name == "__hash__" || name == "__repr__" || name == "__str__"))
    return callOperatorSlot(tracer, slot);
  if (slot.owner == &PyList_Type && PyList_Check(self) &&
      (name == "__setitem__" || name == "__delitem__"))
    return writeListSlot(tracer, slot);
  if ((slot.owner == &PyList_Type && PyList_Check(self)) ||
      (slot.owner == &PyTuple_Type && PyTuple_Check(self)))
    return readSequenceSlot(tracer, slot);
  if (PyDict_Check(self) && PyType_IsSubtype(slot.owner, &PyDict_Type))
    return callDictSlot(tracer, slot);
  if (name == "__hash__" && slot.owner == &PyBaseObject_Type)
    return tracer.breakWith(Reason::kUnsupportedObject, "hashes an object by its address");
  return std::nullopt;
}

// A text without a field in it gives itself, of whatever class it is; there is one empty text.
bool givesItself(const SlotCall& slot, PyObject* text, PyObject* result) {
  return result == text && slot.owner == &PyUnicode_Type && PyUnicode_GET_LENGTH(text) != 0 &&
         (slot.name == "format" || slot.name == "format_map" || slot.name == "__mod__");
}

// Characters are all that it looks at, whatever a subclass of str does otherwise.
Out callPattern(Tracer& tracer, PyObject* descriptor, const Args& args) {
  Args exact = args;
  for (PyObject*& value : exact.values) {
    if (graph::isStandIn(value) || !PyUnicode_Check(value) || PyUnicode_CheckExact(value)) continue;
    STATOR_VALUE(text, exactScalar(tracer, value));
    tracer.world.keep(text);
    value = text.get();
  }
  return callNative(tracer, descriptor, exact);
}

// Its methods read what cannot change, and nothing else.
bool isImmutable(Tracer& tracer, const SlotCall& slot) {
  PyTypeObject* owner = slot.owner;
  if (ownsScalars(owner) || owner == &PyBool_Type || owner == &PyRange_Type ||
      owner == &PySlice_Type || owner == &PyFrozenSet_Type || owner == &PyTuple_Type ||
      isDictView(slot.self) || (owner == &PyByteArray_Type && tracer.isMade(slot.self)) ||
      isOpaqueConstant(slot.self))
    return true;
  // torch.device is also a context manager, which changes the thread's modes.
  const bool context =
      slot.name == "__enter__" || slot.name == "__exit__" || slot.name == "__call__";
  return values::isTorchConstant(slot.self) && !context;
}

}  // namespace

Out callDescriptor(Tracer& tracer, PyObject* descriptor, const Args& args, Continuation then) {
  if (args.positional == 0) return tracer.breakWith(Reason::kRaises, "a method without its object");
  PyObject* d_name = PyDescr_NAME(descriptor);
  PyTypeObject* owner = PyDescr_TYPE(descriptor);
  PyObject* self = args.values[0];
  const SlotCall slot{descriptor, utf8(d_name), owner, self, args, then};
  if (ownsScalars(owner) && slot.name != "__getattribute__") {
    // The base type's own method, of an instance of a subclass: it sees the built-in value alone.
    STATOR_VALUE(exact, exactScalar(tracer, self));
    if (exact) {
      Args replaced = args;
      replaced.values[0] = exact.get();
      STATOR_VALUE(result, callNative(tracer, descriptor, replaced));
      return givesItself(slot, exact.get(), result.get()) ? newRef(self) : std::move(result);
    }
  }
  if (slot.name == "__call__") {
    Args rest = args.withoutFirst();
    if (owner == &PyType_Type && PyType_Check(self))
      return instantiate(tracer, reinterpret_cast<PyTypeObject*>(self), rest, then, false);
    if (!isUserOverride(tracer, self, slot.name)) return call(tracer, self, rest, then);
  }
  if (graph::isStandIn(self)) {
    if (PyType_IsSubtype(tensorType(), owner) && owner != &PyBaseObject_Type)
      return tensorCall(tracer, graph::Op::kCallMethod, d_name, args);
    return tracer.breakWith(Reason::kUnsupportedTensorOp, slot.name);
  }
  if (args.keywordCount() == 0) {
    if (std::optional<Out> out = callObjectSlot(tracer, slot)) return std::move(*out);
    if (std::optional<Out> out = callBuiltinSlot(tracer, slot)) return std::move(*out);
  } else if (slot.name == "__init__" && (owner == &PyDict_Type || owner == &PyODict_Type)) {
    return nativeInit(tracer, owner, args);
  }
  if (owner->tp_name == std::string_view("re.Pattern"))
    return callPattern(tracer, descriptor, args);
  if (isImmutable(tracer, slot)) return callNative(tracer, descriptor, args);
  return tracer.breakWith(Reason::kCallsOutside, std::string(owner->tp_name) + "." + slot.name);
}

namespace {

// One that the class has a descriptor for: a property's function runs, the descriptors of C types write by themselves.
Flow setThroughDescriptor(Tracer& tracer, PyObject* object, PyObject* descriptor, PyObject* name,
                          PyObject* value) {
  if (isProperty(descriptor)) {
    Ref<> setter = stealRef(PyObject_GetAttrString(descriptor, value != nullptr ? "fset" : "fdel"));
    if (!setter || !PyFunction_Check(setter.get())) {
      PyErr_Clear();
      return tracer.breakWith(Reason::kUnsupportedMutation, "object.__setattr__ of a property");
    }
    if (tracer.values.find(setter.get()) == nullptr) {
      STATOR_VALUE(ignored,
                   fromOutside(tracer, setter.get(), tracer.world.sources().pinned(setter.get())));
    }
    Args args;
    args.values = {object};
    if (value != nullptr) args.values.push_back(value);
    args.positional = args.values.size();
    return callNested(tracer, setter.get(), args).flow();
  }
  if (!tracer.isMade(object) && value != nullptr && descriptor == classDescriptor())
    return changeClass(tracer, object, value);
  if (sharesOutsideDict(tracer, name, value))
    return tracer.breakWith(Reason::kUnsupportedMutation,
                            "a new object with a __dict__ from outside");
  if (!tracer.isMade(object))
    return tracer.breakWith(Reason::kUnsupportedMutation,
                            "object.__setattr__ through a descriptor");
  if (PyObject_GenericSetAttr(object, name, value) != 0) return tracer.raiseCurrentError();
  return Flow::kOk;
}

}  // namespace

Flow setAttrGeneric(Tracer& tracer, PyObject* object, PyObject* name, PyObject* value) {
  STATOR_FLOW(needName(tracer, name));
  if (PyType_Check(object))
    return setTypeAttr(tracer, reinterpret_cast<PyTypeObject*>(object), name, value, false);
  if (graph::isStandIn(object)) return setAttr(tracer, object, name, value);
  PyTypeObject* type = Py_TYPE(object);
  STATOR_VALUE(on_type, typeLookup(tracer, type, name));
  if (on_type && Py_TYPE(on_type.get())->tp_descr_set != nullptr &&
      Py_TYPE(on_type.get()) != &PyMemberDescr_Type)
    return setThroughDescriptor(tracer, object, on_type.get(), name, value);
  return storeInstanceAttr(tracer, object, name, value);
}

}  // namespace stator::interpret
