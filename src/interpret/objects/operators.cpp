// Operators: tensors go into the graph, plain values are computed, user classes get Python's protocol of reflected and
// in-place methods.
#include "interpret/objects/operators.h"

#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/sym_scalars.h"
#include "interpret/core/symbols.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/decimals.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/keys.h"
#include "interpret/objects/lookups.h"
#include "interpret/objects/scalars.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/texts.h"
#include "interpret/objects/updates.h"
#include "python/opcode_numbers.h"
#include "python/types.h"
#include "symbolic/sym_int.h"

#include <array>
#include <string_view>

namespace stator::interpret {

namespace {

struct BinaryRow {
  const char* function;  // in `operator`
  const char* symbol;    // in error messages
  const char* method;
  const char* reflected;
  const char* in_place;
  PyObject* (*native)(PyObject*, PyObject*);
  PyObject* (*native_in_place)(PyObject*, PyObject*);
};

PyObject* power(PyObject* left, PyObject* right) { return PyNumber_Power(left, right, Py_None); }
PyObject* powerInPlace(PyObject* left, PyObject* right) {
  return PyNumber_InPlacePower(left, right, Py_None);
}

const std::array<BinaryRow, 13> kBinary = {{
    {"add", "+", "__add__", "__radd__", "__iadd__", PyNumber_Add, PyNumber_InPlaceAdd},
    {"and_", "&", "__and__", "__rand__", "__iand__", PyNumber_And, PyNumber_InPlaceAnd},
    {"floordiv", "//", "__floordiv__", "__rfloordiv__", "__ifloordiv__", PyNumber_FloorDivide,
     PyNumber_InPlaceFloorDivide},
    {"lshift", "<<", "__lshift__", "__rlshift__", "__ilshift__", PyNumber_Lshift,
     PyNumber_InPlaceLshift},
    {"matmul", "@", "__matmul__", "__rmatmul__", "__imatmul__", PyNumber_MatrixMultiply,
     PyNumber_InPlaceMatrixMultiply},
    {"mul", "*", "__mul__", "__rmul__", "__imul__", PyNumber_Multiply, PyNumber_InPlaceMultiply},
    {"mod", "%", "__mod__", "__rmod__", "__imod__", PyNumber_Remainder, PyNumber_InPlaceRemainder},
    {"or_", "|", "__or__", "__ror__", "__ior__", PyNumber_Or, PyNumber_InPlaceOr},
    {"pow", "** or pow()", "__pow__", "__rpow__", "__ipow__", power, powerInPlace},
    {"rshift", ">>", "__rshift__", "__rrshift__", "__irshift__", PyNumber_Rshift,
     PyNumber_InPlaceRshift},
    {"sub", "-", "__sub__", "__rsub__", "__isub__", PyNumber_Subtract, PyNumber_InPlaceSubtract},
    {"truediv", "/", "__truediv__", "__rtruediv__", "__itruediv__", PyNumber_TrueDivide,
     PyNumber_InPlaceTrueDivide},
    {"xor", "^", "__xor__", "__rxor__", "__ixor__", PyNumber_Xor, PyNumber_InPlaceXor},
}};

bool isPlainInt(PyObject* object) { return PyLong_CheckExact(object) || PyBool_Check(object); }

bool isNumber(PyObject* object) {
  static PyObject* torch_function = PyUnicode_InternFromString("__torch_function__");
  static PyObject* array = PyUnicode_InternFromString("__array__");
  return PyLong_Check(object) || PyFloat_Check(object) || PyComplex_Check(object) ||
         _PyType_Lookup(Py_TYPE(object), torch_function) != nullptr ||
         _PyType_Lookup(Py_TYPE(object), array) != nullptr;
}

bool isScalarSubclass(PyObject* object) {
  return PyLong_Check(object) || PyFloat_Check(object) || PyComplex_Check(object) ||
         PyUnicode_Check(object) || PyBytes_Check(object);
}

// `a OP b` where an operand's class defines the operator in Python.
Out binaryProtocol(Tracer& tracer, const BinaryRow& row, bool in_place, PyObject* left,
                   PyObject* right) {
  PyTypeObject* left_type = typeOf(tracer, left);
  PyTypeObject* right_type = typeOf(tracer, right);
  struct Attempt {
    PyObject* self;
    PyObject* other;
    const char* method;
  };
  std::vector<Attempt> attempts;
  if (in_place) attempts.push_back({left, right, row.in_place});
  // Only a reflected method that the subclass gives another meaning goes first.
  Ref<> reflected = stealRef(PyUnicode_InternFromString(row.reflected));
  bool right_first =
      left_type != right_type && PyType_IsSubtype(right_type, left_type) &&
      isProgrammed(tracer, right_type, row.reflected) &&
      _PyType_Lookup(left_type, reflected.get()) != _PyType_Lookup(right_type, reflected.get());
  if (right_first) attempts.push_back({right, left, row.reflected});
  attempts.push_back({left, right, row.method});
  if (!right_first && left_type != right_type) attempts.push_back({right, left, row.reflected});
  for (const Attempt& attempt : attempts) {
    // A tensor's operator answers NotImplemented to what it cannot take for a number.
    if (graph::isStandIn(attempt.self) && !graph::isStandIn(attempt.other) &&
        !isNumber(attempt.other))
      continue;
    if (!graph::isStandIn(attempt.self) && values::isScalar(attempt.self) &&
        stator_is_user_class(typeOf(tracer, attempt.other)) && !isScalarSubclass(attempt.other)) {
      // Numbers know nothing of the other class.
      if (!PyUnicode_Check(attempt.self) && !PyBytes_Check(attempt.self)) continue;
    }
    STATOR_VALUE(bound, slotMethod(tracer, attempt.self, attempt.method));
    if (!bound) continue;
    STATOR_VALUE(result, tracer.above.callNested(bound.get(), {attempt.other}));
    if (result.get() != Py_NotImplemented) return result;
  }
  std::string symbol =
      in_place ? (std::string(row.symbol) == "** or pow()" ? "**=" : std::string(row.symbol) + "=")
               : row.symbol;
  return tracer.raiseNew(PyExc_TypeError,
                         "unsupported operand type(s) for %.100s: '%.100s' and '%.100s'",
                         symbol.c_str(), left_type->tp_name, right_type->tp_name);
}

// A tensor subclass with an operator of its own, in Python.
bool overridesOperator(Tracer& tracer, PyObject* value, const char* name) {
  if (!graph::isStandIn(value) || typeOf(tracer, value) == tensorType()) return false;
  Ref<> text = stealRef(PyUnicode_InternFromString(name));
  Out found = typeLookup(tracer, typeOf(tracer, value), text.get());
  return found.get() != nullptr && PyFunction_Check(found.get()) &&
         found.get() != _PyType_Lookup(tensorType(), text.get());
}

// What has no operator that changes it gets a new value either way, but the error says which operator it was.
Out nativeBinary(Tracer& tracer, const BinaryRow& row, bool in_place, PyObject* left,
                 PyObject* right) {
  DecimalFold decimals(tracer, {left, right});
  Ref<> changes = in_place ? stealRef(PyUnicode_InternFromString(row.in_place)) : Ref<>();
  const bool as_written = changes && _PyType_Lookup(Py_TYPE(left), changes.get()) == nullptr;
  Ref<> result = stealRef((as_written ? row.native_in_place : row.native)(left, right));
  STATOR_FLOW(decimals.finish());
  return tracer.fromNative(std::move(result));
}

bool bothAre(PyObject* left, PyObject* right, PyTypeObject* type) {
  return PyType_IsSubtype(Py_TYPE(left), type) && PyType_IsSubtype(Py_TYPE(right), type);
}

// One of them, at least, is a tensor.
Out tensorBinary(Tracer& tracer, int operation, PyObject* left, PyObject* right) {
  const bool in_place = operation >= 13, left_stand_in = graph::isStandIn(left);
  const BinaryRow& row = kBinary[static_cast<size_t>(operation % 13)];
  PyObject* other = left_stand_in ? right : left;
  if (!graph::isStandIn(other) && stator_is_user_class(Py_TYPE(other)) && !isTraceIterator(other) &&
      (isProgrammed(tracer, Py_TYPE(other), left_stand_in ? row.reflected : row.method) ||
       (in_place && !left_stand_in && isProgrammed(tracer, Py_TYPE(other), row.in_place)))) {
    return binaryProtocol(tracer, row, in_place, left, right);
  }
  if (tracer.torch_function.relevant() &&
      (overridesOperator(tracer, left, in_place ? row.in_place : row.method) ||
       overridesOperator(tracer, left, row.method) ||
       overridesOperator(tracer, right, row.reflected))) {
    return binaryProtocol(tracer, row, in_place, left, right);
  }
  if (PyUnicode_Check(left))
    return tracer.breakWith(Reason::kDataDependentRead, "formats a tensor");
  if (in_place && !left_stand_in) {
    // A tensor refuses, and the container takes its elements.
    if (operation % 13 == NB_ADD && PyList_CheckExact(left)) {
      STATOR_VALUE(done, tracer.above.extendList(left, right));
      return newRef(left);
    }
    if (PyList_Check(left) || PyDict_Check(left) || PySet_Check(left) || isDeque(left) ||
        PyByteArray_Check(left))
      return tracer.breakWith(Reason::kUnsupportedMutation, "an in-place operator on a container");
  }
  std::string name = std::string(in_place ? "i" : "") + row.function;
  if (in_place && name.back() == '_') name.pop_back();
  Args args;
  args.values = {left, right};
  args.positional = 2;
  return tracer.above.tensorCall(graph::Op::kCallFunction, operatorFunction(name.c_str()), args);
}

Out symbolBinary(Tracer& tracer, int operation, PyObject* left, PyObject* right) {
  const bool scalars = symbolic::isSymScalar(left) || symbolic::isSymScalar(right);
  if (Ref<> result = scalars ? scalarBinary(tracer, operation, left, right)
                             : symBinary(tracer, operation, left, right))
    return result;
  // What comes out of sizes as a float: the graph computes it from them.
  if (!scalars &&
      (operation % 13 == NB_TRUE_DIVIDE || PyFloat_CheckExact(left) || PyFloat_CheckExact(right))) {
    if (Ref<> result = scalarBinary(tracer, operation, left, right)) return result;
  }
  Ref<> a = symbolic::isSymbol(left) ? concrete(tracer, left) : newRef(left),
        b = symbolic::isSymbol(right) ? concrete(tracer, right) : newRef(right);
  return binary(tracer, operation, a.get(), b.get());
}

bool isSetOperator(int operation) {
  const int kind = operation % 13;
  return kind == NB_AND || kind == NB_OR || kind == NB_SUBTRACT || kind == NB_XOR;
}

// Keys and items of dicts as sets; the result is a set of its own.
Out viewBinary(Tracer& tracer, const BinaryRow& row, PyObject* left, PyObject* right) {
  STATOR_VALUE(items, PyDictViewSet_Check(left) ? listOf(tracer, left) : contents(tracer, left));
  STATOR_VALUE(others, listOf(tracer, right));
  for (PyObject* list : {items.get(), others.get()}) {
    STATOR_VALUE(elements, listOf(tracer, list));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(elements.get()); ++i)
      STATOR_FLOW(requireHashable(tracer, PyList_GET_ITEM(elements.get(), i)));
  }
  STATOR_VALUE(result, withOwnKeys(tracer, nullptr, [&](PyObject*) -> PyObject* {
                 Ref<> first = stealRef(PySet_New(items.get()));
                 Ref<> second = first ? stealRef(PySet_New(others.get())) : Ref<>();
                 return second ? row.native(first.get(), second.get()) : nullptr;
               }));
  return tracer.fromNative(result);
}

// What the trace keeps of these dicts knows neither the class nor the factory.
bool unionAsksClass(PyObject* left, PyObject* right) {
  for (PyTypeObject* type : {Py_TYPE(left), Py_TYPE(right)}) {
    if (PyType_IsSubtype(type, defaultDictType()) ||
        (PyType_IsSubtype(type, &PyODict_Type) && type != &PyODict_Type))
      return true;
  }
  return false;
}

// Operators of containers that only move references: their elements may be anything.
enum class Moves : uint8_t { kNothing, kConcatenates, kRepeats, kSets, kDicts };

Moves movesOf(int operation, PyObject* left, PyObject* right) {
  if (operation % 13 == NB_ADD &&
      (bothAre(left, right, &PyList_Type) || bothAre(left, right, &PyTuple_Type) ||
       bothAre(left, right, dequeType())))
    return Moves::kConcatenates;
  if (operation % 13 == NB_MULTIPLY &&
      ((isPlainInt(right) && (PyList_CheckExact(left) || PyTuple_Check(left))) ||
       (isPlainInt(left) && (PyList_CheckExact(right) || PyTuple_Check(right)))))
    return Moves::kRepeats;
  if (PyAnySet_Check(left) && PyAnySet_Check(right)) return Moves::kSets;
  if (operation % 13 == NB_OR && PyDict_Check(left) && PyDict_Check(right)) return Moves::kDicts;
  return Moves::kNothing;
}

// torch.Size takes nothing but ints; which type comes out, the same sum of nothing but ints tells.
Out symbolicSizeSum(Tracer& tracer, const BinaryRow& row, PyObject* left, PyObject* right) {
  auto empty = [](PyObject* like) {
    return stealRef(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(Py_TYPE(like))));
  };
  Ref<> first = empty(left), second = empty(right);
  Ref<> type_of = first && second ? stealRef(row.native(first.get(), second.get())) : Ref<>();
  Ref<> list = stealRef(PySequence_List(left));
  if (!type_of || !list ||
      PyList_SetSlice(list.get(), PyList_GET_SIZE(list.get()), PyList_GET_SIZE(list.get()),
                      right) != 0)
    return tracer.raiseCurrentError();
  Ref<> args = stealRef(PyTuple_Pack(1, list.get()));
  return tracer.fromNative(
      stealRef(PyTuple_Type.tp_new(Py_TYPE(type_of.get()), args.get(), nullptr)));
}

// A container that is changed in place. keys: of sets and dicts, which are hashed.
Out moveInPlace(Tracer& tracer, const BinaryRow& row, bool keys, PyObject* left, PyObject* added) {
  STATOR_VALUE(target, contentsForWrite(tracer, left));
  if (keys) {
    STATOR_FLOW(withOwnKeys(tracer, target.get(), [&](PyObject* into) {
                  return row.native_in_place(into, added);
                }).flow());
    return newRef(left);
  }
  Ref<> result = stealRef(row.native_in_place(target.get(), added));
  if (!result) return tracer.raiseCurrentError();
  return newRef(left);
}

Out containerBinary(Tracer& tracer, int operation, Moves moves, PyObject* left, PyObject* right) {
  const BinaryRow& row = kBinary[static_cast<size_t>(operation % 13)];
  const bool in_place = operation >= 13, keys = moves == Moves::kSets || moves == Moves::kDicts;
  const bool asks_right = moves == Moves::kDicts && !iteratesAsDict(tracer, right);
  if (moves == Moves::kDicts && !in_place &&
      (asks_right || !iteratesAsDict(tracer, left) || unionAsksClass(left, right)))
    return tracer.above.callNested(torchObject("stator.polyfills.functions.union_of_dicts"),
                                   {left, right});
  if (asks_right) {
    Args other;
    other.values = {right};
    other.positional = 1;
    STATOR_FLOW(dictUpdate(tracer, left, other, false));
    return newRef(left);
  }
  STATOR_VALUE(added, contents(tracer, right));
  if (in_place && !PyTuple_Check(left) && !PyFrozenSet_Check(left) && !PyLong_Check(left))
    return moveInPlace(tracer, row, keys, left, added.get());
  STATOR_VALUE(target, contents(tracer, left));
  const bool sizes = Py_TYPE(target.get()) == sizeType() || Py_TYPE(added.get()) == sizeType();
  if (moves == Moves::kConcatenates && sizes && tracer.sizes.environment().symbolCount() > 0)
    return symbolicSizeSum(tracer, row, target.get(), added.get());
  if (keys) {
    STATOR_VALUE(result, withOwnKeys(tracer, nullptr, [&](PyObject*) {
                   return row.native(target.get(), added.get());
                 }));
    return tracer.fromNative(result);
  }
  return tracer.fromNative(stealRef(row.native(target.get(), added.get())));
}

// Operands that native code may not have as they are: what they hold, if that is all that it looks at.
Out plainBinary(Tracer& tracer, const BinaryRow& row, bool in_place, PyObject* left,
                PyObject* right) {
  PyTypeObject *left_type = Py_TYPE(left), *right_type = Py_TYPE(right);
  STATOR_VALUE(a, plain(tracer, left));
  STATOR_VALUE(b, plain(tracer, right));
  // C's other classes (timedelta, Decimal) ask a number by its methods.
  const bool asks = (isOpaqueConstant(a.get()) && Py_TYPE(b.get()) != right_type) ||
                    (isOpaqueConstant(b.get()) && Py_TYPE(a.get()) != left_type);
  // A text without fields comes out as it is, class and all.
  const bool stays =
      std::string_view(row.symbol) == "%" && PyUnicode_Check(left) && Py_TYPE(a.get()) != left_type;
  const bool shows = asks || stays || (PyUnicode_Check(left) && losesClass(tracer, right, b.get()));
  if (!isNativeSafe(tracer, a.get()) || !isNativeSafe(tracer, b.get()) || shows) {
    if (hasStandIn(tracer, left) || hasStandIn(tracer, right))
      return tracer.breakWith(Reason::kDataDependentRead, "an operator on a container of tensors");
    return tracer.breakWith(Reason::kUnsupportedObject, std::string("operator.") + row.function +
                                                            " on a " + left_type->tp_name +
                                                            " and a " + right_type->tp_name);
  }
  Out result = nativeBinary(tracer, row, in_place, a.get(), b.get());
  // The error would name other classes.
  if (result.flow() == Flow::kRaise &&
      (Py_TYPE(a.get()) != left_type || Py_TYPE(b.get()) != right_type)) {
    tracer.errors.dropRaised();
    return tracer.breakWith(Reason::kRaises, row.symbol);
  }
  return result;
}

// An operand's class defines the operator in Python.
bool isProgrammedBinary(Tracer& tracer, const BinaryRow& row, bool in_place, PyTypeObject* left,
                        PyTypeObject* right) {
  return (stator_is_user_class(left) && (isProgrammed(tracer, left, row.method) ||
                                         (in_place && isProgrammed(tracer, left, row.in_place)))) ||
         (stator_is_user_class(right) && isProgrammed(tracer, right, row.reflected));
}

}  // namespace

Out binary(Tracer& tracer, int operation, PyObject* left, PyObject* right) {
  bool in_place = operation >= 13;
  const BinaryRow& row = kBinary[static_cast<size_t>(operation % 13)];
  if (graph::isStandIn(left) || graph::isStandIn(right))
    return tensorBinary(tracer, operation, left, right);
  if (symbolic::isSymbol(left) || symbolic::isSymbol(right))
    return symbolBinary(tracer, operation, left, right);
  if (in_place && isProxied(tracer, left))
    return tracer.breakWith(Reason::kRaises, "an in-place operator on a read-only view");
  if (isProgrammedBinary(tracer, row, in_place, Py_TYPE(left), Py_TYPE(right)))
    return binaryProtocol(tracer, row, in_place, left, right);
  // Those of deques call the class.
  for (PyObject* operand : {left, right}) {
    if (!in_place && isDeque(operand) && Py_TYPE(operand) != dequeType())
      return tracer.breakWith(Reason::kCallsOutside, "an operator on a subclass of deque");
  }
  if (isSetOperator(operation) && (PyDictViewSet_Check(left) || PyDictViewSet_Check(right)))
    return viewBinary(tracer, row, left, right);
  if (in_place && operation % 13 == NB_ADD && PyList_CheckExact(left)) {
    STATOR_VALUE(done, tracer.above.extendList(left, right));
    return newRef(left);
  }
  const Moves moves = movesOf(operation, left, right);
  if (moves != Moves::kNothing) return containerBinary(tracer, operation, moves, left, right);
  if (in_place && (PyList_Check(left) || PyDict_Check(left) || PySet_Check(left) || isDeque(left)))
    return tracer.breakWith(Reason::kUnsupportedMutation, "an in-place operator on a container");
  if (!isNativeSafe(tracer, left) || !isNativeSafe(tracer, right))
    return plainBinary(tracer, row, in_place, left, right);
  return nativeBinary(tracer, row, in_place, left, right);
}

Out programmedDivmod(Tracer& tracer, PyObject* left, PyObject* right) {
  static const BinaryRow row = {"divmod",      "divmod()",      "__divmod__",   "__rdivmod__",
                                "__idivmod__", PyNumber_Divmod, PyNumber_Divmod};
  for (PyObject* operand : {left, right}) {
    if (graph::isStandIn(operand) || symbolic::isSymbol(operand)) return Ref<>();
  }
  if ((stator_is_user_class(Py_TYPE(left)) && isProgrammed(tracer, Py_TYPE(left), row.method)) ||
      (stator_is_user_class(Py_TYPE(right)) && isProgrammed(tracer, Py_TYPE(right), row.reflected)))
    return binaryProtocol(tracer, row, false, left, right);
  return Ref<>();
}

Out unary(Tracer& tracer, int operation, PyObject* operand) {
  static const char* const functions[] = {"pos", "neg", "invert"};
  static const char* const methods[] = {"__pos__", "__neg__", "__invert__"};
  if (graph::isStandIn(operand)) {
    Args args;
    args.values = {operand};
    args.positional = 1;
    return tracer.above.tensorCall(graph::Op::kCallFunction, operatorFunction(functions[operation]),
                                   args);
  }
  if (symbolic::isSymScalar(operand)) {
    if (Ref<> result = scalarUnary(tracer, operation, operand)) return result;
    Ref<> number = concrete(tracer, operand);
    return unary(tracer, operation, number.get());
  }
  if (symbolic::isSymInt(operand)) {
    if (operation == 0) return newRef(operand);
    if (operation == 1) return symInt(tracer, -symbolic::dimOf(operand));
    Ref<> number = concrete(tracer, operand);
    return unary(tracer, operation, number.get());
  }
  if (stator_is_user_class(Py_TYPE(operand)) &&
      isProgrammed(tracer, Py_TYPE(operand), methods[operation])) {
    STATOR_VALUE(bound, slotMethod(tracer, operand, methods[operation]));
    tracer.world.keep(bound);
    return tracer.above.call(bound.get(), Args{});
  }
  if (!isNativeSafe(tracer, operand))
    return tracer.breakWith(Reason::kUnsupportedObject,
                            std::string("operator.") + functions[operation]);
  PyObject* (*native[])(PyObject*) = {PyNumber_Positive, PyNumber_Negative, PyNumber_Invert};
  DecimalFold decimals(tracer, {operand});
  Ref<> result = stealRef(native[operation](operand));
  STATOR_FLOW(decimals.finish());
  return tracer.fromNative(std::move(result));
}

}  // namespace stator::interpret
