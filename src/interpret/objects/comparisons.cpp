#include "interpret/objects/comparisons.h"

#include "base/stack_room.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/sym_scalars.h"
#include "interpret/core/symbols.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/decimals.h"
#include "interpret/objects/keys.h"
#include "interpret/objects/scalars.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/truth.h"
#include "python/objects.h"
#include "python/types.h"
#include "symbolic/sym_int.h"

#include <cstring>

namespace stator::interpret {

namespace {

const char* const kFunctions[] = {"lt", "le", "eq", "ne", "gt", "ge"};
const char* const kMethods[] = {"__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"};
const char* const kSymbols[] = {"<", "<=", "==", "!=", ">", ">="};
const int kSwapped[] = {Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE};

Ref<> boolean(bool b) { return newRef(b ? Py_True : Py_False); }
bool isEquality(int operation) { return operation == Py_EQ || operation == Py_NE; }

bool isScalarKind(PyObject* value) {
  return PyLong_Check(value) || PyFloat_Check(value) || PyComplex_Check(value) ||
         PyUnicode_Check(value) || PyBytes_Check(value);
}

bool isSameContainer(PyObject* left, PyObject* right) {
  return (PyList_Check(left) && PyList_Check(right)) ||
         (PyTuple_Check(left) && PyTuple_Check(right)) ||
         (PyDict_Check(left) && PyDict_Check(right)) ||
         (PyAnySet_Check(left) && PyAnySet_Check(right));
}

bool isContainer(PyObject* value) { return isSameContainer(value, value); }

// A class made from a built-in one that compares in a way of its own, in Python or by another slot (`__eq__ =
// object.__eq__`).
bool comparesOtherwise(PyTypeObject* type) {
  if (!stator_is_user_class(type)) return false;
  for (PyTypeObject* base :
       {&PyList_Type, &PyTuple_Type, &PyDict_Type, &PySet_Type, &PyFrozenSet_Type, &PyLong_Type,
        &PyFloat_Type, &PyComplex_Type, &PyUnicode_Type, &PyBytes_Type}) {
    if (!PyType_IsSubtype(type, base)) continue;
    return type->tp_richcompare != stator_native_base(type)->tp_richcompare;
  }
  return false;
}

// Code of the program has a say. object.__ne__ asks __eq__.
bool asksProgram(Tracer& tracer, PyTypeObject* type, int operation) {
  if (!stator_is_user_class(type)) return false;
  if (isProgrammed(tracer, type, kMethods[operation])) return true;
  return (operation == Py_NE && isProgrammed(tracer, type, "__eq__")) || comparesOtherwise(type);
}

Out identity(Tracer& tracer, int operation, PyObject* left, PyObject* right) {
  STATOR_VALUE(identical, same(tracer, left, right));
  return boolean((identical.get() == Py_True) == (operation == Py_EQ));
}

// What the class of `self` says, or NotImplemented.
Out slotAnswer(Tracer& tracer, int operation, PyObject* self, PyObject* other) {
  Ref<> name = stealRef(PyUnicode_InternFromString(kMethods[operation]));
  STATOR_VALUE(entry, typeLookup(tracer, typeOf(tracer, self), name.get()));
  if (!entry) return newRef(Py_NotImplemented);
  if (Py_TYPE(entry.get()) == &PyWrapperDescr_Type &&
      PyUnicode_Compare(PyDescr_NAME(entry.get()), name.get()) == 0)
    return compareSlot(tracer, PyDescr_TYPE(entry.get()), operation, self, other);
  STATOR_VALUE(bound, slotMethod(tracer, self, kMethods[operation]));
  return tracer.above.callNested(bound.get(), {other});
}

// `left OP right` where a class of the program has a say.
Out compareByProtocol(Tracer& tracer, int operation, PyObject* left, PyObject* right) {
  PyTypeObject *left_type = Py_TYPE(left), *right_type = Py_TYPE(right);
  const bool right_first = left_type != right_type && PyType_IsSubtype(right_type, left_type);
  if (right_first) {
    STATOR_VALUE(answer, slotAnswer(tracer, kSwapped[operation], right, left));
    if (answer.get() != Py_NotImplemented) return answer;
  }
  STATOR_VALUE(answer, slotAnswer(tracer, operation, left, right));
  if (answer.get() != Py_NotImplemented) return answer;
  if (!right_first) {
    STATOR_VALUE(reflected, slotAnswer(tracer, kSwapped[operation], right, left));
    if (reflected.get() != Py_NotImplemented) return reflected;
  }
  if (isEquality(operation)) return identity(tracer, operation, left, right);
  return tracer.raiseNew(PyExc_TypeError,
                         "'%s' not supported between instances of '%.100s' and '%.100s'",
                         kSymbols[operation], left_type->tp_name, right_type->tp_name);
}

// Keys and values of two dicts; `a` and `b` are their contents.
Out compareDicts(Tracer& tracer, int operation, const Ref<>& a, const Ref<>& b) {
  // Keys by the hashes that they stand under, values as the items of lists.
  bool wanted = operation == Py_EQ;
  if (PyDict_Size(a.get()) != PyDict_Size(b.get())) return boolean(!wanted);
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  Py_hash_t hash = 0;
  while (stator_dict_next(a.get(), &position, &key, &value, &hash)) {
    Ref<> keep_key = newRef(key), x = newRef(value);
    STATOR_VALUE(y, withOwnKeys(tracer, nullptr, [&](PyObject*) {
                   return Py_XNewRef(_PyDict_GetItem_KnownHash(b.get(), key, hash));
                 }));
    if (!y) return boolean(!wanted);
    if (!symbolic::isSymbol(x.get()) && !symbolic::isSymbol(y.get())) {
      STATOR_VALUE(identical, same(tracer, x.get(), y.get()));
      if (identical.get() == Py_True) continue;
    }
    STATOR_VALUE(equal, tracer.above.runEntered(compare(tracer, Py_EQ, x.get(), y.get())));
    STATOR_VALUE(verdict, truth(tracer, equal.get()));
    if (verdict.get() != Py_True) return boolean(!wanted);
  }
  return boolean(wanted);
}

// Numbers, texts and their like, whose comparison nobody sees.
bool allPlain(PyObject* tuple) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    if (!values::isScalar(item) && !symbolic::isSymbol(item)) return false;
  }
  return true;
}

// Lists or tuples, item by item; `a` and `b` are their contents.
Out compareSequences(Tracer& tracer, int operation, const Ref<>& a, const Ref<>& b) {
  const bool equality = isEquality(operation);
  // Containers that hold themselves: eager finds the end of the stack, and the real interpreter is to do so.
  static int depth = 0;
  struct Level {
    Level() { ++depth; }
    ~Level() { --depth; }
  } level;
  if (depth > 200)
    return tracer.breakWith(Reason::kUnsupportedObject, "compares deeply nested containers");
  bool wanted = operation == Py_EQ;
  // By the C layout, whatever a subclass puts over its methods; the comparison of items may change the containers.
  auto size = [](PyObject* sequence) {
    return PyList_Check(sequence) ? PyList_GET_SIZE(sequence) : PyTuple_GET_SIZE(sequence);
  };
  auto item = [](PyObject* sequence, Py_ssize_t i) {
    return newRef(PyList_Check(sequence) ? PyList_GET_ITEM(sequence, i)
                                         : PyTuple_GET_ITEM(sequence, i));
  };
  // Lists look at their lengths first, tuples at their items: their comparison may raise, or be the program's own.
  if (equality && size(a.get()) != size(b.get()) &&
      (PyList_Check(a.get()) || (allPlain(a.get()) && allPlain(b.get()))))
    return boolean(!wanted);
  for (Py_ssize_t i = 0; i < size(a.get()) && i < size(b.get()); ++i) {
    Ref<> x = item(a.get(), i), y = item(b.get(), i);
    // Of symbols only the values count, and to ask whether they are the same object would settle these.
    if (!symbolic::isSymbol(x.get()) && !symbolic::isSymbol(y.get())) {
      STATOR_VALUE(identical, same(tracer, x.get(), y.get()));
      if (identical.get() == Py_True) continue;
    }
    STATOR_VALUE(equal, tracer.above.runEntered(compare(tracer, Py_EQ, x.get(), y.get())));
    STATOR_VALUE(verdict, truth(tracer, equal.get()));
    if (verdict.get() == Py_True) continue;
    if (i >= size(a.get()) || i >= size(b.get())) continue;
    // The first items that differ decide; what their comparison gives need not be a bool.
    return equality ? Out(boolean(!wanted))
                    : tracer.above.runEntered(compare(tracer, operation, x.get(), y.get()));
  }
  if (!equality) {
    Ref<> longer = stealRef(PyLong_FromSsize_t(size(a.get()))),
          other = stealRef(PyLong_FromSsize_t(size(b.get())));
    return tracer.fromNative(stealRef(PyObject_RichCompare(longer.get(), other.get(), operation)));
  }
  if (size(a.get()) != size(b.get())) return boolean(!wanted);
  return boolean(wanted);
}

// `descriptor.__get__` as an object of C, and as the trace binds it: the same slot of the very same object. Ok with
// null: they are not these.
Out compareWrappers(Tracer& tracer, int operation, PyObject* left, PyObject* right) {
  if (stator_is_method_wrapper(right)) std::swap(left, right);
  if (!stator_is_method_wrapper(left) || !PyMethod_Check(right) ||
      Py_TYPE(PyMethod_GET_FUNCTION(right)) != &PyWrapperDescr_Type)
    return Ref<>();
  Ref<> self = stealRef(PyObject_GetAttr(left, names().dunder_self));
  Ref<> name = stealRef(PyObject_GetAttr(left, names().name));
  Ref<> owner = stealRef(PyObject_GetAttrString(left, "__objclass__"));
  if (!self || !name || !owner) return tracer.raiseCurrentError();
  PyObject* descriptor = PyMethod_GET_FUNCTION(right);
  const bool same_slot = reinterpret_cast<PyObject*>(PyDescr_TYPE(descriptor)) == owner.get() &&
                         PyUnicode_Compare(PyDescr_NAME(descriptor), name.get()) == 0;
  if (!same_slot) return boolean(operation == Py_NE);
  STATOR_VALUE(same_self, same(tracer, self.get(), PyMethod_GET_SELF(right)));
  return boolean((same_self.get() == Py_True) == (operation == Py_EQ));
}

bool isNamespace(PyTypeObject* type) {
  static auto* const plain = reinterpret_cast<PyTypeObject*>(torchObject("types.SimpleNamespace"));
  return PyType_IsSubtype(type, plain) && type->tp_richcompare == plain->tp_richcompare;
}

Out compareObjects(Tracer& tracer, int operation, PyObject* left, PyObject* right) {
  PyTypeObject *left_type = Py_TYPE(left), *right_type = Py_TYPE(right);
  const bool equality = isEquality(operation);
  bool plain_objects = left_type->tp_richcompare == PyBaseObject_Type.tp_richcompare &&
                       right_type->tp_richcompare == PyBaseObject_Type.tp_richcompare;
  bool one_constant = values::isScalar(left) || values::isScalar(right) || PyType_Check(left) ||
                      PyType_Check(right);
  bool mismatched =
      left_type != right_type && (left_type->tp_richcompare == PyBaseObject_Type.tp_richcompare ||
                                  right_type->tp_richcompare == PyBaseObject_Type.tp_richcompare);
  if (equality && (plain_objects || (one_constant && mismatched))) {
    STATOR_VALUE(identical, same(tracer, left, right));
    return boolean((identical.get() == Py_True) == (operation == Py_EQ));
  }
  if (equality && PyMethod_Check(left) && PyMethod_Check(right)) {
    // Of the same function and the very same object.
    STATOR_VALUE(left_self, getAttr(tracer, left, names().dunder_self));
    STATOR_VALUE(right_self, getAttr(tracer, right, names().dunder_self));
    STATOR_VALUE(same_self, same(tracer, left_self.get(), right_self.get()));
    if (same_self.get() != Py_True) return boolean(operation == Py_NE);
    STATOR_VALUE(same_function,
                 tracer.above.runEntered(compare(tracer, Py_EQ, PyMethod_GET_FUNCTION(left),
                                                 PyMethod_GET_FUNCTION(right))));
    return boolean((same_function.get() == Py_True) == (operation == Py_EQ));
  }
  if (equality && isNamespace(left_type) && isNamespace(right_type)) {
    STATOR_VALUE(mine, getAttr(tracer, left, names().dunder_dict));
    STATOR_VALUE(other, getAttr(tracer, right, names().dunder_dict));
    return tracer.above.runEntered(compare(tracer, operation, mine.get(), other.get()));
  }
  if (equality && isNamespace(left_type) != isNamespace(right_type) && one_constant)
    return boolean(operation == Py_NE);
  if (equality) {
    STATOR_VALUE(wrappers, compareWrappers(tracer, operation, left, right));
    if (wrappers) return wrappers;
  }
  // Functions in C and `descriptor.__get__`: compared by what they are bound to, without a line of Python.
  auto in_c = [](PyObject* value) {
    return PyCFunction_Check(value) || stator_is_method_wrapper(value);
  };
  if (equality && in_c(left) && in_c(right) && left_type == right_type) {
    Ref<> equal = stealRef(PyObject_RichCompare(left, right, operation));
    if (!equal) return tracer.raiseCurrentError();
    return equal;
  }
  if (equality && (in_c(left) || in_c(right)) && left_type != right_type &&
      ((in_c(left) && in_c(right)) || PyFunction_Check(left) || PyFunction_Check(right) ||
       Py_TYPE(left) == &PyMethodDescr_Type || Py_TYPE(right) == &PyMethodDescr_Type ||
       Py_TYPE(left) == &PyWrapperDescr_Type || Py_TYPE(right) == &PyWrapperDescr_Type)) {
    return boolean(operation == Py_NE);
  }
  if (equality && (PyFunction_Check(left) || PyMethod_Check(left))) {
    STATOR_VALUE(identical, same(tracer, left, right));
    return boolean((identical.get() == Py_True) == (operation == Py_EQ));
  }
  if (hasStandIn(tracer, left) || hasStandIn(tracer, right))
    return tracer.breakWith(Reason::kDataDependentBranch, "compares containers of tensors");
  return tracer.breakWith(
      Reason::kUnsupportedObject,
      std::string("compares a ") + left_type->tp_name + " with a " + right_type->tp_name);
}

// What C's own comparison gives, whatever a subclass puts over it.
Out compareNatively(Tracer& tracer, int operation, PyObject* left, PyObject* right) {
  STATOR_VALUE(a, plain(tracer, left));
  STATOR_VALUE(b, plain(tracer, right));
  if (isNativeSafe(tracer, a.get()) && isNativeSafe(tracer, b.get())) {
    DecimalFold decimals(tracer, {a.get(), b.get()});
    Ref<> result = stealRef(PyObject_RichCompare(a.get(), b.get(), operation));
    STATOR_FLOW(decimals.finish());
    if (!result && (Py_TYPE(a.get()) != Py_TYPE(left) || Py_TYPE(b.get()) != Py_TYPE(right))) {
      PyErr_Clear();
      return tracer.breakWith(Reason::kRaises, "a comparison whose error names the classes");
    }
    return tracer.fromNative(std::move(result));
  }
  if ((PyAnySet_Check(left) || PyDictViewSet_Check(left)) &&
      (PyAnySet_Check(right) || PyDictViewSet_Check(right))) {
    const bool sets = PyAnySet_Check(left) && PyAnySet_Check(right);
    STATOR_VALUE(result, withOwnKeys(tracer, nullptr, [&](PyObject*) {
                   return sets ? PySet_Type.tp_richcompare(a.get(), b.get(), operation)
                               : PyObject_RichCompare(a.get(), b.get(), operation);
                 }));
    return tracer.fromNative(result);
  }
  if (isEquality(operation) && PyDict_Check(left) && PyDict_Check(right) &&
      !(PyODict_Check(left) && PyODict_Check(right)))
    return compareDicts(tracer, operation, a, b);
  if ((PyList_Check(left) && PyList_Check(right)) || (PyTuple_Check(left) && PyTuple_Check(right)))
    return compareSequences(tracer, operation, a, b);
  return compareObjects(tracer, operation, left, right);
}

}  // namespace

int comparisonOf(const char* method) {
  for (int operation = Py_LT; operation <= Py_GE; ++operation) {
    if (std::strcmp(kMethods[operation], method) == 0) return operation;
  }
  return -1;
}

Out compareSlot(Tracer& tracer, PyTypeObject* owner, int operation, PyObject* self,
                PyObject* other) {
  if (PyTypeObject* type = typeOf(tracer, self); !PyType_IsSubtype(type, owner))
    return tracer.raiseNew(PyExc_TypeError,
                           "descriptor '%s' requires a '%.100s' object but received a '%.100s'",
                           kMethods[operation], owner->tp_name, type->tp_name);
  if (owner == &PyBaseObject_Type) {
    if (operation == Py_EQ) {
      STATOR_VALUE(identical, same(tracer, self, other));
      return identical.get() == Py_True ? identical : newRef(Py_NotImplemented);
    }
    if (operation != Py_NE) return newRef(Py_NotImplemented);
    STATOR_VALUE(equal, slotAnswer(tracer, Py_EQ, self, other));
    if (equal.get() == Py_NotImplemented) return equal;
    STATOR_VALUE(verdict, truth(tracer, equal.get()));
    return boolean(verdict.get() != Py_True);
  }
  if (graph::isStandIn(other)) return newRef(Py_NotImplemented);
  if (symbolic::isSymbol(self) || symbolic::isSymbol(other) || isAddress(self) ||
      isAddress(other)) {
    STATOR_VALUE(first, plain(tracer, self));
    STATOR_VALUE(second, plain(tracer, other));
    return compareSlot(tracer, owner, operation, first.get(), second.get());
  }
  if (isScalarKind(self)) {
    // It knows built-in values only.
    STATOR_VALUE(exact, exactScalar(tracer, self));
    STATOR_VALUE(exact_other, exactScalar(tracer, other));
    PyObject* a = exact ? exact.get() : self;
    PyObject* b = exact_other ? exact_other.get() : other;
    if (!isScalarKind(b)) return newRef(Py_NotImplemented);
    return tracer.fromNative(stealRef(owner->tp_richcompare(a, b, operation)));
  }
  const bool orders_only = PyDict_Check(self) && !isEquality(operation);
  if (isSameContainer(self, other) && !orders_only)
    return compareNatively(tracer, operation, self, other);
  if (isContainer(self) && !PyDictViewSet_Check(other)) return newRef(Py_NotImplemented);
  STATOR_VALUE(a, plain(tracer, self));
  STATOR_VALUE(b, plain(tracer, other));
  if (isNativeSafe(tracer, a.get()) && isNativeSafe(tracer, b.get())) {
    DecimalFold decimals(tracer, {a.get(), b.get()});
    Ref<> result = stealRef(owner->tp_richcompare(a.get(), b.get(), operation));
    STATOR_FLOW(decimals.finish());
    return tracer.fromNative(std::move(result));
  }
  // Decimal knows the protocol of rational numbers.
  if ((stator_is_user_class(Py_TYPE(other)) || stator_is_user_class(Py_TYPE(self))) &&
      !isDecimal(a.get()))
    return newRef(Py_NotImplemented);
  return tracer.breakWith(Reason::kUnsupportedObject,
                          std::string(owner->tp_name) + "." + kMethods[operation]);
}

Out compare(Tracer& tracer, int operation, PyObject* left, PyObject* right) {
  needStack();
  const bool equality = isEquality(operation);
  if (graph::isStandIn(left) || graph::isStandIn(right)) {
    PyObject* other = graph::isStandIn(left) ? right : left;
    if (equality && !graph::isStandIn(other) && !PyLong_Check(other) && !PyFloat_Check(other) &&
        !PyComplex_Check(other)) {
      if (other == Py_None || PyUnicode_Check(other) || PyTuple_Check(other) ||
          PyList_Check(other) || PyType_Check(other)) {
        return boolean(operation == Py_NE);
      }
    }
    Args args;
    args.values = {left, right};
    args.positional = 2;
    return tracer.above.tensorCall(graph::Op::kCallFunction,
                                   operatorFunction(kFunctions[operation]), args);
  }
  if (symbolic::isSymbol(left) || symbolic::isSymbol(right)) {
    const bool scalars = symbolic::isSymScalar(left) || symbolic::isSymScalar(right);
    if (Ref<> result = scalars ? scalarCompare(tracer, operation, left, right)
                               : symCompare(tracer, operation, left, right))
      return result;
    Ref<> a = symbolic::isSymbol(left) ? concrete(tracer, left) : newRef(left),
          b = symbolic::isSymbol(right) ? concrete(tracer, right) : newRef(right);
    return compare(tracer, operation, a.get(), b.get());
  }
  if (asksProgram(tracer, Py_TYPE(left), operation) ||
      asksProgram(tracer, Py_TYPE(right), kSwapped[operation]))
    return compareByProtocol(tracer, operation, left, right);
  if (isAddress(left) || isAddress(right)) {
    if (!equality || !isAddress(left) || !isAddress(right)) {
      STATOR_VALUE(first, plain(tracer, left));
      STATOR_VALUE(second, plain(tracer, right));
      return compare(tracer, operation, first.get(), second.get());
    }
    return boolean((addressTarget(tracer, left) == addressTarget(tracer, right)) ==
                   (operation == Py_EQ));
  }
  return compareNatively(tracer, operation, left, right);
}

}  // namespace stator::interpret
