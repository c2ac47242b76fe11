// Symbolic ints in a trace: where they come from, what Python's operators do with them, and how they get into the graph. Whatever has no
// code for them here gets the number that they have now, with a guard on it (concrete()).
#include "interpret/core/symbols.h"

#include "base/check.h"
#include "base/fields.h"
#include "base/imports.h"
#include "base/stack_room.h"
#include "interpret/core/known.h"
#include "interpret/core/sym_scalars.h"
#include "interpret/core/tracer.h"
#include "python/objects.h"
#include "python/types.h"
#include "shapes/dims.h"
#include "shapes/dtypes.h"
#include "symbolic/sym_int.h"
#include "tensor/tensor_guard.h"

#include <algorithm>
#include <bit>

namespace stator::interpret {

using symbolic::Dim;
using symbolic::Expr;
using symbolic::isSymInt;
using symbolic::Kind;
using symbolic::Part;

namespace {

// Symbols are small enough that sums and products of a few of them fit into 64 bits.
constexpr int64_t kLargest = (int64_t{1} << 31) - 1;

bool isPlainInt(PyObject* object, int64_t& value) {
  if (!PyLong_CheckExact(object)) return false;
  int overflow = 0;
  value = PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow == 0 && value >= -kLargest && value <= kLargest;
}

// The operand as an expression; null: it is no int that fits.
const Expr* exprOf(Tracer& t, PyObject* object) {
  if (isSymInt(object)) return t.sizes.environment().simplify(symbolic::dimOf(object).expr());
  if (PyBool_Check(object)) return symbolic::integer(object == Py_True);
  int64_t value = 0;
  return isPlainInt(object, value) ? symbolic::integer(value) : nullptr;
}

Ref<> boxed(const Expr* expr) { return symbolic::makeInt(Dim::of(expr)); }

// CPython's NB_* numbers, the in-place forms apart.
enum Operation {
  kAdd = 0,
  kFloorDivide = 2,
  kShiftLeft = 3,
  kMultiply = 5,
  kRemainder = 6,
  kPower = 8,
  kShiftRight = 9,
  kSubtract = 10
};

std::vector<int64_t> marksOf(PyObject* tensor, const char* name) {
  std::vector<int64_t> dims;
  Ref<> set = stealRef(PyObject_GetAttrString(tensor, name));
  if (!set || !PyAnySet_Check(set.get())) {
    PyErr_Clear();
    return dims;
  }
  PyObject* item = nullptr;
  Py_hash_t hash = 0;
  Py_ssize_t position = 0;
  while (_PySet_NextEntry(set.get(), &position, &item, &hash)) {
    if (PyLong_Check(item)) dims.push_back(PyLong_AsLongLong(item));
  }
  return dims;
}

bool has(const std::vector<int64_t>& dims, size_t dim) {
  return std::find(dims.begin(), dims.end(), static_cast<int64_t>(dim)) != dims.end();
}

// mark_dynamic(..., min=, max=): entries (dim, min, max) of a set, one for each time that the dim was marked. All of them hold.
symbolic::Range markedRange(PyObject* tensor, size_t dim) {
  symbolic::Range range{2, symbolic::kUnbounded};
  Ref<> set = stealRef(PyObject_GetAttrString(tensor, "_dynamo_dynamic_range"));
  Ref<> list = set ? stealRef(PySequence_List(set.get())) : Ref<>();
  for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list.get()); ++i) {
    PyObject* entry = PyList_GET_ITEM(list.get(), i);
    auto number = [&](const char* name, int64_t fallback) {
      Ref<> value = stealRef(PyObject_GetAttrString(entry, name));
      if (!value || !PyLong_Check(value.get())) {
        PyErr_Clear();
        return fallback;
      }
      return static_cast<int64_t>(PyLong_AsLongLong(value.get()));
    };
    if (number("dim", -1) != static_cast<int64_t>(dim)) continue;
    range.low = std::max(range.low, number("min", 2));
    range.high = std::min(range.high, number("max", symbolic::kUnbounded));
  }
  PyErr_Clear();
  return range;
}

// Locals of the user, and what is in containers that they hold. Attributes, defaults, closures and globals are settings more often than data.
bool isArgument(const Source* source) {
  while (source->base != nullptr) {
    switch (source->kind) {
      case SourceKind::kDictItem:
      case SourceKind::kListItem:
      case SourceKind::kTupleItem:
        source = source->base;
        break;
      default:
        return false;
    }
  }
  return source->kind == SourceKind::kLocal;
}

// Strides, paddings and the like of a layer, or of a class derived from one: kernels are made for these numbers, and a model has few.
bool isSettingOfLayer(const Source* source, const sources::Roots& roots) {
  while (source->kind == SourceKind::kTupleItem || source->kind == SourceKind::kListItem)
    source = source->base;
  if (source->kind != SourceKind::kAttr || source->base == nullptr) return false;
  Ref<> owner = sources::read(*source->base, roots);
  if (!owner) PyErr_Clear();
  if (!owner || !PyObject_TypeCheck(owner.get(), moduleType())) return false;
  PyObject* mro = stator_type_mro(Py_TYPE(owner.get()));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    if (isLayerClass(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i)))) return true;
  }
  return false;
}

// What was passed, whatever is around it, but no part of a module.
bool isOfArguments(const Source* source, const sources::Roots& roots) {
  while (source->base != nullptr) source = source->base;
  if (source->kind != SourceKind::kLocal) return false;
  Ref<> root = sources::read(*source, roots);
  if (!root) PyErr_Clear();
  return root && !PyObject_TypeCheck(root.get(), moduleType());
}

// Said once in a process: who asks for dynamic sizes wonders why one was captured by itself.
void tellOfConstants(const Source& source, size_t dim, int64_t size, PyCodeObject* code) {
  static bool told = false;
  if (told) return;
  told = true;
  const std::string name = sources::print(source, code) + ".size(" + std::to_string(dim) + ")";
  Ref<> module = stealRef(importModule("stator._report"));
  Ref<> done = module ? stealRef(PyObject_CallMethod(module.get(), "constant_sizes", "OsL", code,
                                                     name.c_str(), static_cast<long long>(size)))
                      : Ref<>();
  if (!done) PyErr_Clear();
}

}  // namespace

const Expr* addSymbol(Tracer& tracer, const Source* source, int64_t hint, symbolic::Range range) {
  const Expr* made = tracer.sizes.environment().addSymbol(hint, range);
  tracer.sizes.addSymbol(source, range);
  return made;
}

namespace {

PyObject* dynamic_sources = nullptr;  // see setDynamicSources

struct AskedDims {
  std::vector<int64_t> dynamic, unbacked;
  bool empty() const { return dynamic.empty() && unbacked.empty(); }
};

// What config.dynamic_sources and unbacked_sources say of a source.
AskedDims askedByName(Tracer& tracer, const Source& source, size_t rank, bool is_int = false) {
  AskedDims asked;
  if (dynamic_sources == nullptr) [[likely]]
    return asked;
  const std::string name = sources::print(source, tracer.world.roots().code);
  Ref<> found = stealRef(PyObject_CallFunction(dynamic_sources, "sn", name.c_str(),
                                               is_int ? -1 : static_cast<Py_ssize_t>(rank)));
  if (!found) throw PythonError();
  for (Py_ssize_t part = 0; part < 2; ++part) {
    PyObject* dims = PyTuple_GET_ITEM(found.get(), part);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(dims); ++i)
      (part == 0 ? asked.dynamic : asked.unbacked)
          .push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(dims, i)));
  }
  return asked;
}

}  // namespace

namespace {
thread_local bool for_export = false;
}  // namespace

void setForExport(bool is) { for_export = is; }
bool forExport() { return for_export; }

void setDynamicSources(Ref<> asks) {
  Ref<> before = stealRef(dynamic_sources);
  dynamic_sources = asks.release();
}

Out intFromOutside(Tracer& tracer, PyObject* raw, const Source* source) {
  int64_t value = 0;
  if (!isPlainInt(raw, value)) return Ref<>();
  if (Ref<> known = tracer.sizes.fromOutside(source)) return known;
  bool dynamic = false;
  if (tracer.options.history != nullptr) {
    DynamicHistory::Seen& seen = tracer.options.history->at(sourceKey(*source));
    if (seen.has_number && seen.number != value) seen.number_changed = true;
    seen.has_number = true;
    seen.number = value;
    dynamic = tracer.options.dynamic != DynamicMode::kStatic && seen.number_changed &&
              !isSettingOfLayer(source, tracer.world.roots());
  }
  dynamic |= tracer.options.dynamic == DynamicMode::kAll && isArgument(source);
  dynamic |= !askedByName(tracer, *source, 0, true).empty();
  // Of one that counts, 0 and 1 are numbers like others; where nothing was counted yet they are mostly switches.
  const bool counts = dynamic && tracer.options.history != nullptr &&
                      tracer.options.history->at(sourceKey(*source)).number_changed;
  if (!dynamic || tracer.options.specialize_int || ((value == 0 || value == 1) && !counts))
    return Ref<>();
  tracer.world.guard(guards::Guard{guards::GuardKind::kType, source, nullptr,
                                   newRef(reinterpret_cast<PyObject*>(&PyLong_Type))});
  // 0 and 1 apart, as for sizes, unless it is one of them; negative numbers are another program.
  const symbolic::Range range = value < 0   ? symbolic::Range{-kLargest, -1}
                                : value > 1 ? symbolic::Range{2, kLargest}
                                            : symbolic::Range{0, kLargest};
  Ref<> made = boxed(addSymbol(tracer, source, value, range));
  tracer.sizes.setFromOutside(source, made);
  return made;
}

namespace {

// Of an item of a tuple that may become a symbol, as its history keeps it.
bool trackedNumber(Tracer& tracer, PyObject* item, int64_t& number) {
  if (tracer.options.symbolic_floats && PyFloat_CheckExact(item)) {
    number = std::bit_cast<int64_t>(PyFloat_AS_DOUBLE(item));
    return true;
  }
  return isPlainInt(item, number);
}

}  // namespace

bool tupleChanged(Tracer& tracer, PyObject* raw, const Source* source) {
  if (tracer.options.history == nullptr || tracer.options.dynamic == DynamicMode::kStatic ||
      (!PyTuple_CheckExact(raw) && Py_TYPE(raw) != sizeType()))
    return false;
  bool numbers = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(raw); ++i) {
    PyObject* item = PyTuple_GET_ITEM(raw, i);
    numbers |=
        PyLong_CheckExact(item) || (PyFloat_CheckExact(item) && tracer.options.symbolic_floats);
  }
  if (!numbers) return false;
  const Py_hash_t hash = PyObject_Hash(raw);
  if (hash == -1) {
    PyErr_Clear();
    return false;
  }
  DynamicHistory::Seen& seen = tracer.options.history->at(sourceKey(*source));
  if (seen.has_number && seen.number != hash) {
    seen.number_changed = true;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(raw); ++i) {
      // Which item it was shows at the next capture; this one takes them all as they come.
      int64_t value = 0;
      if (static_cast<size_t>(i) < seen.sizes.size() &&
          trackedNumber(tracer, PyTuple_GET_ITEM(raw, i), value) &&
          seen.sizes[static_cast<size_t>(i)] != value) {
        DynamicHistory::Seen& item = tracer.options.history->at(
            sourceKey(*tracer.world.child(SourceKind::kTupleItem, source, nullptr, i)));
        item.has_number = item.number_changed = true;
        item.number = value;
      }
    }
  }
  seen.has_number = true;
  seen.number = hash;
  seen.sizes.clear();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(raw); ++i) {
    int64_t value = 0;
    seen.sizes.push_back(trackedNumber(tracer, PyTuple_GET_ITEM(raw, i), value) ? value : 0);
  }
  return seen.number_changed && !isSettingOfLayer(source, tracer.world.roots());
}

void shapeFromOutside(Tracer& tracer, PyObject* raw, const Source* source,
                      tensor::TensorGuard& guard, shapes::TensorMeta& meta) {
  const bool marked = guard.dynamo_attributes != 0;
  const bool fixed = meta.is_parameter || source->kind == SourceKind::kParameter ||
                     source->kind == SourceKind::kBuffer ||
                     (forExport() && !isOfArguments(source, tracer.world.roots()));
  const size_t rank = meta.sizes.size();
  const AskedDims asked = askedByName(tracer, *source, rank);
  if ((fixed || tracer.options.dynamic == DynamicMode::kStatic) && !marked && asked.empty()) return;
  if (meta.layout != 0 || !guard.has_strides) return;
  std::vector<bool> dynamic(rank, tracer.options.dynamic == DynamicMode::kAll && !fixed);
  if (tracer.options.history != nullptr && !fixed) {
    DynamicHistory::Seen& seen = tracer.options.history->at(sourceKey(*source));
    if (seen.sizes.size() != rank || seen.dynamic.size() != rank) {
      seen.dynamic.assign(rank, false);
    } else {
      for (size_t i = 0; i < rank; ++i) {
        if (seen.sizes[i] >= 0 && seen.sizes[i] != guard.sizes[i]) seen.dynamic[i] = true;
        if (tracer.options.dynamic == DynamicMode::kAutomatic && seen.dynamic[i]) dynamic[i] = true;
      }
    }
    seen.sizes = guard.sizes;
  }
  std::vector<int64_t> demanded, unbacked = asked.unbacked;
  for (int64_t dim : asked.dynamic) dynamic[static_cast<size_t>(dim)] = true;
  if (marked) {
    demanded = marksOf(raw, "_dynamo_dynamic_indices");
    for (int64_t dim : marksOf(raw, "_dynamo_unbacked_indices")) unbacked.push_back(dim);
    for (int64_t dim : marksOf(raw, "_dynamo_strict_unbacked_indices")) unbacked.push_back(dim);
    const std::vector<int64_t> wished = marksOf(raw, "_dynamo_weak_dynamic_indices"),
                               fixed_dims = marksOf(raw, "_dynamo_static_indices");
    for (size_t i = 0; i < rank; ++i) {
      if (has(fixed_dims, i)) dynamic[i] = false;
      if (has(wished, i) || has(demanded, i)) dynamic[i] = true;
    }
  }
  auto refuse = [&](auto dim, const std::string& why) {
    const std::string text = sources::print(*source, tracer.world.roots().code) + ".size(" +
                             std::to_string(dim) + ") " + why;
    Ref<> error = stealRef(
        PyObject_CallFunction(torchObject("stator.exc.ConstraintViolation"), "s", text.c_str()));
    if (error) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
    throw PythonError();
  };
  if (marked) {
    const std::vector<int64_t> static_dims = marksOf(raw, "_dynamo_static_indices");
    for (int64_t dim : demanded) {
      if (dim < 0 || static_cast<size_t>(dim) >= rank)
        refuse(dim, "is marked dynamic, but the tensor has " + std::to_string(rank) +
                        (rank == 1 ? " dimension" : " dimensions"));
    }
    for (size_t i = 0; i < rank; ++i) {
      if (has(unbacked, i) && has(static_dims, i)) refuse(i, "is marked unbacked and static");
      if (!has(demanded, i)) continue;
      if (has(static_dims, i)) refuse(i, "is marked dynamic and static");
      const symbolic::Range range = markedRange(raw, i);
      if (range.low > range.high) {
        refuse(i, "is marked dynamic with ranges that leave no size: at least " +
                      std::to_string(range.low) + " and at most " + std::to_string(range.high));
      }
      // 0 and 1 are constants whatever the marks say, unless a mark rules them out.
      if (guard.sizes[i] < 2 && range.low == 2) continue;
      if (guard.sizes[i] < range.low || guard.sizes[i] > range.high) {
        refuse(i, "is marked dynamic from " + std::to_string(range.low) +
                      (range.high < symbolic::kUnbounded ? " to " + std::to_string(range.high)
                                                         : " on") +
                      ", but it is " + std::to_string(guard.sizes[i]));
      }
    }
  }
  bool any = false;
  const std::vector<int64_t> actual = guard.sizes;
  for (size_t i = 0; i < rank; ++i) {
    if (has(unbacked, i)) {
      // Nothing is decided on it, so 0 and 1 are no special cases.
      const symbolic::Range range{0, symbolic::kUnbounded};
      const Expr* size = tracer.sizes.environment().addUnbacked(range, guard.sizes[i]);
      tracer.sizes.addSymbol(
          tracer.world.child(SourceKind::kTensorSize, source, nullptr, static_cast<int64_t>(i)),
          range);
      meta.sizes[i] = Dim::of(size);
      guard.sizes[i] = -1;
      any = true;
      continue;
    }
    // 0 and 1 are specialised, as everywhere.
    if (dynamic[i] && guard.sizes[i] < 2 && tracer.options.dynamic == DynamicMode::kAll)
      tellOfConstants(*source, i, guard.sizes[i], tracer.world.roots().code);
    if (!dynamic[i] || guard.sizes[i] < 2 || guard.sizes[i] > kLargest) continue;
    const symbolic::Range range =
        marked ? markedRange(raw, i) : symbolic::Range{2, symbolic::kUnbounded};
    const Expr* size = addSymbol(
        tracer,
        tracer.world.child(SourceKind::kTensorSize, source, nullptr, static_cast<int64_t>(i)),
        guard.sizes[i], range);
    if (has(demanded, i)) tracer.sizes.demand({size->number, source, static_cast<int64_t>(i)});
    meta.sizes[i] = Dim::of(size);
    guard.sizes[i] = -1;
    any = true;
  }
  // Strides that follow from the sizes further in are expressions of them; the guard asks for the same relation. One that follows from
  // none (a column of a larger tensor) is a constant until it changes.
  std::vector<size_t> order(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = rank - 1 - i;
  const std::vector<int64_t> strides = guard.strides;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  for (size_t n = 0; n < rank; ++n) {
    const size_t dim = order[n];
    if (strides[dim] < 2) continue;
    bool follows = false;
    for (size_t m = n; m-- > 0 && !follows;) {
      const size_t inner = order[m];
      if (actual[inner] == 1 || actual[inner] * strides[inner] != strides[dim]) continue;
      follows = true;
      const Dim reach = meta.sizes[inner] * meta.strides[inner];
      if (reach.isStatic()) continue;
      meta.strides[dim] = reach;
      guard.strides[dim] = -2 - static_cast<int64_t>(inner);
    }
    if (follows || tracer.options.history == nullptr ||
        tracer.options.dynamic == DynamicMode::kStatic)
      continue;
    const Source* own = tracer.world.child(SourceKind::kTensorSize, source, nullptr,
                                           -2 - static_cast<int64_t>(dim));
    DynamicHistory::Seen& seen = tracer.options.history->at(sourceKey(*own));
    if (seen.has_number && seen.number != strides[dim]) seen.number_changed = true;
    seen.has_number = true;
    seen.number = strides[dim];
    if (!seen.number_changed || strides[dim] > kLargest) continue;
    meta.strides[dim] = Dim::of(addSymbol(tracer, own, strides[dim], {2, symbolic::kUnbounded}));
    guard.strides[dim] = -1;
    any = true;
  }
  if (!any) return;
  const shapes::Dims now(actual.begin(), actual.end()), steps(strides.begin(), strides.end());
  if (shapes::storageBytes(now, steps, shapes::itemSize(meta.dtype)) == meta.storage_bytes)
    meta.storage_bytes =
        shapes::storageBytes(meta.sizes, meta.strides, shapes::itemSize(meta.dtype));
}

Ref<> symInt(Tracer& tracer, Dim dim) {
  return symbolic::makeInt(
      dim.isStatic() ? dim : Dim::of(tracer.sizes.environment().simplify(dim.expr())));
}

Ref<> concrete(Tracer& tracer, PyObject* sym_int) {
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
  if (PyTuple_Check(container)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(container); ++i) {
      PyObject* item = PyTuple_GET_ITEM(container, i);
      if (symbolic::isSymbol(item)) {
        // The same value in another form: nobody can tell the difference.
        setField(reinterpret_cast<PyTupleObject*>(container)->ob_item[i], replaced(item));
      } else {
        changed |= makeConcrete(tracer, item, depth + 1);
      }
    }
  } else if (PyList_Check(container)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(container); ++i) {
      PyObject* item = PyList_GET_ITEM(container, i);
      if (symbolic::isSymbol(item)) {
        PyList_SetItem(container, i, replaced(item).release());
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

// Null: not for symbols; the caller goes on with concrete numbers.
Ref<> symBinary(Tracer& tracer, int operation, PyObject* left, PyObject* right) {
  const Expr *a = exprOf(tracer, left), *b = exprOf(tracer, right);
  if (a == nullptr || b == nullptr) return nullptr;
  try {
    switch (operation % 13) {
      case kAdd:
        return boxed(symbolic::add(a, b));
      case kSubtract:
        return boxed(symbolic::subtract(a, b));
      case kMultiply:
        return boxed(symbolic::multiply(a, b));
      case kFloorDivide:
      case kRemainder:
        if (tracer.sizes.environment().decide(symbolic::equal(b, symbolic::integer(0))))
          return nullptr;
        return boxed(operation % 13 == kRemainder ? symbolic::mod(a, b) : symbolic::floorDiv(a, b));
      case kShiftLeft:
      case kShiftRight: {
        // By a constant: a power of two is what counts.
        if (!b->isInt() || b->number < 0 || b->number > 31) return nullptr;
        const Expr* power = symbolic::integer(int64_t{1} << b->number);
        return boxed(operation % 13 == kShiftLeft ? symbolic::multiply(a, power)
                                                  : symbolic::floorDiv(a, power));
      }
      case kPower:
        if (!b->isInt() || b->number < 0 || b->number > 4) return nullptr;
        return boxed(symbolic::power(a, b));
      default:
        return nullptr;
    }
  } catch (const symbolic::Overflow&) {
    return nullptr;
  }
}

// One of the two has no value yet, or nobody asked for it: what their ranges settle is settled, anything else is a bool that the graph
// computes.
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
  tracer.values.addMade(stand_in, tracer.frames.instruction());
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

Ref<> symCompare(Tracer& tracer, int operation, PyObject* left, PyObject* right) {
  const Expr *a = exprOf(tracer, left), *b = exprOf(tracer, right);
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

graph::Node* addSymbolInput(Tracer& tracer, size_t symbol) {
  graph::Node* node = tracer.graphs.root().addInput(
      tracer.sizes.sources()[symbol],
      stealRef(PyLong_FromLongLong(tracer.sizes.environment().hints()[symbol])), nullptr);
  node->scalar_type = newRef(reinterpret_cast<PyObject*>(&PyLong_Type));
  node->name_hint = "s" + std::to_string(symbol);
  node->size = Dim::of(symbolic::symbol(static_cast<int64_t>(symbol)));
  return node;
}

// Backends find each symbol of their tensors among the inputs too, as TorchDynamo gives them: inductor's cache can say what it relies on
// of those alone.
void addMissingSymbolInputs(Tracer& tracer) {
  std::unordered_set<int64_t> there;
  std::vector<int64_t> wanted;
  for (const graph::Node* input : tracer.graphs.current().inputs()) {
    if (input->scalar_type && !input->size.isStatic() && input->size.expr()->kind == Kind::kSymbol)
      there.insert(input->size.expr()->number);
    if (input->meta == nullptr) continue;
    for (const shapes::Dims* dims : {&input->meta->sizes, &input->meta->strides}) {
      for (const Dim& size : *dims) {
        if (size.isStatic()) continue;
        for (int64_t number : symbolic::symbolsIn(size.expr())) wanted.push_back(number);
      }
    }
  }
  if (forExport()) {
    for (size_t i = 0; i < tracer.sizes.sources().size(); ++i)
      wanted.push_back(static_cast<int64_t>(i));
  }
  for (int64_t number : wanted) {
    const Expr* symbol = symbolic::symbol(number);
    bool own = tracer.sizes.sources()[static_cast<size_t>(number)] != nullptr &&
               (forExport() || tracer.sizes.environment().simplify(symbol) == symbol) &&
               !tracer.sizes.environment().hasUnbacked(symbol);
    if (own && there.insert(number).second) addSymbolInput(tracer, static_cast<size_t>(number));
  }
}

Ref<> symNode(Tracer& tracer, Dim dim) {
  if (!dim.isStatic()) dim = Dim::of(tracer.sizes.environment().simplify(dim.expr()));
  if (dim.isStatic()) return symbolic::makeInt(dim);
  const Expr* expr = dim.expr();
  if (PyObject* known = tracer.sizes.nodeOf(expr)) {
    if (!tracer.graphs.hadSubgraphs() || tracer.graphs.reachable(graph::asStandIn(known)->node))
      return newRef(known);
    // Computed inside of a function that the graph calls: once more here, if it can be.
    if (expr->kind == Kind::kSymbol) throw symbolic::Undecided(nullptr);
  }
  PyObject* int_type = reinterpret_cast<PyObject*>(&PyLong_Type);
  auto part = [&](const Expr* of) { return symNode(tracer, Dim::of(of)); };
  auto call = [&](PyObject* function, const Ref<>& left, const Ref<>& right, const Expr* value) {
    if (!graph::isStandIn(left.get()) && !graph::isStandIn(right.get())) {
      return stealRef(PyObject_CallFunctionObjArgs(function, left.get(), right.get(), nullptr));
    }
    graph::Node* node = tracer.graphs.current().addCall(
        graph::Op::kCallFunction, newRef(function),
        stealRef(PyTuple_Pack(2, left.get(), right.get())), Ref<>());
    node->scalar_type = newRef(int_type);
    node->size = Dim::of(value);
    if (!tracer.frames.empty()) {  // a plan may ask for it when all is done
      node->location = tracer.location();
      node->scope = tracer.frames.innermost().scope;
    }
    Ref<> made = graph::makeStandIn(node, nullptr, int_type);
    tracer.values.addMade(made, tracer.frames.instruction());
    return made;
  };
  auto number = [](int64_t value) { return stealRef(PyLong_FromLongLong(value)); };
  Ref<> result;
  switch (expr->kind) {
    case Kind::kSymbol: {
      const auto index = static_cast<size_t>(expr->number);
      // Of a view's place in memory, say: no node has it.
      if (tracer.sizes.sources()[index] == nullptr) throw symbolic::Undecided(nullptr);
      result = graph::makeStandIn(addSymbolInput(tracer, index), nullptr, int_type);
      tracer.values.addMade(result, 0);
      break;
    }
    case Kind::kSum: {
      const Expr* so_far = symbolic::integer(0);
      for (const Part& term : expr->parts) {
        const bool minus = term.number < 0 && result;
        Ref<> value = part(term.expr);
        const int64_t factor = minus ? -term.number : term.number;
        const Expr* scaled = symbolic::multiply(symbolic::integer(factor), term.expr);
        if (factor != 1) value = call(operatorFunction("mul"), value, number(factor), scaled);
        so_far = minus ? symbolic::subtract(so_far, scaled) : symbolic::add(so_far, scaled);
        result =
            !result ? value : call(operatorFunction(minus ? "sub" : "add"), result, value, so_far);
      }
      if (expr->number != 0)
        result = call(operatorFunction(expr->number < 0 ? "sub" : "add"), result,
                      number(std::abs(expr->number)), expr);
      break;
    }
    case Kind::kProduct: {
      const Expr* so_far = symbolic::integer(1);
      for (const Part& factor : expr->parts) {
        for (int64_t i = 0; i < factor.number; ++i) {
          so_far = symbolic::multiply(so_far, factor.expr);
          result = !result ? part(factor.expr)
                           : call(operatorFunction("mul"), result, part(factor.expr), so_far);
        }
      }
      break;
    }
    case Kind::kFloorDiv:
    case Kind::kMod:
      result = call(operatorFunction(expr->kind == Kind::kMod ? "mod" : "floordiv"),
                    part(expr->parts[0].expr), part(expr->parts[1].expr), expr);
      break;
    case Kind::kMin:
    case Kind::kMax: {
      const Expr* so_far = nullptr;
      const bool least = expr->kind == Kind::kMin;
      for (const Part& item : expr->parts) {
        so_far = so_far == nullptr ? item.expr
                 : least           ? symbolic::least(so_far, item.expr)
                                   : symbolic::greatest(so_far, item.expr);
        result = !result ? part(item.expr)
                         : call(torchObject(least ? "torch.sym_min" : "torch.sym_max"), result,
                                part(item.expr), so_far);
      }
      break;
    }
    default:
      return number(dim.value());
  }
  if (!result) throw PythonError();
  tracer.sizes.setNode(expr, result);
  return result;
}

Ref<> lowered(Tracer& tracer, PyObject* argument) {
  if (isSymInt(argument)) return symNode(tracer, symbolic::dimOf(argument));
  if (symbolic::isSymScalar(argument)) return scalarNode(tracer, argument);
  needStack();
  if (PyTuple_Check(argument) || PyList_Check(argument)) {
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(argument);
    Ref<> list = stealRef(PyList_New(n));
    for (Py_ssize_t i = 0; i < n; ++i)
      PyList_SET_ITEM(list.get(), i,
                      lowered(tracer, PySequence_Fast_GET_ITEM(argument, i)).release());
    if (PyList_Check(argument)) return list;
    return stealRef(PyList_AsTuple(list.get()));
  }
  if (PyDict_CheckExact(argument)) {
    Ref<> dict = stealRef(PyDict_New());
    PyObject *key = nullptr, *item = nullptr;
    Py_ssize_t position = 0;
    Py_hash_t hash = 0;
    while (stator_dict_next(argument, &position, &key, &item, &hash))
      _PyDict_SetItem_KnownHash(dict.get(), key, lowered(tracer, item).get(), hash);
    return dict;
  }
  if (PySlice_Check(argument)) {
    auto* slice = reinterpret_cast<PySliceObject*>(argument);
    return stealRef(PySlice_New(lowered(tracer, slice->start).get(),
                                lowered(tracer, slice->stop).get(),
                                lowered(tracer, slice->step).get()));
  }
  return newRef(argument);
}

std::string placeOf(const graph::Location* location) {
  if (location == nullptr) return "";
  PyCodeObject* code = location->code.get();
  return std::string(PyUnicode_AsUTF8(code->co_filename)) + ":" +
         std::to_string(PyCode_Addr2Line(code, location->offset)) + " in " +
         PyUnicode_AsUTF8(code->co_qualname);
}

// torch.fx.experimental._config.symbol_guard_limit_before_specialize: a symbol with more conditions than this becomes a number.
void limitConditions(Tracer& tracer) {
  if (tracer.sizes.environment().decisions().empty()) return;
  Ref<> name = stealRef(PyUnicode_FromString("torch.fx.experimental._config"));
  Ref<> module = stealRef(PyImport_GetModule(name.get()));
  Ref<> value =
      module
          ? stealRef(PyObject_GetAttrString(module.get(), "symbol_guard_limit_before_specialize"))
          : Ref<>();
  PyErr_Clear();
  if (!value || !PyLong_CheckExact(value.get())) return;
  const auto limit = static_cast<size_t>(PyLong_AsSize_t(value.get()));
  std::vector<size_t> counts(tracer.sizes.environment().symbolCount());
  for (const symbolic::Decision& decision : tracer.sizes.environment().decisions()) {
    for (int64_t number : symbolic::symbolsIn(decision.condition))
      ++counts[static_cast<size_t>(number)];
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    const Expr* symbol = symbolic::symbol(static_cast<int64_t>(i));
    if (counts[i] > limit && !tracer.sizes.environment().hasUnbacked(symbol))
      tracer.sizes.environment().specialise(symbol);
  }
}

void finishSymbols(Tracer& tracer, Captured& captured) {
  PyCodeObject* code = tracer.world.roots().code;
  limitConditions(tracer);
  for (const DynamicDemand& demand : tracer.sizes.demands()) {
    if (!tracer.sizes.environment().simplify(symbolic::symbol(demand.symbol))->isInt()) continue;
    const symbolic::Decision* culprit = nullptr;
    for (const symbolic::Decision& decision : tracer.sizes.environment().decisions()) {
      const std::vector<int64_t> inside = symbolic::symbolsIn(decision.condition);
      if (std::find(inside.begin(), inside.end(), demand.symbol) != inside.end() &&
          decision.condition->kind == Kind::kEq)
        culprit = &decision;
      if (culprit != nullptr) break;
    }
    std::string text =
        sources::print(*demand.source, code) + ".size(" + std::to_string(demand.dim) +
        ") is marked dynamic, but the program makes it static: it was " +
        std::to_string(tracer.sizes.environment().hints()[static_cast<size_t>(demand.symbol)]);
    if (culprit != nullptr && culprit->where != nullptr)
      text += " at " + placeOf(static_cast<const graph::Location*>(culprit->where));
    Ref<> error = stealRef(
        PyObject_CallFunction(torchObject("stator.exc.ConstraintViolation"), "s", text.c_str()));
    if (error) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
    throw PythonError();
  }
  guards::Relations& relations = tracer.world.guards().relations;
  relations.symbols = tracer.sizes.sources();
  tracer.graphs.current().symbols = std::make_unique<graph::Symbols>();
  tracer.graphs.current().symbols->hints = tracer.sizes.environment().hints();
  for (size_t i = 0; i < tracer.sizes.sources().size(); ++i) {
    if (tracer.sizes.environment().hasUnbacked(symbolic::symbol(static_cast<int64_t>(i))))
      tracer.graphs.current().symbols->unbacked.push_back(static_cast<int64_t>(i));
  }
  auto require = [&](const Expr* condition) {
    if (condition->kind == Kind::kBool) return;
    for (int64_t number : symbolic::symbolsIn(condition)) {
      // the graph itself checks it
      if (tracer.sizes.sources()[static_cast<size_t>(number)] == nullptr) return;
    }
    relations.conditions.push_back(condition);
    tracer.graphs.current().symbols->conditions.push_back(symbolic::text(condition));
  };
  for (const symbolic::Decision& decision : tracer.sizes.environment().decisions())
    require(decision.condition);
  for (size_t i = 0; i < tracer.sizes.ranges().size(); ++i) {
    const Expr* symbol = symbolic::symbol(static_cast<int64_t>(i));
    const bool any_size =
        tracer.sizes.ranges()[i].low == 0 && tracer.sizes.environment().hasUnbacked(symbol);
    if (tracer.sizes.ranges()[i].low > -symbolic::kUnbounded && !any_size)
      require(symbolic::lessOrEqual(symbolic::integer(tracer.sizes.ranges()[i].low), symbol));
    if (tracer.sizes.ranges()[i].high < symbolic::kUnbounded)
      require(symbolic::lessOrEqual(symbol, symbolic::integer(tracer.sizes.ranges()[i].high)));
  }
  // Facts that the capture narrowed down further on are as narrow for all of the graph.
  // Inputs keep their own symbols, but for those that became numbers: that two are equal is said by a condition.
  std::unordered_set<const shapes::TensorMeta*> inputs;
  for (const graph::Node* input : tracer.graphs.current().inputs()) inputs.insert(input->meta);
  for (shapes::TensorMeta& meta : tracer.graphs.current().metas) {
    const bool is_input = inputs.count(&meta) != 0;
    auto simplified = [&](Dim& dim) {
      if (dim.isStatic()) return;
      const Expr* now = tracer.sizes.environment().simplify(dim.expr());
      if (!is_input || now->isInt()) dim = Dim::of(now);
    };
    for (Dim& size : meta.sizes) simplified(size);
    for (Dim& stride : meta.strides) simplified(stride);
    simplified(meta.storage_offset);
    simplified(meta.storage_bytes);
  }
  if (!tracer.options.runs_as_captured && tracer.graphs.current().callCount() > 0)
    addMissingSymbolInputs(tracer);
}

}  // namespace stator::interpret
