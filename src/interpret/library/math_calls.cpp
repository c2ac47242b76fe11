// Functions of the module math, for numbers that the graph computes too.
#include "interpret/library/math_calls.h"

#include "interpret/core/known.h"
#include "interpret/core/sym_scalars.h"
#include "interpret/core/symbols.h"
#include "interpret/core/tables.h"
#include "interpret/objects/comparisons.h"
#include "interpret/objects/native_calls.h"
#include "interpret/objects/operators.h"
#include "python/opcode_numbers.h"
#include "symbolic/sym_int.h"

#include <array>
#include <utility>

namespace stator::interpret {

bool isUnknownFloat(PyObject* value) {
  return symbolic::isSymScalar(value) && symbolic::asSymScalar(value)->of == &PyFloat_Type &&
         !symbolic::asSymScalar(value)->backed;
}

bool isKnownFloat(PyObject* value) {
  return symbolic::isSymScalar(value) && symbolic::asSymScalar(value)->of == &PyFloat_Type &&
         symbolic::asSymScalar(value)->backed;
}

namespace {

// (dividend, divisor); null: it is no quotient.
Ref<> operandsOfQuotient(PyObject* object) {
  if (!symbolic::isSymScalar(object)) return Ref<>();
  const symbolic::SymScalar* scalar = symbolic::asSymScalar(object);
  static PyObject* const divides = operatorFunction("truediv");
  if (scalar->formula != nullptr) {
    if (PyTuple_GET_ITEM(scalar->formula, 0) != divides) return Ref<>();
    return stealRef(PyTuple_GetSlice(scalar->formula, 1, 3));
  }
  if (scalar->stand_in == nullptr) return Ref<>();
  const graph::Node* node = graph::asStandIn(scalar->stand_in)->node;
  const bool is_quotient = node->op == graph::Op::kCallFunction && node->target.get() == divides;
  return is_quotient ? newRef(node->args.get()) : Ref<>();
}

}  // namespace

Out roundedQuotient(Tracer& t, PyObject* object, bool up) {
  const Ref<> quotient_of = operandsOfQuotient(object);
  if (!quotient_of) return Ref<>();
  std::array<Ref<>, 2> parts;
  for (Py_ssize_t i = 0; i < 2; ++i) {
    PyObject* part = PyTuple_GET_ITEM(quotient_of.get(), i);
    int overflow = 0;
    const bool small =
        PyLong_CheckExact(part) &&
        std::abs(static_cast<double>(PyLong_AsLongLongAndOverflow(part, &overflow))) < 1e9 &&
        overflow == 0;
    if (small || symbolic::isSymInt(part)) {
      parts[static_cast<size_t>(i)] = newRef(part);
    } else if (graph::isStandIn(part) && !graph::asStandIn(part)->node->size.isStatic()) {
      parts[static_cast<size_t>(i)] = symInt(t, graph::asStandIn(part)->node->size);
    } else {
      return Ref<>();
    }
  }
  auto expr_of = [&](const Ref<>& part) {
    return symbolic::isSymInt(part.get())
               ? t.sizes.environment().simplify(symbolic::dimOf(part.get()).expr())
               : symbolic::integer(PyLong_AsLongLong(part.get()));
  };
  const symbolic::Expr *dividend = expr_of(parts[0]), *divisor = expr_of(parts[1]);
  const symbolic::Expr* largest = symbolic::integer(int64_t{1} << 53);
  for (const symbolic::Expr* condition :
       {symbolic::lessThan(dividend, largest),
        symbolic::lessThan(symbolic::multiply(symbolic::integer(-1), largest), dividend),
        symbolic::lessThan(symbolic::integer(0), divisor)}) {
    if (!t.sizes.environment().decide(condition)) return Ref<>();
  }
  if (!up) return binary(t, NB_FLOOR_DIVIDE, parts[0].get(), parts[1].get());
  STATOR_VALUE(negative, unary(t, 1, parts[0].get()));
  STATOR_VALUE(quotient, binary(t, NB_FLOOR_DIVIDE, negative.get(), parts[1].get()));
  return unary(t, 1, quotient.get());
}

namespace {

struct MathFunction {
  const char* path;
  const char* in_graph;
};

// torch's own name for it, where it has one for symbolic floats.
constexpr MathFunction kFunctions[] = {
    {"math.acos", "torch._sym_acos"}, {"math.acosh", "math.acosh"},
    {"math.asin", "torch._sym_asin"}, {"math.asinh", "math.asinh"},
    {"math.atan", "torch._sym_atan"}, {"math.atan2", "math.atan2"},
    {"math.atanh", "math.atanh"},     {"math.copysign", "math.copysign"},
    {"math.cos", "torch._sym_cos"},   {"math.cosh", "torch._sym_cosh"},
    {"math.degrees", "math.degrees"}, {"math.erf", "math.erf"},
    {"math.erfc", "math.erfc"},       {"math.exp", "math.exp"},
    {"math.expm1", "math.expm1"},     {"math.fabs", "math.fabs"},
    {"math.fmod", "math.fmod"},       {"math.gamma", "math.gamma"},
    {"math.hypot", "math.hypot"},     {"math.lgamma", "math.lgamma"},
    {"math.log", "math.log"},         {"math.log10", "math.log10"},
    {"math.log1p", "math.log1p"},     {"math.log2", "torch._sym_log2"},
    {"math.pow", "math.pow"},         {"math.radians", "math.radians"},
    {"math.sin", "torch._sym_sin"},   {"math.sinh", "torch._sym_sinh"},
    {"math.tan", "torch._sym_tan"},   {"math.tanh", "torch._sym_tanh"},
};

Out withConcrete(Tracer& t, const char* function, const Args& args) {
  Args numbers = args;
  for (PyObject*& value : numbers.values) {
    if (!symbolic::isSymbol(value)) continue;
    value = t.world.keep(concrete(t, value));
  }
  return callNative(t, torchObject(function), numbers);
}

// math.cos(x), math.atan2(y, x) and others that give a float.
Out mathOfFloats(Tracer& t, const Args& args, const MathFunction& function) {
  bool any = false, only = args.keywordCount() == 0;
  for (PyObject* value : args.values) {
    any |= isKnownFloat(value);
    only &= isKnownFloat(value) || PyFloat_CheckExact(value) || PyLong_CheckExact(value);
  }
  if (any && only) {
    if (Ref<> made = floatOf(t, args.values, torchObject(function.in_graph))) return made;
  }
  return withConcrete(t, function.path, args);
}

template <size_t index>
Out mathCall(Tracer& t, const Args& args) {
  return mathOfFloats(t, args, kFunctions[index]);
}

template <size_t... indices>
void registerFunctions(std::index_sequence<indices...>) {
  (registerHandler(kFunctions[indices].path, mathCall<indices>), ...);
  (allowSymbols(kFunctions[indices].path), ...);
}

Out sqrtCall(Tracer& t, const Args& args) {
  if (args.values.size() == 1 && args.positional == 1 && symbolic::isSymInt(args.values[0])) {
    Ref<> zero = stealRef(PyLong_FromLong(0));
    // Of a negative number it raises.
    STATOR_VALUE(positive, compare(t, Py_GT, args.values[0], zero.get()));
    if (positive.get() == Py_True) {
      if (Ref<> made = floatOf(t, args.values[0], torchObject("torch._sym_sqrt"))) return made;
    }
  }
  if (args.values.size() == 1 && args.positional == 1 &&
      (isUnknownFloat(args.values[0]) || isKnownFloat(args.values[0]))) {
    if (Ref<> made = floatOf(t, args.values[0], torchObject("torch._sym_sqrt"))) return made;
  }
  return withConcrete(t, "math.sqrt", args);
}

// math.floor, math.ceil
Out roundCallTo(Tracer& t, const Args& args, bool up) {
  if (args.values.size() == 1 && args.positional == 1 && symbolic::isSymbol(args.values[0])) {
    if (symbolic::isSymInt(args.values[0])) return newRef(args.values[0]);
    STATOR_VALUE(made, roundedQuotient(t, args.values[0], up));
    if (made) return made;
  }
  return withConcrete(t, up ? "math.ceil" : "math.floor", args);
}
Out floorCall(Tracer& t, const Args& args) { return roundCallTo(t, args, false); }
Out ceilCall(Tracer& t, const Args& args) { return roundCallTo(t, args, true); }

// math.prod(x.shape)
Out prodCall(Tracer& t, const Args& args) {
  PyObject* items = args.values.empty() ? nullptr : args.values[0];
  bool symbols = false;
  if (args.values.size() == 1 && args.positional == 1 &&
      (PyTuple_Check(items) || PyList_CheckExact(items))) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items); ++i)
      symbols |= symbolic::isSymInt(PySequence_Fast_GET_ITEM(items, i));
  }
  if (!symbols) return callNative(t, torchObject("math.prod"), args);
  Ref<> product = stealRef(PyLong_FromLong(1));
  Ref<> keep = newRef(items);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items); ++i) {
    STATOR_VALUE(next, binary(t, NB_MULTIPLY, product.get(), PySequence_Fast_GET_ITEM(items, i)));
    t.world.keep(next);
    product = std::move(next);
  }
  return product;
}

}  // namespace

void registerMath() {
  PyObject* math = torchObject("math");
  PyObject* dict = math != nullptr ? PyModule_GetDict(math) : nullptr;
  PyObject *name = nullptr, *item = nullptr;
  Py_ssize_t position = 0;
  while (dict != nullptr && PyDict_Next(dict, &position, &name, &item)) {
    if (PyCFunction_Check(item)) registerRow(item, CallRow{CallKind::kPure, nullptr});
  }
  registerHandler("math.sqrt", sqrtCall);
  registerHandler("math.prod", prodCall);
  registerHandler("math.floor", floorCall);
  registerHandler("math.ceil", ceilCall);
  for (const char* path : {"math.sqrt", "math.prod", "math.floor", "math.ceil"}) allowSymbols(path);
  registerFunctions(std::make_index_sequence<std::size(kFunctions)>());
}

}  // namespace stator::interpret
