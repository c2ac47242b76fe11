// Floats and bools that the graph computes: a float from outside that changed, and what item() reads from a tensor where
// config.capture_scalar_outputs asks for it. Arithmetic on them becomes nodes of the graph. A float from outside has a value now: a
// comparison with a constant is decided by it and guarded, and whoever needs the number gets it, guarded (concreteScalar). What is read from
// a tensor has none: a program that needs it to go on breaks there.
#include "base/check.h"
#include "interpret/torch_names.h"
#include "interpret/tracer.h"
#include "symbolic/sym_int.h"

#include <array>
#include <bit>
#include <cmath>

namespace stator::interpret {

using symbolic::asSymScalar;
using symbolic::Dim;
using symbolic::isSymInt;
using symbolic::isSymScalar;
using symbolic::SymScalar;

namespace {

bool isPlainNumber(PyObject* value) {
  return PyFloat_CheckExact(value) || PyLong_CheckExact(value) || PyBool_Check(value);
}

// Operands that arithmetic in the graph takes: floats of its own, symbolic ints, plain numbers.
bool isOperand(PyObject* value) {
  return isPlainNumber(value) || isSymInt(value) ||
         (isSymScalar(value) && asSymScalar(value)->of == &PyFloat_Type);
}

// The value now; null: there is none.
Ref<> valueNow(Tracer& t, PyObject* value) {
  if (isPlainNumber(value)) return newRef(value);
  if (isSymScalar(value))
    return asSymScalar(value)->backed ? stealRef(PyFloat_FromDouble(asSymScalar(value)->hint))
                                      : Ref<>();
  const std::optional<int64_t> hint =
      t.environment.hintOf(t.environment.simplify(symbolic::dimOf(value).expr()));
  return hint ? stealRef(PyLong_FromLongLong(*hint)) : Ref<>();
}

Ref<> scalarStandIn(Tracer& t, graph::Node* node, PyTypeObject* type) {
  t.has_scalars = true;
  node->scalar_type = newRef(reinterpret_cast<PyObject*>(type));
  node->location = t.location();
  node->scope = t.frames.back()->scope;
  Ref<> made = graph::makeStandIn(node, nullptr, reinterpret_cast<PyObject*>(type));
  t.values.addMade(made, t.instruction_start);
  return made;
}

Ref<> addNode(Tracer& t, const char* function, std::vector<Ref<>> operands, PyTypeObject* type) {
  Ref<> tuple = stealRef(PyTuple_New(static_cast<Py_ssize_t>(operands.size())));
  for (size_t i = 0; i < operands.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), operands[i].release());
  return scalarStandIn(t,
                       t.graph->addCall(graph::Op::kCallFunction,
                                        newRef(operatorFunction(function)), tuple, Ref<>()),
                       type);
}

Ref<> withHint(Ref<> scalar, PyObject* value) {
  if (value != nullptr) {
    asSymScalar(scalar.get())->hint = PyFloat_AsDouble(value);
    asSymScalar(scalar.get())->backed = true;
  }
  return scalar;
}

// Everything that a node was computed from keeps the value it has now.
void pin(Tracer& t, graph::Node* node, std::vector<graph::Node*>& seen) {
  for (graph::Node* known : seen) {
    if (known == node) return;
  }
  seen.push_back(node);
  if (node->op == graph::Op::kInput) {
    if (!node->size.isStatic()) {
      node->size.value();
    } else if (node->scalar_type) {
      t.guards->add(Guard{GuardKind::kEquals, node->source, nullptr, node->example});
    }
    return;
  }
  graph::forEachStandIn(node->args.get(), [&](graph::StandIn* used) { pin(t, used->node, seen); });
}

}  // namespace

Out Tracer::floatFromOutside(PyObject* raw, const Source* source) {
  if (options.history == nullptr || options.dynamic == DynamicMode::kStatic) return Ref<>();
  const double value = PyFloat_AS_DOUBLE(raw);
  if (auto known = outside_ints.find(source); known != outside_ints.end()) return known->second;
  DynamicHistory::Seen& seen = options.history->at(sourceKey(*source));
  const auto bits = std::bit_cast<int64_t>(value);
  if (seen.has_number && seen.number != bits) seen.number_changed = true;
  seen.has_number = true;
  seen.number = bits;
  if (!seen.number_changed || std::isnan(value)) return Ref<>();
  guards->add(
      Guard{GuardKind::kType, source, nullptr, newRef(reinterpret_cast<PyObject*>(&PyFloat_Type))});
  // Not a number is another program.
  guards->relations.floats.push_back(
      {source, Py_NE, std::numeric_limits<double>::quiet_NaN(), true});
  Ref<> made = withHint(symbolic::makeScalar(&PyFloat_Type, Ref<>()), raw);
  asSymScalar(made.get())->source = source;
  has_scalars = true;
  outside_ints[source] = made;
  return made;
}

Ref<> Tracer::scalarNode(PyObject* object) {
  SymScalar* scalar = asSymScalar(object);
  if (scalar->stand_in == nullptr) {
    const auto* source = static_cast<const Source*>(scalar->source);
    graph::Node* node =
        rootGraph().addInput(source, stealRef(PyFloat_FromDouble(scalar->hint)), nullptr);
    node->scalar_type = newRef(reinterpret_cast<PyObject*>(&PyFloat_Type));
    Ref<> made = graph::makeStandIn(node, nullptr, reinterpret_cast<PyObject*>(&PyFloat_Type));
    values.addMade(made, 0);
    scalar->stand_in = made.release();
  }
  return newRef(scalar->stand_in);
}

Ref<> Tracer::scalarBinary(int operation, PyObject* left, PyObject* right) {
  static const char* const functions[13] = {"add", nullptr,   "floordiv", nullptr, nullptr,
                                            "mul", "mod",     nullptr,    "pow",   nullptr,
                                            "sub", "truediv", nullptr};
  static PyObject* (*const native[13])(PyObject*, PyObject*) = {
      PyNumber_Add,
      nullptr,
      PyNumber_FloorDivide,
      nullptr,
      nullptr,
      PyNumber_Multiply,
      PyNumber_Remainder,
      nullptr,
      [](PyObject* a, PyObject* b) { return PyNumber_Power(a, b, Py_None); },
      nullptr,
      PyNumber_Subtract,
      PyNumber_TrueDivide,
      nullptr};
  operation %= 13;
  if (functions[operation] == nullptr || !isOperand(left) || !isOperand(right)) return nullptr;
  // Where another size would raise, or give a complex number, that it does not is a condition.
  auto isZero = [&](PyObject* value) {
    return isSymInt(value) &&
           environment.decide(symbolic::equal(symbolic::dimOf(value).expr(), symbolic::integer(0)));
  };
  auto isPositive = [&](PyObject* value) {
    return !isSymInt(value) || environment.decide(symbolic::lessThan(
                                   symbolic::integer(0), symbolic::dimOf(value).expr()));
  };
  const bool divides = operation == 2 || operation == 6 || operation == 11;
  if ((divides && isZero(right)) || (operation == 8 && !isPositive(left))) return nullptr;
  Ref<> a = valueNow(*this, left), b = valueNow(*this, right);
  Ref<> result;
  if (a && b) {
    result = stealRef(native[operation](a.get(), b.get()));
    // It raises, or is complex: with plain numbers the program goes its way.
    if (!result || !PyFloat_CheckExact(result.get())) {
      PyErr_Clear();
      return nullptr;
    }
  } else if ((operation == 2 || operation == 6) && !options.runs_as_captured) {
    return nullptr;  // tensors, which such a backend has for the numbers, have no such operation
  } else if (operation == 8 && !(options.runs_as_captured && isSymScalar(left) &&
                                 PyLong_CheckExact(right) && Py_SIZE(right) >= 0)) {
    // Of a negative number a complex one, unless it is multiplied with itself; and where tensors stand for the numbers it does not raise.
    return nullptr;
  }
  return withHint(
      symbolic::makeScalar(&PyFloat_Type, addNode(*this, functions[operation],
                                                  {lowered(left), lowered(right)}, &PyFloat_Type)),
      result.get());
}

Ref<> floatOf(Tracer& t, PyObject* sym_int, PyObject* function) {
  Ref<> now = valueNow(t, sym_int);
  // Where the function raises for the number that comes, the graph fails, and the program runs again without it. It does not fail where a
  // backend has tensors for the numbers.
  if (!now && !(t.options.runs_as_captured && isSymScalar(sym_int) &&
                asSymScalar(sym_int)->of == &PyFloat_Type))
    return nullptr;
  Ref<> result = now ? stealRef(PyObject_CallOneArg(function, now.get())) : Ref<>();
  if (now && (!result || !PyFloat_CheckExact(result.get()))) {
    PyErr_Clear();
    return nullptr;
  }
  Ref<> operand = t.lowered(sym_int);
  graph::Node* node = t.graph->addCall(graph::Op::kCallFunction, newRef(function),
                                       stealRef(PyTuple_Pack(1, operand.get())), Ref<>());
  Ref<> made = scalarStandIn(t, node, &PyFloat_Type);
  return withHint(symbolic::makeScalar(&PyFloat_Type, std::move(made)), result.get());
}

// floor or ceil of a quotient of two ints, of which the graph computes one at least: an int again. As long as the dividend fits into a
// double, a quotient that is no integer is not rounded to one, so the integers' own division says the same. Null: not for this one.
Out roundedQuotient(Tracer& t, PyObject* object, bool up) {
  if (!isSymScalar(object) || asSymScalar(object)->stand_in == nullptr) return Ref<>();
  graph::Node* node = graph::asStandIn(asSymScalar(object)->stand_in)->node;
  if (node->op != graph::Op::kCallFunction || node->target.get() != operatorFunction("truediv"))
    return Ref<>();
  std::array<Ref<>, 2> parts;
  for (Py_ssize_t i = 0; i < 2; ++i) {
    PyObject* part = PyTuple_GET_ITEM(node->args.get(), i);
    int overflow = 0;
    if (PyLong_CheckExact(part) &&
        std::abs(static_cast<double>(PyLong_AsLongLongAndOverflow(part, &overflow))) < 1e9 &&
        overflow == 0) {
      parts[static_cast<size_t>(i)] = newRef(part);
    } else if (graph::isStandIn(part) && !graph::asStandIn(part)->node->size.isStatic()) {
      parts[static_cast<size_t>(i)] = t.symInt(graph::asStandIn(part)->node->size);
    } else {
      return Ref<>();
    }
  }
  auto exprOf = [&](const Ref<>& part) {
    return isSymInt(part.get()) ? t.environment.simplify(symbolic::dimOf(part.get()).expr())
                                : symbolic::integer(PyLong_AsLongLong(part.get()));
  };
  const symbolic::Expr *dividend = exprOf(parts[0]), *divisor = exprOf(parts[1]);
  const symbolic::Expr* largest = symbolic::integer(int64_t{1} << 53);
  for (const symbolic::Expr* condition :
       {symbolic::lessThan(dividend, largest),
        symbolic::lessThan(symbolic::multiply(symbolic::integer(-1), largest), dividend),
        symbolic::lessThan(symbolic::integer(0), divisor)}) {
    if (!t.environment.decide(condition)) return Ref<>();
  }
  if (!up) return t.binary(2, parts[0].get(), parts[1].get());
  STATOR_VALUE(negative, t.unary(1, parts[0].get()));
  STATOR_VALUE(quotient, t.binary(2, negative.get(), parts[1].get()));
  return t.unary(1, quotient.get());
}

Ref<> Tracer::scalarUnary(int operation, PyObject* operand) {
  if (asSymScalar(operand)->of != &PyFloat_Type || operation > 1) return nullptr;
  if (operation == 0) return newRef(operand);
  Ref<> now = valueNow(*this, operand);
  Ref<> result = now ? stealRef(PyNumber_Negative(now.get())) : Ref<>();
  return withHint(
      symbolic::makeScalar(&PyFloat_Type, addNode(*this, "neg", {lowered(operand)}, &PyFloat_Type)),
      result.get());
}

Ref<> Tracer::scalarCompare(int operation, PyObject* left, PyObject* right) {
  static const char* const functions[] = {"lt", "le", "eq", "ne", "gt", "ge"};
  static const int swapped[] = {Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE};
  if (!isOperand(left) || !isOperand(right)) return nullptr;
  Ref<> a = valueNow(*this, left), b = valueNow(*this, right);
  if (!a || !b) {
    has_scalars = true;
    return symbolic::makeScalar(
        &PyBool_Type,
        addNode(*this, functions[operation], {lowered(left), lowered(right)}, &PyBool_Type));
  }
  PyObject *scalar = left, *constant = right;
  int seen_from_scalar = operation;
  if (!isSymScalar(left)) {
    std::swap(scalar, constant);
    seen_from_scalar = swapped[operation];
  }
  Ref<> result = stealRef(PyObject_RichCompare(a.get(), b.get(), operation));
  if (!result) throw PythonError();
  const bool simple = asSymScalar(scalar)->source != nullptr && isPlainNumber(constant);
  double number = simple ? PyFloat_AsDouble(constant) : 0;
  if (PyErr_Occurred()) PyErr_Clear(), number = std::numeric_limits<double>::quiet_NaN();
  const bool exact =
      simple && (PyFloat_CheckExact(constant) || std::abs(number) < 9007199254740992.0);
  if (exact && number == number) {
    guards->relations.floats.push_back({static_cast<const Source*>(asSymScalar(scalar)->source),
                                        seen_from_scalar, number, result.get() == Py_True});
  } else {
    for (PyObject* operand : {left, right}) {
      if (symbolic::isSymbol(operand)) concrete(operand);
    }
  }
  return result;
}

Ref<> Tracer::concreteScalar(PyObject* object) {
  SymScalar* scalar = asSymScalar(object);
  if (!scalar->backed) throw symbolic::Undecided(scalar->condition);
  Ref<> now = stealRef(PyFloat_FromDouble(scalar->hint));
  if (scalar->source != nullptr) {
    guards->add(
        Guard{GuardKind::kEquals, static_cast<const Source*>(scalar->source), nullptr, now});
  } else {
    std::vector<graph::Node*> seen;
    pin(*this, graph::asStandIn(scalar->stand_in)->node, seen);
  }
  return now;
}

const symbolic::Expr* Tracer::addUnbacked(Ref<> stand_in, symbolic::Range range) {
  const symbolic::Expr* made = environment.addUnbacked(range);
  symbol_sources.push_back(nullptr);
  symbol_ranges.push_back(range);
  symbol_nodes[made] = std::move(stand_in);
  return made;
}

// One element of a tensor as a number of the graph's own.
Out Tracer::readIntoGraph(PyObject* target, PyObject* tensor) {
  if (!graph::isStandIn(tensor) || graph::asStandIn(tensor)->meta == nullptr) return Ref<>();
  const shapes::TensorMeta& meta = *graph::asStandIn(tensor)->meta;
  std::string_view name = PyUnicode_AsUTF8(target);
  static PyObject* item = PyUnicode_InternFromString("item");
  if (name == "tolist" && meta.sizes.size() == 1) {
    Ref<> list = stealRef(PyList_New(0));
    static PyObject* getitem = operatorFunction("getitem");
    const int64_t length = meta.sizes[0].value();
    for (int64_t i = 0; i < length; ++i) {
      Ref<> index = stealRef(PyLong_FromLongLong(i));
      Args args;
      args.values = {tensor, index.get()};
      args.positional = 2;
      STATOR_VALUE(element, tensorCall(graph::Op::kCallFunction, getitem, args));
      STATOR_VALUE(number, readIntoGraph(item, element.get()));
      if (!number) return number;
      PyList_Append(list.get(), number.get());
    }
    return made(list);
  }
  for (shapes::Dim size : meta.sizes) {
    if (!size.isStatic() || size.value() != 1) return Ref<>();
  }
  const bool is_float = meta.dtype == shapes::DType::Float || meta.dtype == shapes::DType::Double ||
                        meta.dtype == shapes::DType::Half || meta.dtype == shapes::DType::BFloat16;
  const bool is_int = meta.dtype == shapes::DType::Long || meta.dtype == shapes::DType::Int ||
                      meta.dtype == shapes::DType::Short || meta.dtype == shapes::DType::Char ||
                      meta.dtype == shapes::DType::Byte;
  if (name == "__float__" && (is_int || meta.dtype == shapes::DType::Bool)) {
    // As float() of Python's int rounds.
    static PyObject* const to_double = PyUnicode_InternFromString("double");
    Args args;
    args.values = {tensor};
    args.positional = 1;
    STATOR_VALUE(number, tensorCall(graph::Op::kCallMethod, to_double, args));
    return readIntoGraph(item, number.get());
  }
  const bool plain = name == "item" || (name == "__float__" && is_float) ||
                     ((name == "__int__" || name == "__index__") && is_int);
  if (!plain || (!is_float && !is_int && meta.dtype != shapes::DType::Bool)) return Ref<>();
  PyTypeObject* type = is_float ? &PyFloat_Type : is_int ? &PyLong_Type : &PyBool_Type;
  graph::Node* node = graph->addCall(graph::Op::kCallMethod, newRef(item),
                                     stealRef(PyTuple_Pack(1, tensor)), Ref<>());
  node->scalar_type = newRef(reinterpret_cast<PyObject*>(type));
  node->location = location();
  node->scope = frames.back()->scope;
  Ref<> stand_in = graph::makeStandIn(node, nullptr, reinterpret_cast<PyObject*>(type));
  values.addMade(stand_in, instruction_start);
  has_scalars = true;
  if (!is_int) return symbolic::makeScalar(type, std::move(stand_in));
  symbolic::Range range;
  if (meta.dtype == shapes::DType::Byte) range = {0, 255};
  const symbolic::Expr* symbol = addUnbacked(std::move(stand_in), range);
  node->size = Dim::of(symbol);
  return symbolic::makeInt(Dim::of(symbol));
}

}  // namespace stator::interpret
