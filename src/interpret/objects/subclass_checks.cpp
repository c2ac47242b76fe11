#include "interpret/objects/subclass_checks.h"

#include "base/stack_room.h"
#include "base/text.h"
#include "interpret/core/known.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/truth.h"
#include "python/types.h"
#include "symbolic/sym_int.h"

#include <string_view>

namespace stator::interpret {

void guardRegistrations(Tracer& tracer) { tracer.world.guard(Guard{GuardKind::kAbcToken}); }

bool isProgramsOwn(PyObject* entry) {
  Ref<> inside = entry != nullptr && Py_TYPE(entry) == &PyClassMethod_Type
                     ? stealRef(PyObject_GetAttrString(entry, "__func__"))
                     : newRef(entry);
  if (!inside || !PyFunction_Check(inside.get())) return false;
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(inside.get()));
  // those of collections.abc, which every kind of mapping has from there
  if (std::string_view(utf8(code->co_filename)).starts_with("<frozen ")) return false;
  return codePolicy(code) == CodePolicy::kTrace;
}

bool isFollowed(PyObject* hook) {
  return PyFunction_Check(hook) &&
         codePolicy(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(hook))) !=
             CodePolicy::kSkip;
}

bool hasWrittenClass(Tracer& tracer, PyTypeObject* type) {
  if (!tracer.classes.anyWritten()) return false;
  PyObject* mro = stator_type_mro(type);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    const values::Info* info = tracer.values.find(PyTuple_GET_ITEM(mro, i));
    if (info != nullptr && (info->overlay || info->dirty)) return true;
  }
  return false;
}

Flow requireNativeCheck(Tracer& tracer, PyTypeObject* type, PyObject* classinfo) {
  static PyObject* const name = PyUnicode_InternFromString("__subclasshook__");
  if (PyType_Check(classinfo)) {
    if (isProgramsOwn(_PyType_Lookup(reinterpret_cast<PyTypeObject*>(classinfo), name)))
      return tracer.breakWith(Reason::kCallsOutside, "a class with a __subclasshook__ of its own");
  }
  if (hasWrittenClass(tracer, type))
    return tracer.breakWith(Reason::kCallsOutside, "a check of a class that was written to");
  return Flow::kOk;
}

Out askNoClass(Tracer& tracer, PyObject* asked, PyObject* classinfo, const char* hook) {
  const char* refusal = std::string_view(hook) == "__instancecheck__"
                            ? "isinstance() arg 2 must be a type, a tuple of types, or a union"
                            : "issubclass() arg 2 must be a class, a tuple of classes, or a union";
  if (graph::isStandIn(classinfo) || isTraceIterator(classinfo) || symbolic::isSymbol(classinfo))
    return tracer.raiseNew(PyExc_TypeError, refusal);
  if (!stator_is_user_class(Py_TYPE(classinfo))) {
    static PyObject* const unions = torchObject("types.UnionType");
    const Ref<> name = stealRef(PyUnicode_InternFromString(hook));
    if (Py_TYPE(classinfo) == &Py_GenericAliasType)
      return tracer.raiseNew(PyExc_TypeError, "%.12s argument 2 cannot be a parameterized generic",
                             refusal);
    if (reinterpret_cast<PyObject*>(Py_TYPE(classinfo)) == unions ||
        _PyType_Lookup(Py_TYPE(classinfo), name.get()) != nullptr)
      return Ref<>();
    return tracer.raiseNew(PyExc_TypeError, refusal);
  }
  STATOR_VALUE(check, special(tracer, classinfo, hook));
  if (!check) {
    static PyObject* const bases = PyUnicode_InternFromString("__bases__");
    STATOR_VALUE(found, tracer.above.runEntered(getAttrOrNull(tracer, classinfo, bases)));
    if (!found) return tracer.raiseNew(PyExc_TypeError, refusal);
    return tracer.breakWith(Reason::kCallsOutside, "a check of what is no class");
  }
  if (!PyMethod_Check(check.get()) && !PyFunction_Check(check.get())) return Ref<>();
  STATOR_VALUE(result, tracer.above.callNested(check.get(), {asked}));
  return truth(tracer, result.get());
}

Out isSubclass(Tracer& tracer, PyObject* type, PyObject* classinfo) {
  needStack();
  if (PyTuple_Check(classinfo)) {
    STATOR_VALUE(items, contents(tracer, classinfo));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
      STATOR_VALUE(one, isSubclass(tracer, type, PyTuple_GET_ITEM(items.get(), i)));
      if (one.get() == Py_True) return one;
    }
    return newRef(Py_False);
  }
  if (!PyType_Check(type))
    return tracer.breakWith(Reason::kRaises, "issubclass() of something that is no class");
  if (PyType_Check(classinfo)) {
    auto* wanted = reinterpret_cast<PyTypeObject*>(classinfo);
    PyTypeObject* meta = Py_TYPE(classinfo);
    static PyObject* check = PyUnicode_InternFromString("__subclasscheck__");
    PyObject* hook = _PyType_Lookup(meta, check);
    (void)typeLookup(tracer, reinterpret_cast<PyTypeObject*>(type), names().dunder_class);
    static PyObject* const abstract = torchObject("abc.ABCMeta");
    if (hook != nullptr && isFollowed(hook) &&
        hook != _PyType_Lookup(reinterpret_cast<PyTypeObject*>(abstract), check)) {
      STATOR_VALUE(function, classAttrValue(tracer, meta, check, hook));
      STATOR_VALUE(result, tracer.above.callNested(function.get(), {classinfo, type}));
      return truth(tracer, result.get());
    }
    if (hook == nullptr || !PyFunction_Check(hook)) {
      return newRef(PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), wanted) ? Py_True
                                                                                    : Py_False);
    }
  } else {
    STATOR_VALUE(said, askNoClass(tracer, type, classinfo, "__subclasscheck__"));
    if (said) return said;
  }
  STATOR_FLOW(requireNativeCheck(tracer, reinterpret_cast<PyTypeObject*>(type), classinfo));
  guardRegistrations(tracer);
  int result = PyObject_IsSubclass(type, classinfo);
  if (result < 0) return tracer.raiseCurrentError();
  return newRef(result != 0 ? Py_True : Py_False);
}

}  // namespace stator::interpret
