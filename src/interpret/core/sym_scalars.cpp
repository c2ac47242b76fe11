// Floats and bools that the graph computes: a float from outside that changed, and what item() reads from a tensor
// where config.capture_scalar_outputs asks for it. Arithmetic on what was read becomes nodes of the graph; sums and
// products of numbers from outside are a formula, which is in the graph only if an operation of the graph takes it. A
// float from outside has a value now: a comparison with a constant is decided by it and guarded, and whoever needs the
// number gets it, guarded (concreteScalar). What is read from a tensor has none: a program that needs it to go on
// breaks there.
#include "interpret/core/sym_scalars.h"

#include "base/check.h"
#include "base/fields.h"
#include "base/stack_room.h"
#include "base/text.h"
#include "interpret/core/known.h"
#include "interpret/core/symbol_nodes.h"
#include "interpret/core/symbols.h"
#include "interpret/core/tracer.h"
#include "symbolic/sym_int.h"
#include "tensor/meta_of.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <unordered_set>

namespace stator::interpret {

using symbolic::asSymScalar;
using symbolic::Dim;
using symbolic::isSymInt;
using symbolic::isSymScalar;
using symbolic::SymScalar;

namespace {

using guards::FloatRelation;
constexpr int64_t kExactInt = FloatRelation::kExactInt;

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
      t.sizes.environment().hintOf(t.sizes.environment().simplify(symbolic::dimOf(value).expr()));
  return hint ? stealRef(PyLong_FromLongLong(*hint)) : Ref<>();
}

Ref<> scalarStandIn(Tracer& t, graph::Node* node, PyTypeObject* type) {
  t.sizes.noteScalar();
  node->scalar_type = newRef(reinterpret_cast<PyObject*>(type));
  node->location = t.location();
  node->scope = t.frames.innermost().scope;
  Ref<> made = graph::makeStandIn(node, nullptr, reinterpret_cast<PyObject*>(type));
  t.values.addMade(made.get(), t.frames.instruction());
  return made;
}

Ref<> addNode(Tracer& t, PyObject* function, std::vector<Ref<>> operands, PyTypeObject* type) {
  Ref<> tuple = stealRef(PyTuple_New(static_cast<Py_ssize_t>(operands.size())));
  for (size_t i = 0; i < operands.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), operands[i].release());
  return scalarStandIn(
      t, t.graphs.current().addCall(graph::Op::kCallFunction, newRef(function), tuple, Ref<>()),
      type);
}

// Whether a plan has it without the graph, and arithmetic takes it without an error.
bool isPlanned(Tracer& t, PyObject* value) {
  if (isSymScalar(value))
    return asSymScalar(value)->source != nullptr || asSymScalar(value)->formula != nullptr;
  if (symbolic::isSymInt(value)) return static_cast<bool>(valueNow(t, value));
  int overflow = 0;
  return PyFloat_CheckExact(value) ||
         (PyLong_Check(value) &&
          std::abs(PyLong_AsLongLongAndOverflow(value, &overflow)) <= kExactInt && overflow == 0);
}

// A formula instead of a node, for what raises for no numbers that may come. Null: it takes a node.
Ref<> deferred(Tracer& t, PyTypeObject* of, PyObject* function,
               std::initializer_list<PyObject*> operands) {
  if (forExport()) return Ref<>();
  for (PyObject* operand : operands)
    if (!isPlanned(t, operand)) return Ref<>();
  Ref<> formula = stealRef(PyTuple_New(static_cast<Py_ssize_t>(operands.size()) + 1));
  if (!formula) throw PythonError();
  PyTuple_SET_ITEM(formula.get(), 0, Py_NewRef(function));
  Py_ssize_t at = 1;
  for (PyObject* operand : operands) PyTuple_SET_ITEM(formula.get(), at++, Py_NewRef(operand));
  return symbolic::makeFormula(of, std::move(formula));
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
    } else if (graph::isFloatTensor(*node)) {
      t.world.guard(
          Guard{GuardKind::kEquals, node->source->base, nullptr, graph::floatAtCapture(*node)});
    } else if (node->scalar_type) {
      t.world.guard(Guard{GuardKind::kEquals, node->source, nullptr, node->example});
    }
    return;
  }
  graph::forEachStandIn(node->args.get(), [&](graph::StandIn* used) { pin(t, used->node, seen); });
}

void pinFormula(Tracer& t, PyObject* operand, std::unordered_set<PyObject*>& seen) {
  if (symbolic::isSymInt(operand)) symbolic::dimOf(operand).value();
  if (!isSymScalar(operand) || !seen.insert(operand).second) return;
  const SymScalar* scalar = asSymScalar(operand);
  if (scalar->formula == nullptr) {
    concreteScalar(t, operand);
    return;
  }
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(scalar->formula); ++i)
    pinFormula(t, PyTuple_GET_ITEM(scalar->formula, i), seen);
}

}  // namespace

Out floatFromOutside(Tracer& tracer, PyObject* raw, const Source* source) {
  if (tracer.options.history == nullptr || tracer.options.dynamic == DynamicMode::kStatic)
    return Ref<>();
  const double value = PyFloat_AS_DOUBLE(raw);
  if (Ref<> known = tracer.sizes.fromOutside(source)) return known;
  DynamicHistory::Seen& seen = tracer.options.history->at(sourceKey(*source));
  const auto bits = std::bit_cast<int64_t>(value);
  if (seen.has_number && seen.number != bits) seen.number_changed = true;
  seen.has_number = true;
  seen.number = bits;
  if (!seen.number_changed || seen.keeps_value || std::isnan(value)) return Ref<>();
  tracer.world.guard(
      Guard{GuardKind::kType, source, nullptr, newRef(reinterpret_cast<PyObject*>(&PyFloat_Type))});
  // Not a number is another program.
  tracer.world.guards().relations.floats.push_back(
      guards::relationOf(source, Py_NE, std::numeric_limits<double>::quiet_NaN(), true));
  Ref<> made = withHint(symbolic::makeScalar(&PyFloat_Type, Ref<>()), raw);
  asSymScalar(made.get())->source = source;
  tracer.sizes.noteScalar();
  tracer.sizes.setFromOutside(source, made);
  return made;
}

namespace {

// The stand-in of a float that the graph takes as an input, seen with this value.
Ref<> floatInput(Tracer& tracer, const Source* source, PyObject* seen) {
  static PyObject* const item = PyUnicode_InternFromString("item");
  graph::Graph& root = tracer.graphs.root();
  auto* type = reinterpret_cast<PyObject*>(&PyFloat_Type);
  if (!tracer.options.floats_are_tensors) {
    graph::Node* node = root.addInput(source, newRef(seen), nullptr);
    node->scalar_type = newRef(type);
    node->location = tracer.location();
    Ref<> made = graph::makeStandIn(node, nullptr, type);
    tracer.values.addMade(made.get(), 0);
    return made;
  }
  const Source* as_tensor = tracer.world.child(SourceKind::kFloatTensor, source);
  Ref<> tensor = sources::step(*as_tensor, seen, tracer.world.roots());
  if (!tensor) throw PythonError();
  root.metas.push_back(tensor::metaOf(tensor.get()));
  shapes::TensorMeta& meta = root.metas.back();
  meta.storage_id = tracer.storages.fresh();
  graph::Node* input = root.addInput(as_tensor, tensor, &meta);
  Ref<> stand_in =
      graph::makeStandIn(input, &meta, reinterpret_cast<PyObject*>(Py_TYPE(tensor.get())));
  tracer.values.addMade(stand_in.get(), 0);
  return scalarStandIn(tracer,
                       root.addCall(graph::Op::kCallMethod, newRef(item),
                                    stealRef(PyTuple_Pack(1, stand_in.get())), Ref<>()),
                       &PyFloat_Type);
}

Ref<> formulaNode(Tracer& tracer, SymScalar* scalar) {
  needStack();
  // One that was computed inside of a function that the graph calls is computed once more outside.
  if (scalar->stand_in != nullptr &&
      tracer.graphs.reachable(graph::asStandIn(scalar->stand_in)->node))
    return newRef(scalar->stand_in);
  std::vector<Ref<>> operands;
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(scalar->formula); ++i)
    operands.push_back(lowered(tracer, PyTuple_GET_ITEM(scalar->formula, i)));
  Ref<> made =
      addNode(tracer, PyTuple_GET_ITEM(scalar->formula, 0), std::move(operands), scalar->of);
  setField(scalar->stand_in, newRef(made.get()));
  return made;
}
}  // namespace

Ref<> scalarNode(Tracer& tracer, PyObject* object) {
  SymScalar* scalar = asSymScalar(object);
  if (scalar->formula != nullptr) return formulaNode(tracer, scalar);
  if (scalar->stand_in == nullptr) {
    Ref<> seen = stealRef(PyFloat_FromDouble(scalar->hint));
    scalar->stand_in =
        floatInput(tracer, static_cast<const Source*>(scalar->source), seen.get()).release();
  }
  return newRef(scalar->stand_in);
}

Ref<> scalarBinary(Tracer& tracer, int operation, PyObject* left, PyObject* right) {
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
  PyObject* function = operatorFunction(functions[operation]);
  // Where another size would raise, or give a complex number, that it does not is a condition.
  auto is_zero = [&](PyObject* value) {
    return isSymInt(value) && tracer.sizes.environment().decide(symbolic::equal(
                                  symbolic::dimOf(value).expr(), symbolic::integer(0)));
  };
  auto is_positive = [&](PyObject* value) {
    return !isSymInt(value) || tracer.sizes.environment().decide(symbolic::lessThan(
                                   symbolic::integer(0), symbolic::dimOf(value).expr()));
  };
  const bool divides = operation == 2 || operation == 6 || operation == 11;
  if ((divides && is_zero(right)) || (operation == 8 && !is_positive(left))) return nullptr;
  Ref<> a = valueNow(tracer, left), b = valueNow(tracer, right);
  Ref<> result;
  if (a && b) {
    result = stealRef(native[operation](a.get(), b.get()));
    // It raises, or is complex: with plain numbers the program goes its way.
    if (!result || !PyFloat_CheckExact(result.get())) {
      PyErr_Clear();
      return nullptr;
    }
  } else if ((operation == 2 || operation == 6) && !tracer.options.runs_as_captured) {
    return nullptr;  // tensors, which such a backend has for the numbers, have no such operation
  } else if (operation == 8 && !(tracer.options.runs_as_captured && isSymScalar(left) &&
                                 PyLong_CheckExact(right) && Py_SIZE(right) >= 0)) {
    // Of a negative number a complex one, unless it is multiplied with itself; and where tensors stand for the numbers
    // it does not raise.
    return nullptr;
  }
  const bool by_number = PyFloat_CheckExact(right)
                             ? PyFloat_AS_DOUBLE(right) != 0
                             : PyLong_Check(right) && PyObject_IsTrue(right) != 0;
  const bool never_raises = operation == 0 || operation == 5 || operation == 10 ||
                            (operation == 11 && (by_number || symbolic::isSymInt(right)));
  if (Ref<> later =
          never_raises ? deferred(tracer, &PyFloat_Type, function, {left, right}) : Ref<>())
    return withHint(std::move(later), result.get());
  return withHint(
      symbolic::makeScalar(
          &PyFloat_Type, addNode(tracer, function, {lowered(tracer, left), lowered(tracer, right)},
                                 &PyFloat_Type)),
      result.get());
}

Ref<> floatOf(Tracer& t, const std::vector<PyObject*>& numbers, PyObject* function) {
  std::vector<Ref<>> now;
  for (PyObject* number : numbers) {
    // Where the function raises for the number that comes, the graph fails, and the program runs again without it. It
    // does not fail where a backend has tensors for the numbers.
    const bool may_come = t.options.runs_as_captured && isSymScalar(number) &&
                          asSymScalar(number)->of == &PyFloat_Type;
    if (Ref<> value = valueNow(t, number)) {
      now.push_back(std::move(value));
    } else if (!may_come) {
      return nullptr;
    }
  }
  Ref<> result;
  if (now.size() == numbers.size()) {
    std::vector<PyObject*> values;
    for (const Ref<>& value : now) values.push_back(value.get());
    result = stealRef(PyObject_Vectorcall(function, values.data(), values.size(), nullptr));
    if (!result || !PyFloat_CheckExact(result.get())) {
      PyErr_Clear();
      return nullptr;
    }
  }
  Ref<> operands = stealRef(PyTuple_New(static_cast<Py_ssize_t>(numbers.size())));
  for (size_t i = 0; i < numbers.size(); ++i)
    PyTuple_SET_ITEM(operands.get(), static_cast<Py_ssize_t>(i), lowered(t, numbers[i]).release());
  graph::Node* node = t.graphs.current().addCall(graph::Op::kCallFunction, newRef(function),
                                                 std::move(operands), Ref<>());
  Ref<> made = scalarStandIn(t, node, &PyFloat_Type);
  return withHint(symbolic::makeScalar(&PyFloat_Type, std::move(made)), result.get());
}

Ref<> scalarUnary(Tracer& tracer, int operation, PyObject* operand) {
  if (asSymScalar(operand)->of != &PyFloat_Type || operation > 1) return nullptr;
  if (operation == 0) return newRef(operand);
  Ref<> now = valueNow(tracer, operand);
  Ref<> result = now ? stealRef(PyNumber_Negative(now.get())) : Ref<>();
  static PyObject* const negative = operatorFunction("neg");
  if (Ref<> later = deferred(tracer, &PyFloat_Type, negative, {operand}))
    return withHint(std::move(later), result.get());
  return withHint(
      symbolic::makeScalar(&PyFloat_Type,
                           addNode(tracer, negative, {lowered(tracer, operand)}, &PyFloat_Type)),
      result.get());
}

namespace {

// False: a guard cannot compute it, or only for long.
bool addTerms(Tracer& t, PyObject* operand, std::vector<guards::FloatTerm>& terms) {
  using Kind = guards::FloatTerm::Kind;
  needStack();
  if (terms.size() >= FloatRelation::kLongest) return false;
  if (PyFloat_CheckExact(operand)) {
    terms.push_back({Kind::kNumber, nullptr, PyFloat_AS_DOUBLE(operand)});
    return true;
  }
  if (symbolic::isSymInt(operand) || PyLong_Check(operand)) {
    Ref<> now = valueNow(t, operand);
    int overflow = 0;
    const int64_t number = now ? PyLong_AsLongLongAndOverflow(now.get(), &overflow) : 0;
    if (!now || overflow != 0 || std::abs(number) > FloatRelation::kExactInt) return false;
    if (symbolic::isSymInt(operand)) {
      terms.push_back({Kind::kInt, nullptr, 0, symbolic::dimOf(operand).expr()});
    } else {
      terms.push_back({Kind::kNumber, nullptr, static_cast<double>(number)});
    }
    return true;
  }
  const SymScalar* scalar = asSymScalar(operand);
  if (scalar->formula == nullptr) {
    if (scalar->source == nullptr) return false;
    terms.push_back({Kind::kSource, static_cast<const Source*>(scalar->source)});
    return true;
  }
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(scalar->formula); ++i)
    if (!addTerms(t, PyTuple_GET_ITEM(scalar->formula, i), terms)) return false;
  static const std::pair<PyObject*, Kind> operators[] = {
      {operatorFunction("add"), Kind::kAdd},      {operatorFunction("sub"), Kind::kSubtract},
      {operatorFunction("mul"), Kind::kMultiply}, {operatorFunction("truediv"), Kind::kDivide},
      {operatorFunction("neg"), Kind::kNegative},
  };
  PyObject* function = PyTuple_GET_ITEM(scalar->formula, 0);
  const auto* found = std::find_if(std::begin(operators), std::end(operators),
                                   [&](const auto& row) { return row.first == function; });
  if (found == std::end(operators) || terms.size() >= FloatRelation::kLongest) return false;
  terms.push_back({found->second});
  return true;
}

}  // namespace

Ref<> scalarCompare(Tracer& tracer, int operation, PyObject* left, PyObject* right) {
  static const char* const functions[] = {"lt", "le", "eq", "ne", "gt", "ge"};
  if (!isOperand(left) || !isOperand(right)) return nullptr;
  Ref<> a = valueNow(tracer, left), b = valueNow(tracer, right);
  if (!a || !b) {
    tracer.sizes.noteScalar();
    PyObject* function = operatorFunction(functions[operation]);
    if (Ref<> later = deferred(tracer, &PyBool_Type, function, {left, right})) return later;
    return symbolic::makeScalar(
        &PyBool_Type,
        addNode(tracer, function, {lowered(tracer, left), lowered(tracer, right)}, &PyBool_Type));
  }
  Ref<> result = stealRef(PyObject_RichCompare(a.get(), b.get(), operation));
  if (!result) throw PythonError();
  guards::FloatRelation relation{{}, operation, result.get() == Py_True};
  if (addTerms(tracer, left, relation.terms) && addTerms(tracer, right, relation.terms)) {
    tracer.world.guards().relations.floats.push_back(std::move(relation));
    return result;
  }
  for (PyObject* operand : {left, right}) {
    if (symbolic::isSymbol(operand)) concrete(tracer, operand);
  }
  return result;
}

namespace {
// A comparison of sizes that was left open (forExport).
bool isOpen(Tracer& t, const SymScalar* scalar) {
  return scalar->condition != nullptr && !t.sizes.environment().hasUnbacked(scalar->condition);
}
}  // namespace

bool hasValue(Tracer& tracer, PyObject* scalar) {
  return asSymScalar(scalar)->backed || isOpen(tracer, asSymScalar(scalar));
}

namespace {

// A float that several captures relied on, each time another, is one of which each value would be a program of its own:
// what needs it is left to CPython (core/unsteady.h).
void notePinned(Tracer& t, const SymScalar& scalar) {
  constexpr int kMost = 3;
  if (t.options.history == nullptr || t.options.fullgraph) return;
  DynamicHistory::Seen& seen =
      t.options.history->at(sourceKey(*static_cast<const Source*>(scalar.source)));
  const auto bits = std::bit_cast<int64_t>(scalar.hint);
  if (seen.times_pinned == 0 || seen.pinned != bits) ++seen.times_pinned;
  seen.pinned = bits;
  if (seen.times_pinned > kMost) throw Unsteady();
}

}  // namespace

Ref<> concreteScalar(Tracer& tracer, PyObject* object) {
  SymScalar* scalar = asSymScalar(object);
  if (isOpen(tracer, scalar))
    return newRef(tracer.sizes.environment().decide(scalar->condition) ? Py_True : Py_False);
  if (!scalar->backed) throw symbolic::Undecided(scalar->condition);
  Ref<> now = stealRef(PyFloat_FromDouble(scalar->hint));
  if (scalar->source != nullptr) {
    notePinned(tracer, *scalar);
    tracer.world.guard(
        Guard{GuardKind::kEquals, static_cast<const Source*>(scalar->source), nullptr, now});
  } else if (scalar->formula != nullptr) {
    std::unordered_set<PyObject*> seen;
    pinFormula(tracer, object, seen);
  } else {
    std::vector<graph::Node*> seen;
    pin(tracer, graph::asStandIn(scalar->stand_in)->node, seen);
  }
  return now;
}

const symbolic::Expr* addUnbacked(Tracer& tracer, Ref<> stand_in, symbolic::Range range) {
  const symbolic::Expr* made = tracer.sizes.environment().addUnbacked(range);
  tracer.sizes.addSymbol(nullptr, range);
  tracer.sizes.setNode(made, std::move(stand_in));
  return made;
}

Ref<> truncated(Tracer& tracer, PyObject* scalar) {
  graph::Node* node = tracer.graphs.current().addCall(
      graph::Op::kCallFunction, newRef(torchObject("torch.sym_int")),
      stealRef(PyTuple_Pack(1, lowered(tracer, scalar).get())), Ref<>());
  const symbolic::Expr* symbol =
      addUnbacked(tracer, scalarStandIn(tracer, node, &PyLong_Type), symbolic::Range{});
  node->size = Dim::of(symbol);
  node->called = true;  // of what is not finite it raises
  return symbolic::makeInt(node->size);
}

// One element of a tensor as a number of the graph's own.
Out readIntoGraph(Tracer& tracer, PyObject* target, PyObject* tensor) {
  if (!graph::isStandIn(tensor) || graph::asStandIn(tensor)->meta == nullptr) return Ref<>();
  const shapes::TensorMeta& meta = *graph::asStandIn(tensor)->meta;
  std::string_view name = utf8(target);
  static PyObject* item = PyUnicode_InternFromString("item");
  if (name == "tolist" && meta.sizes.empty()) return readIntoGraph(tracer, item, tensor);
  if (name == "tolist") {
    Ref<> list = stealRef(PyList_New(0));
    static PyObject* getitem = operatorFunction("getitem");
    const int64_t length = meta.sizes[0].value();
    for (int64_t i = 0; i < length; ++i) {
      Ref<> index = stealRef(PyLong_FromLongLong(i));
      Args args;
      args.values = {tensor, index.get()};
      args.positional = 2;
      STATOR_VALUE(element, tracer.above.tensorCall(graph::Op::kCallFunction, getitem, args));
      STATOR_VALUE(number,
                   readIntoGraph(tracer, meta.sizes.size() == 1 ? item : target, element.get()));
      if (!number) return number;
      PyList_Append(list.get(), number.get());
    }
    return tracer.made(list);
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
    STATOR_VALUE(number, tracer.above.tensorCall(graph::Op::kCallMethod, to_double, args));
    return readIntoGraph(tracer, item, number.get());
  }
  if ((name == "__int__" || name == "__index__") && is_float) {
    if (name == "__index__") return Ref<>();  // which raises
    STATOR_VALUE(number, readIntoGraph(tracer, item, tensor));
    return number ? truncated(tracer, number.get()) : Ref<>();
  }
  const bool plain = name == "item" || (name == "__float__" && is_float) ||
                     ((name == "__int__" || name == "__index__") && is_int);
  if (!plain || (!is_float && !is_int && meta.dtype != shapes::DType::Bool)) return Ref<>();
  PyTypeObject* type = is_float ? &PyFloat_Type : is_int ? &PyLong_Type : &PyBool_Type;
  graph::Node* node = tracer.graphs.current().addCall(graph::Op::kCallMethod, newRef(item),
                                                      stealRef(PyTuple_Pack(1, tensor)), Ref<>());
  node->scalar_type = newRef(reinterpret_cast<PyObject*>(type));
  node->location = tracer.location();
  node->scope = tracer.frames.innermost().scope;
  Ref<> stand_in = graph::makeStandIn(node, nullptr, reinterpret_cast<PyObject*>(type));
  tracer.values.addMade(stand_in.get(), tracer.frames.instruction());
  tracer.sizes.noteScalar();
  if (!is_int) return symbolic::makeScalar(type, std::move(stand_in));
  symbolic::Range range;
  if (meta.dtype == shapes::DType::Byte) range = {0, 255};
  const symbolic::Expr* symbol = addUnbacked(tracer, std::move(stand_in), range);
  node->size = Dim::of(symbol);
  return symbolic::makeInt(Dim::of(symbol));
}

// torch._check tells the rules of sizes, and is nothing when a backend has traced the graph: the assertion stays.
void checkInGraph(Tracer& t, PyObject* condition) {
  Ref<> stand_in = lowered(t, condition);
  const symbolic::Expr* known = symbolic::asSymScalar(condition)->condition;
  auto add = [&](const char* function, Ref<> args) {
    graph::Node* node = t.graphs.current().addCall(
        graph::Op::kCallFunction, newRef(torchObject(function)), std::move(args), Ref<>());
    node->location = t.location();
    node->scope = t.frames.innermost().scope;
    node->mutates = node->repeatable = true;
  };
  add("torch._check", stealRef(PyTuple_Pack(1, stand_in.get())));
  const std::string text = "Runtime assertion failed for expression " +
                           (known != nullptr ? symbolic::text(known) : "of the graph");
  add("torch.ops.aten._assert_scalar.default",
      stealRef(Py_BuildValue("(Os)", stand_in.get(), text.c_str())));
  if (known != nullptr) t.sizes.environment().assume(known);
}

}  // namespace stator::interpret
