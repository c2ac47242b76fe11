#include "interpret/objects/truth.h"

#include "base/stack_room.h"
#include "interpret/core/apparent_types.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/sym_scalars.h"
#include "interpret/core/symbols.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/comparisons.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/known_scalars.h"
#include "interpret/objects/native_containers.h"
#include "interpret/objects/outside_numbers.h"
#include "interpret/objects/scalars.h"
#include "interpret/objects/special_methods.h"
#include "python/objects.h"
#include "symbolic/sym_int.h"

namespace stator::interpret {

using symbolic::Dim;

namespace {

// What a __len__ written in Python gives has to be a length.
Flow checkLength(Tracer& tracer, PyObject* given) {
  if (symbolic::isSymInt(given)) {
    static PyObject* const zero = PyLong_FromLong(0);
    STATOR_VALUE(negative, compare(tracer, Py_LT, given, zero));
    if (negative.get() == Py_False) return Flow::kOk;
    return tracer.raiseNew(PyExc_ValueError, "__len__() should return >= 0");
  }
  if (graph::isStandIn(given) || !PyLong_Check(given))
    return tracer.breakWith(Reason::kRaises, "__len__ that gives no int");
  Py_ssize_t length = PyLong_AsSsize_t(given);
  if (length == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    return tracer.breakWith(Reason::kRaises, "__len__ that gives a very large number");
  }
  if (length >= 0) return Flow::kOk;
  return tracer.raiseNew(PyExc_ValueError, "__len__() should return >= 0");
}

// By the C layout, whatever a subclass has for __len__.
Ref<> sizeOf(PyObject* container) {
  return stealRef(PyLong_FromSsize_t(PyDict_Check(container)     ? PyDict_Size(container)
                                     : PyAnySet_Check(container) ? PySet_GET_SIZE(container)
                                                                 : Py_SIZE(container)));
}

// The length is guarded, not what is in the container.
Out outsideLength(Tracer& tracer, PyObject* container, values::Info* info) {
  if (PyDict_Check(container) && (info->overlay || info->attributes_of != nullptr)) {
    STATOR_VALUE(items, contents(tracer, container));
    return sizeOf(items.get());
  }
  if (info->shadow) return sizeOf(info->shadow.get());
  Py_ssize_t appended = info->appended ? PyList_GET_SIZE(info->appended.get()) : 0;
  Py_ssize_t n = PyDict_Check(container)     ? PyDict_Size(container)
                 : PyAnySet_Check(container) ? PySet_GET_SIZE(container)
                                             : PyObject_Size(container);
  if (!info->length_guarded) {
    info->length_guarded = true;
    tracer.world.guard(Guard{GuardKind::kLength, info->source, nullptr, Ref<>(), n});
  }
  return stealRef(PyLong_FromSsize_t(n + appended));
}

Out nativeLength(Tracer& tracer, PyObject* container) {
  values::Info* info = tracer.values.find(container);
  if (info != nullptr && info->origin == values::Origin::kOutside && !info->constant)
    return outsideLength(tracer, container, info);
  return tracer.fromNative(sizeOf(container));
}

}  // namespace

Out length(Tracer& tracer, PyObject* container) {
  static PyObject* method = PyUnicode_InternFromString("__len__");
  STATOR_VALUE(scalar, plainScalar(tracer, container));
  if (scalar && isTextLike(scalar.get())) return length(tracer, scalar.get());
  if (graph::isStandIn(container)) {
    const shapes::TensorMeta* meta = graph::asStandIn(container)->meta;
    if (meta == nullptr) return tracer.breakWith(Reason::kRaises, "len() of a number");
    if (meta->sizes.empty()) return tracer.raiseNew(PyExc_TypeError, "len() of a 0-d tensor");
    if (tracer.sizes.areCallers() && !meta->sizes[0].isStatic())
      return tracer.breakWith(Reason::kUnsupportedTensorOp, "len() of a caller's SymInt");
    return symInt(tracer, meta->sizes[0]);
  }
  if (isTextLike(container)) {
    guardBytes(tracer, container);
    Py_ssize_t size = PyObject_Size(container);
    if (size < 0) return tracer.raiseCurrentError();  // a range longer than any sequence
    return stealRef(PyLong_FromSsize_t(size));
  }
  if (isNativeContainer(tracer, container, method)) return nativeLength(tracer, container);
  PyTypeObject* type = Py_TYPE(container);
  if (isDictView(container)) {
    STATOR_VALUE(dict, viewedDict(tracer, container));
    return nativeLength(tracer, dict.get());
  }
  if (isTraceIterator(container))
    return tracer.raiseNew(PyExc_TypeError, "object of type '%s' has no len()",
                           typeOf(tracer, container)->tp_name);
  STATOR_VALUE(bound, slotMethod(tracer, container, "__len__"));
  if (!bound)
    return tracer.raiseNew(PyExc_TypeError, "object of type '%s' has no len()", type->tp_name);
  STATOR_VALUE(n, tracer.above.callNested(bound.get(), Args{}));
  STATOR_FLOW(checkLength(tracer, n.get()));
  return n;
}

Out truth(Tracer& tracer, PyObject* value) {
  auto boolean = [](bool b) { return newRef(b ? Py_True : Py_False); };
  if (value == Py_True || value == Py_False) return newRef(value);
  if (value == Py_None) return boolean(false);
  if (value == Py_NotImplemented)
    return tracer.breakWith(Reason::kUnsupportedObject, "the truth of NotImplemented, which warns");
  if (symbolic::isSymScalar(value)) {
    symbolic::SymScalar* scalar = symbolic::asSymScalar(value);
    if (!hasValue(tracer, value)) return tracer.breakWith(Reason::kDataDependentBranch);
    if (!scalar->backed) return truth(tracer, concrete(tracer, value).get());
    Ref<> zero = stealRef(PyFloat_FromDouble(0));
    if (Ref<> result = scalarCompare(tracer, Py_NE, value, zero.get())) return result;
    return truth(tracer, concrete(tracer, value).get());
  }
  if (symbolic::isSymInt(value)) return boolean(symbolic::dimOf(value) != Dim(0));
  if (graph::isStandIn(value)) {
    if (Ref<> known = knownTensor(tracer, value)) return boolean(PyObject_IsTrue(known.get()) == 1);
    STATOR_VALUE(number, outsideTruth(tracer, value));
    return number ? truth(tracer, number.get()) : tracer.breakWith(Reason::kDataDependentBranch);
  }
  if (values::isScalar(value) || values::isConstantDeep(value)) {
    int result = PyObject_IsTrue(value);
    if (result < 0) return tracer.raiseCurrentError();
    return boolean(result != 0);
  }
  // A class asks its metaclass; an enumeration's says yes.
  const bool plain_class =
      PyType_Check(value) && (Py_TYPE(value) == &PyType_Type ||
                              PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(value), enumType()));
  if (plain_class || PyFunction_Check(value) || PyModule_Check(value) || PyCFunction_Check(value) ||
      isTraceIterator(value) || PyMethod_Check(value)) {
    return boolean(true);
  }
  PyTypeObject* type = Py_TYPE(value);
  static PyObject* dunder_bool = PyUnicode_InternFromString("__bool__");
  static PyObject* dunder_len = PyUnicode_InternFromString("__len__");
  STATOR_VALUE(scalar, plainScalar(tracer, value));
  if (scalar) return truth(tracer, scalar.get());
  STATOR_VALUE(has_bool, typeLookup(tracer, type, dunder_bool));
  if (has_bool) {
    if (!PyFunction_Check(has_bool.get())) {
      if (isNativeSafe(tracer, value)) return boolean(PyObject_IsTrue(value) == 1);
      return tracer.breakWith(Reason::kUnsupportedObject,
                              std::string("the truth of a ") + type->tp_name);
    }
    STATOR_VALUE(bound, special(tracer, value, "__bool__"));
    STATOR_VALUE(result, tracer.above.callNested(bound.get(), {}));
    if (!PyBool_Check(result.get()))
      return tracer.breakWith(Reason::kRaises, "__bool__ returned something else than a bool");
    return result;
  }
  STATOR_VALUE(has_len, typeLookup(tracer, type, dunder_len));
  if (has_len) {
    if (PyFunction_Check(has_len.get())) {
      STATOR_VALUE(bound, special(tracer, value, "__len__"));
      STATOR_VALUE(n, tracer.above.callNested(bound.get(), {}));
      STATOR_FLOW(checkLength(tracer, n.get()));
      return truth(tracer, n.get());
    }
    STATOR_VALUE(n, length(tracer, value));
    return boolean(PyObject_IsTrue(n.get()) == 1);
  }
  return boolean(true);
}

namespace {

// Where a number or text came from; empty: the trace made it, or it is one of the code's.
std::vector<const Source*> originsOf(Tracer& tracer, PyObject* scalar) {
  if (!symbolic::isSymbol(scalar)) return tracer.identities.sourcesOfScalar(scalar);
  const Source* source = tracer.sizes.sourceOfNumber(scalar);
  return source != nullptr ? std::vector{source} : std::vector<const Source*>();
}

// Equal numbers and texts from outside need not be one object, and are guarded to be what they are now. Null: at most
// one of them is from there.
Ref<> sameFromOutside(Tracer& tracer, PyObject* left, PyObject* right) {
  const std::vector<const Source*> first = originsOf(tracer, left);
  const std::vector<const Source*> second =
      left == right ? std::vector<const Source*>() : originsOf(tracer, right);
  if (left == right) {
    for (size_t i = 1; i < first.size(); ++i)
      tracer.world.guard(Guard{GuardKind::kSameAs, first[i], first[0]});
    return newRef(Py_True);
  }
  if (first.empty() || second.empty()) return Ref<>();
  if (!symbolic::isSymbol(left) && !symbolic::isSymbol(right) && !values::isNan(left) &&
      (Py_TYPE(left) != Py_TYPE(right) || PyObject_RichCompareBool(left, right, Py_EQ) == 0))
    return newRef(Py_False);  // as the guards of their values say
  const Ref<> a = sources::read(*first[0], tracer.world.roots());
  const Ref<> b = sources::read(*second[0], tracer.world.roots());
  const bool one = a.get() == b.get();
  const GuardKind kind = one ? GuardKind::kSameAs : GuardKind::kNotSameAs;
  for (const Source* source : first) {
    for (const Source* other : second) tracer.world.guard(Guard{kind, source, other});
  }
  return newRef(one ? Py_True : Py_False);
}

}  // namespace

Out same(Tracer& tracer, PyObject* left, PyObject* right) {
  needStack();
  if ((symbolic::isSymbol(left) || values::isScalar(left)) &&
      (symbolic::isSymbol(right) || values::isScalar(right))) {
    if (Ref<> known = sameFromOutside(tracer, left, right)) return known;
  }
  left = tracer.identities.originalOf(left);
  right = tracer.identities.originalOf(right);
  if (left == right) {
    const std::vector<const Source*>& further = tracer.identities.furtherSources(left);
    const values::Info* info = further.empty() ? nullptr : tracer.values.find(left);
    for (const Source* source : further)
      tracer.world.guard(Guard{GuardKind::kSameAs, source, info->source});
    return newRef(Py_True);
  }
  if (symbolic::isSymbol(left) || symbolic::isSymbol(right)) {
    auto is_number = [](PyObject* value) {
      return symbolic::isSymbol(value) || PyLong_Check(value) || PyFloat_Check(value);
    };
    if (!is_number(left) || !is_number(right)) return newRef(Py_False);
    // Which numbers are one object depends on their values.
    Ref<> a = symbolic::isSymbol(left) ? concrete(tracer, left) : newRef(left),
          b = symbolic::isSymbol(right) ? concrete(tracer, right) : newRef(right);
    return same(tracer, a.get(), b.get());
  }
  values::Info* a = tracer.values.find(left);
  values::Info* b = tracer.values.find(right);
  auto outside = [](values::Info* info) {
    return info != nullptr && info->origin == values::Origin::kOutside && info->source != nullptr;
  };
  auto tensor_source = [](PyObject* value) -> const Source* {
    return graph::isStandIn(value) && !isCast(value) ? graph::asStandIn(value)->node->source
                                                     : nullptr;
  };
  const Source* first = outside(a) ? a->source : tensor_source(left);
  const Source* second = outside(b) ? b->source : tensor_source(right);
  if (first != nullptr && second != nullptr && !PyType_Check(left) && !PyType_Check(right)) {
    tracer.world.guard(Guard{GuardKind::kNotSameAs, first, second});
  }
  return newRef(Py_False);
}

}  // namespace stator::interpret
