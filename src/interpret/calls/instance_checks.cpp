// isinstance(), and what type's own checks say when a metaclass of the program's asks them.
#include "interpret/calls/instance_checks.h"

#include "base/stack_room.h"
#include "base/text.h"
#include "interpret/calls/calls.h"
#include "interpret/calls/rows.h"
#include "interpret/core/apparent_types.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/subclass_checks.h"
#include "interpret/objects/truth.h"
#include "interpret/tensors/arrays.h"
#include "interpret/tensors/tensor_attributes.h"
#include "interpret/tensors/tensor_call.h"
#include "python/types.h"

namespace stator::interpret {

namespace {

// A compiled function gives out the class of what was compiled as its own.
Out saysItIsFunction(Tracer& tracer, PyObject* compiled) {
  const Source* source = tracer.sourceOf(compiled);
  if (source == nullptr) source = tracer.world.sources().pinned(compiled);
  Ref<> said = stealRef(PyObject_GetAttr(compiled, names().dunder_class));
  if (!said) return tracer.raiseCurrentError();
  STATOR_VALUE(seen, fromOutside(tracer, said.get(),
                                 tracer.world.child(SourceKind::kGenericAttr, source,
                                                    names().dunder_class)));
  return newRef(seen.get() == reinterpret_cast<PyObject*>(&PyFunction_Type) ? Py_True : Py_False);
}

// The class that an object gives out as its own (`__class__`) where that is not its type; ok with a null Ref otherwise.
// isinstance() believes both.
Out classGivenOut(Tracer& tracer, PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  static PyObject* const reads = PyUnicode_InternFromString("__getattribute__");
  if (typeOf(tracer, object) != type || type == compiledFunctionType()) return Ref<>();
  const bool says = _PyType_Lookup(type, names().dunder_class) !=
                        _PyType_Lookup(&PyBaseObject_Type, names().dunder_class) ||
                    (type->tp_getattro != PyObject_GenericGetAttr &&
                     PyFunction_Check(_PyType_Lookup(type, reads)));
  if (PyWeakref_CheckProxy(object))
    return tracer.breakWith(Reason::kUnsupportedAttribute, "the class of a weak proxy");
  if (!says || PyType_Check(object) || isTraceIterator(object)) return Ref<>();
  STATOR_VALUE(said, runEntered(tracer, getAttrOrNull(tracer, object, names().dunder_class)));
  return said && PyType_Check(said.get()) && said.get() != reinterpret_cast<PyObject*>(type)
             ? said
             : Ref<>();
}

// An instance by a class that may have a word of its own.
// Whether a metaclass asks no more than the bases and __subclasshook__.
bool isAbcsOwn(PyTypeObject* meta) {
  static PyObject* const abstract = torchObject("abc.ABCMeta");
  static PyObject* const enumeration = torchObject("enum.EnumMeta");
  auto* object = reinterpret_cast<PyObject*>(meta);
  return object == abstract || object == enumeration;
}

Out isInstanceOf(Tracer& tracer, PyObject* object, PyTypeObject* type, PyTypeObject* wanted) {
  auto* classinfo = reinterpret_cast<PyObject*>(wanted);
  static PyObject* check = PyUnicode_InternFromString("__instancecheck__");
  PyObject* hook = _PyType_Lookup(Py_TYPE(classinfo), check);
  const bool abstract = isAbcsOwn(Py_TYPE(classinfo));
  // A metaclass may deny what the bases say, but of instances of the very class it is not asked.
  const bool denies = PyFunction_Check(hook) && type != wanted && !abstract;
  // The bases of a class may be set.
  if (!graph::isStandIn(object)) (void)typeLookup(tracer, type, names().dunder_class);
  if (!denies && PyType_IsSubtype(type, wanted)) return newRef(Py_True);
  if (type == compiledFunctionType() && wanted == &PyFunction_Type)
    return saysItIsFunction(tracer, object);
  const bool plain = hook == _PyType_Lookup(&PyType_Type, check);
  if (plain || abstract) {
    STATOR_VALUE(said, classGivenOut(tracer, object));
    if (said) {
      STATOR_VALUE(fits, isSubclass(tracer, said.get(), classinfo));
      if (plain || fits.get() == Py_True) return fits;
    }
    if (plain) return newRef(Py_False);
  }
  if (abstract) return isSubclass(tracer, reinterpret_cast<PyObject*>(type), classinfo);
  if (isFollowed(hook)) {
    STATOR_VALUE(function, classAttrValue(tracer, Py_TYPE(classinfo), check, hook));
    STATOR_VALUE(result, callNested(tracer, function.get(), {classinfo, object}));
    return truth(tracer, result.get());
  }
  if (type != Py_TYPE(object))  // it stands for an object of that type
    return isSubclass(tracer, reinterpret_cast<PyObject*>(type), classinfo);
  return Ref<>();
}

// Parameter's metaclass also accepts tensors with the mark `_is_param`.
Out isParameter(Tracer& tracer, PyObject* object, PyTypeObject* type) {
  static PyObject* const mark = PyUnicode_InternFromString("_is_param");
  if (PyType_IsSubtype(type, parameterType())) return newRef(Py_True);
  if (!graph::isStandIn(object) || graph::asStandIn(object)->meta == nullptr)
    return newRef(Py_False);
  if (wrapperOf(object) != nullptr && graph::asStandIn(object)->meta->is_parameter)
    return newRef(Py_True);
  STATOR_VALUE(marked, runEntered(tracer, getAttrOrNull(tracer, object, mark)));
  return marked ? truth(tracer, marked.get()) : newRef(Py_False);
}

}  // namespace

Out isInstance(Tracer& tracer, PyObject* object, PyObject* classinfo) {
  needStack();
  if (PyTuple_Check(classinfo)) {
    STATOR_VALUE(items, contents(tracer, classinfo));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
      STATOR_VALUE(one, isInstance(tracer, object, PyTuple_GET_ITEM(items.get(), i)));
      if (one.get() == Py_True) return one;
    }
    return newRef(Py_False);
  }
  if (isSomeGradFn(object))
    return tracer.breakWith(Reason::kUnsupportedAttribute, "the type of a grad_fn");
  PyTypeObject* type = isTraceArray(object) ? arrayTypeSeen(object) : typeOf(tracer, object);
  if (classinfo == reinterpret_cast<PyObject*>(parameterType()))
    return isParameter(tracer, object, type);
  if (graph::isStandIn(object) &&
      std::string_view(Py_TYPE(classinfo)->tp_name) == "torch.tensortype") {
    // torch.FloatTensor and its like stand for a dtype on a kind of device.
    const shapes::TensorMeta* meta = graph::asStandIn(object)->meta;
    Ref<> dtype = stealRef(PyObject_GetAttrString(classinfo, "dtype"));
    Ref<> cuda = stealRef(PyObject_GetAttrString(classinfo, "is_cuda"));
    Ref<> kind = stealRef(PyObject_Str(classinfo));
    if (meta == nullptr || !dtype || !cuda || !kind) return tracer.raiseCurrentError();
    Args asked;
    static PyObject* const name = PyUnicode_InternFromString("type");
    asked.values = {object};
    asked.positional = 1;
    STATOR_VALUE(own, tensorCall(tracer, graph::Op::kCallMethod, name, asked));
    // "<class 'torch.FloatTensor'>"
    std::string text = utf8(kind.get());
    std::string mine = PyUnicode_Check(own.get()) ? utf8(own.get()) : "";
    return newRef(!mine.empty() && text == "<class '" + mine + "'>" ? Py_True : Py_False);
  }
  STATOR_VALUE(said,
               PyType_Check(classinfo)
                   ? isInstanceOf(tracer, object, type, reinterpret_cast<PyTypeObject*>(classinfo))
                   : askNoClass(tracer, object, classinfo, "__instancecheck__"));
  if (said) return said;
  if (type != Py_TYPE(object))
    return isSubclass(tracer, reinterpret_cast<PyObject*>(type), classinfo);
  STATOR_FLOW(requireNativeCheck(tracer, type, classinfo));
  guardRegistrations(tracer);
  int result = PyObject_IsInstance(object, classinfo);
  if (result < 0) return tracer.raiseCurrentError();
  return newRef(result != 0 ? Py_True : Py_False);
}

namespace {

// type.__instancecheck__(cls, object)
Out typesInstanceCheck(Tracer& t, const Args& args) {
  if (args.positional != 2 || args.keywordCount() != 0 || !PyType_Check(args.values[0]))
    return t.breakWith(Reason::kRaises, "type.__instancecheck__");
  PyObject* object = args.values[1];
  auto* wanted = reinterpret_cast<PyTypeObject*>(args.values[0]);
  if (isSomeGradFn(object))
    return t.breakWith(Reason::kUnsupportedAttribute, "the type of a grad_fn");
  PyTypeObject* type = isTraceArray(object) ? arrayTypeSeen(object) : typeOf(t, object);
  if (!graph::isStandIn(object)) (void)typeLookup(t, type, names().dunder_class);
  if (PyType_IsSubtype(type, wanted)) return newRef(Py_True);
  STATOR_VALUE(said, classGivenOut(t, object));
  const bool fits = said && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(said.get()), wanted);
  return newRef(fits ? Py_True : Py_False);
}

// type.__subclasscheck__(cls, subclass)
Out typesSubclassCheck(Tracer& t, const Args& args) {
  if (args.positional != 2 || args.keywordCount() != 0 || !PyType_Check(args.values[0]) ||
      !PyType_Check(args.values[1]))
    return t.breakWith(Reason::kRaises, "type.__subclasscheck__");
  auto* type = reinterpret_cast<PyTypeObject*>(args.values[1]);
  (void)typeLookup(t, type, names().dunder_class);
  const bool fits = PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(args.values[0])) != 0;
  return newRef(fits ? Py_True : Py_False);
}

}  // namespace

void registerInstanceChecks() {
  registerHandler("builtins.type.__instancecheck__", typesInstanceCheck);
  allowSymbols("builtins.type.__instancecheck__");
  registerHandler("builtins.type.__subclasscheck__", typesSubclassCheck);
}

}  // namespace stator::interpret
