// Symbolic ints in a trace: what Python's operators do with them. Whatever has no
// code for them here gets the number that they have now, with a guard on it (concrete()).
#include "interpret/core/symbols.h"

#include "base/fields.h"
#include "interpret/core/known.h"
#include "interpret/core/sym_scalars.h"
#include "interpret/core/symbol_nodes.h"
#include "python/objects.h"
#include "python/opcode_numbers.h"
#include "symbolic/sym_int.h"

#include <cmath>

namespace stator::interpret {

using symbolic::Dim;
using symbolic::Expr;
using symbolic::isSymInt;

bool isSymbolicSize(PyObject* object, int64_t& value) {
  if (!PyLong_CheckExact(object)) return false;
  int overflow = 0;
  value = PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow == 0 && value >= -kLargestSymbol && value <= kLargestSymbol;
}

namespace {

// The operand as an expression; null: it is no int that fits.
const Expr* exprOf(Tracer& t, PyObject* object) {
  if (isSymInt(object)) return t.sizes.environment().simplify(symbolic::dimOf(object).expr());
  if (PyBool_Check(object)) return symbolic::integer(object == Py_True);
  int64_t value = 0;
  return isSymbolicSize(object, value) ? symbolic::integer(value) : nullptr;
}

Ref<> boxed(const Expr* expr) { return symbolic::makeInt(Dim::of(expr)); }

thread_local bool for_export = false;

}  // namespace

void setForExport(bool is) { for_export = is; }
bool forExport() { return for_export; }

Ref<> symInt(Tracer& tracer, Dim dim) {
  return symbolic::makeInt(
      dim.isStatic() ? dim : Dim::of(tracer.sizes.environment().simplify(dim.expr())));
}

Ref<> concrete(Tracer& tracer, PyObject* sym_int) {
  if (tracer.world.watchesUnsteady()) throw Unsteady();
  if (symbolic::isSymScalar(sym_int)) return concreteScalar(tracer, sym_int);
  return stealRef(PyLong_FromLongLong(symbolic::dimOf(sym_int).value()));
}

bool makeConcrete(Tracer& tracer, PyObject* container, int depth) {
  if (container == nullptr || depth > 8) return false;
  if (values::Info* info = tracer.values.find(container);
      info != nullptr && info->origin == values::Origin::kOutside && !info->shadow)
    return false;
  bool changed = false;
  auto replaced = [&](PyObject* item) {
    changed = true;
    return concrete(tracer, item);
  };
  if (PyTuple_Check(container) || PyList_Check(container)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(container); ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(container, i);
      if (symbolic::isSymbol(item)) {
        // The same value in another form: nobody can tell the difference, in a tuple either.
        setField(PySequence_Fast_ITEMS(container)[i], replaced(item));
      } else {
        changed |= makeConcrete(tracer, item, depth + 1);
      }
    }
  } else if (PyDict_CheckExact(container)) {
    PyObject *key = nullptr, *item = nullptr;
    Py_ssize_t position = 0;
    Py_hash_t hash = 0;
    while (stator_dict_next(container, &position, &key, &item, &hash)) {
      if (symbolic::isSymbol(item)) {
        _PyDict_SetItem_KnownHash(container, key, replaced(item).get(), hash);
      } else {
        changed |= makeConcrete(tracer, item, depth + 1);
      }
    }
  }
  return changed;
}

namespace {

// A number that only the graph knows is checked there, if nothing but a graph will do.
bool divisorIsZero(Tracer& tracer, const Expr* divisor) {
  const symbolic::Environment& known = tracer.sizes.environment();
  const Expr* is_zero = known.simplify(symbolic::equal(divisor, symbolic::integer(0)));
  if (!tracer.options.fullgraph || known.known(is_zero) || !known.hasUnbacked(is_zero))
    return tracer.sizes.environment().decide(is_zero);
  Ref<> other = openCompare(tracer, Py_NE, divisor, symbolic::integer(0));
  checkInGraph(tracer, other.get());
  return false;
}

}  // namespace

// Null: not for symbols; the caller goes on with concrete numbers.
Ref<> symBinary(Tracer& tracer, int operation, PyObject* left, PyObject* right) {
  const Expr *a = exprOf(tracer, left), *b = exprOf(tracer, right);
  if (a == nullptr || b == nullptr) return nullptr;
  try {
    switch (operation % 13) {
      case NB_ADD:
        return boxed(symbolic::add(a, b));
      case NB_SUBTRACT:
        return boxed(symbolic::subtract(a, b));
      case NB_MULTIPLY:
        return boxed(symbolic::multiply(a, b));
      case NB_FLOOR_DIVIDE:
      case NB_REMAINDER:
        if (divisorIsZero(tracer, b)) return nullptr;
        return boxed(operation % 13 == NB_REMAINDER ? symbolic::mod(a, b)
                                                    : symbolic::floorDiv(a, b));
      case NB_LSHIFT:
      case NB_RSHIFT: {
        // By a constant: a power of two is what counts.
        if (!b->isInt() || b->number < 0 || b->number > 31) return nullptr;
        const Expr* power = symbolic::integer(int64_t{1} << b->number);
        return boxed(operation % 13 == NB_LSHIFT ? symbolic::multiply(a, power)
                                                 : symbolic::floorDiv(a, power));
      }
      case NB_AND: {
        // With the lowest bits: what is left of a division by their power of two.
        if (!b->isInt()) std::swap(a, b);
        if (!b->isInt() || b->number < 0 || ((b->number + 1) & b->number) != 0) return nullptr;
        return boxed(symbolic::mod(a, symbolic::integer(b->number + 1)));
      }
      case NB_POWER:
        if (!b->isInt() || b->number < 0 || b->number > 4) return nullptr;
        return boxed(symbolic::power(a, b));
      default:
        return nullptr;
    }
  } catch (const symbolic::Overflow&) {
    return nullptr;
  }
}

// One of the two has no value yet, or nobody asked for it: what their ranges settle is settled, anything else is a bool
// that the graph computes.
Ref<> openCompare(Tracer& tracer, int operation, const Expr* a, const Expr* b) {
  const Expr* condition = nullptr;
  switch (operation) {
    case Py_LT:
      condition = symbolic::lessThan(a, b);
      break;
    case Py_LE:
      condition = symbolic::lessOrEqual(a, b);
      break;
    case Py_GT:
      condition = symbolic::lessThan(b, a);
      break;
    case Py_GE:
      condition = symbolic::lessOrEqual(b, a);
      break;
    case Py_EQ:
      condition = symbolic::equal(a, b);
      break;
    default:
      condition = symbolic::logicalNot(symbolic::equal(a, b));
  }
  condition = tracer.sizes.environment().simplify(condition);
  if (const std::optional<bool> known = tracer.sizes.environment().known(condition))
    return newRef(*known ? Py_True : Py_False);
  static const char* const functions[] = {"lt", "le", "eq", "ne", "gt", "ge"};
  PyObject* bool_type = reinterpret_cast<PyObject*>(&PyBool_Type);
  Ref<> left = symNode(tracer, Dim::of(a)), right = symNode(tracer, Dim::of(b));
  graph::Node* node = tracer.graphs.current().addCall(
      graph::Op::kCallFunction, newRef(operatorFunction(functions[operation])),
      stealRef(PyTuple_Pack(2, left.get(), right.get())), Ref<>());
  node->scalar_type = newRef(bool_type);
  node->location = tracer.location();
  node->scope = tracer.frames.innermost().scope;
  Ref<> stand_in = graph::makeStandIn(node, nullptr, bool_type);
  tracer.values.addMade(stand_in.get(), tracer.frames.instruction());
  Ref<> made = symbolic::makeScalar(&PyBool_Type, std::move(stand_in));
  symbolic::asSymScalar(made.get())->condition = condition;
  tracer.sizes.noteScalar();
  return made;
}

Ref<> openCompare(Tracer& tracer, int operation, PyObject* left, PyObject* right) {
  if (!isSymInt(left) && !isSymInt(right)) return nullptr;
  const Expr *a = exprOf(tracer, left), *b = exprOf(tracer, right);
  return a != nullptr && b != nullptr ? openCompare(tracer, operation, a, b) : nullptr;
}

namespace {

// One side of a comparison: a constant may be larger there than what a symbol stands for (`x.numel() > 2**31`).
const Expr* boundOf(Tracer& t, PyObject* object) {
  if (!PyLong_CheckExact(object)) return exprOf(t, object);
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow == 0 ? symbolic::integer(value) : nullptr;
}

// A whole number beside a float: compared with the nearest whole number that says the same.
Ref<> compareWithFloat(Tracer& tracer, int operation, PyObject* number, double bound) {
  auto answer = [](bool is) { return newRef(is ? Py_True : Py_False); };
  if (std::isnan(bound)) return answer(operation == Py_NE);
  if (std::isinf(bound)) {
    const bool smaller = operation == Py_LT || operation == Py_LE;
    const bool larger = operation == Py_GT || operation == Py_GE;
    return answer(operation == Py_NE || (bound > 0 ? smaller : larger));
  }
  const double below = std::floor(bound);
  if (std::abs(below) > static_cast<double>(kLargestSymbol)) return nullptr;
  const bool whole = below == bound;
  if (!whole && (operation == Py_EQ || operation == Py_NE)) return answer(operation == Py_NE);
  const bool up = !whole && (operation == Py_LT || operation == Py_GE);
  Ref<> nearest = stealRef(PyLong_FromDouble(up ? below + 1 : below));
  return nearest ? symCompare(tracer, operation, number, nearest.get()) : nearest;
}

}  // namespace

Ref<> symCompare(Tracer& tracer, int operation, PyObject* left, PyObject* right) {
  static const int swapped[] = {Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE};
  if (isSymInt(left) && PyFloat_CheckExact(right))
    return compareWithFloat(tracer, operation, left, PyFloat_AS_DOUBLE(right));
  if (PyFloat_CheckExact(left) && isSymInt(right))
    return compareWithFloat(tracer, swapped[operation], right, PyFloat_AS_DOUBLE(left));
  const Expr *a = boundOf(tracer, left), *b = boundOf(tracer, right);
  if (a == nullptr || b == nullptr) return nullptr;
  try {
    if (tracer.sizes.environment().hasUnbacked(a) || tracer.sizes.environment().hasUnbacked(b))
      return openCompare(tracer, operation, a, b);
    bool result = false;
    switch (operation) {
      case Py_LT:
        result = tracer.sizes.environment().decide(symbolic::lessThan(a, b));
        break;
      case Py_LE:
        result = tracer.sizes.environment().decide(symbolic::lessOrEqual(a, b));
        break;
      case Py_GT:
        result = tracer.sizes.environment().decide(symbolic::lessThan(b, a));
        break;
      case Py_GE:
        result = tracer.sizes.environment().decide(symbolic::lessOrEqual(b, a));
        break;
      case Py_EQ:
        result = tracer.sizes.environment().decide(symbolic::equal(a, b));
        break;
      default:
        result = !tracer.sizes.environment().decide(symbolic::equal(a, b));
    }
    return newRef(result ? Py_True : Py_False);
  } catch (const symbolic::Overflow&) {
    return nullptr;
  }
}

}  // namespace stator::interpret
