// Symbols that come from outside: which sizes and ints are symbolic, by what the program has said and by what was seen
// before.
#include "interpret/core/outside_symbols.h"

#include "base/check.h"
#include "base/imports.h"
#include "interpret/core/callers_fakes.h"
#include "interpret/core/known.h"
#include "interpret/core/symbols.h"
#include "python/types.h"
#include "shapes/dims.h"
#include "shapes/dtypes.h"
#include "symbolic/sym_int.h"
#include "tensor/fake_modes.h"
#include "tensor/tensor_guard.h"

#include <algorithm>
#include <bit>

namespace stator::interpret {

using symbolic::Dim;
using symbolic::Expr;

namespace {

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

// mark_dynamic(..., min=, max=): entries (dim, min, max) of a set, one for each time that the dim was marked. All of
// them hold.
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

// Locals of the user, and what is in containers that they hold. Attributes, defaults, closures and globals are settings
// more often than data.
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

// Strides, paddings and the like of a layer, or of a class derived from one: kernels are made for these numbers, and a
// model has few.
bool isSettingOfLayer(const Source* source, const sources::Roots& roots) {
  while (source->kind == SourceKind::kTupleItem || source->kind == SourceKind::kListItem)
    source = source->base;
  if (source->kind != SourceKind::kAttr || source->base == nullptr) return false;
  Ref<> owner = sources::read(*source->base, roots);
  if (!owner) PyErr_Clear();
  if (!owner || !PyObject_TypeCheck(owner.get(), moduleType())) return false;
  // stator.mark_static(class)
  static PyObject* const marked = PyUnicode_InternFromString("_dynamo_marked_static");
  if (_PyType_Lookup(Py_TYPE(owner.get()), marked) == Py_True) return true;
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

void raiseViolation(const std::string& text) {
  Ref<> error = stealRef(
      PyObject_CallFunction(torchObject("stator.exc.ConstraintViolation"), "s", text.c_str()));
  if (error) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
  throw PythonError();
}

Ref<> setDynamicSources(Ref<> asks) {
  return stealRef(std::exchange(dynamic_sources, asks.release()));
}

Out intFromOutside(Tracer& tracer, PyObject* raw, const Source* source) {
  int64_t value = 0;
  if (!isSymbolicSize(raw, value)) return Ref<>();
  if (Ref<> known = tracer.sizes.fromOutside(source)) return known;
  const AskedDims asked = askedByName(tracer, *source, 0, true);
  if (tracer.options.dynamic == DynamicMode::kStatic && asked.empty()) return Ref<>();
  bool dynamic = false;
  if (tracer.options.history != nullptr) {
    DynamicHistory::Seen& seen = tracer.options.history->at(sourceKey(*source));
    // Where a tensor was, a number is any.
    if (seen.has_number ? seen.number != value : !seen.dynamic.empty()) seen.number_changed = true;
    seen.has_number = true;
    seen.number = value;
    dynamic = tracer.options.dynamic != DynamicMode::kStatic && seen.number_changed &&
              !isSettingOfLayer(source, tracer.world.roots());
  }
  dynamic |= tracer.options.dynamic == DynamicMode::kAll && isArgument(source);
  dynamic |= !asked.empty();
  // Of one that counts, 0 and 1 are numbers like others; where nothing was counted yet they are mostly switches.
  const bool counts =
      !asked.unbacked.empty() || (dynamic && tracer.options.history != nullptr &&
                                  tracer.options.history->at(sourceKey(*source)).number_changed);
  if (!dynamic || tracer.options.specialize_int || ((value == 0 || value == 1) && !counts))
    return Ref<>();
  tracer.world.guard(guards::Guard{guards::GuardKind::kType, source, nullptr,
                                   newRef(reinterpret_cast<PyObject*>(&PyLong_Type))});
  // Of one that counts no value is apart: what the program asks of it is a condition. A first one is like a size, but
  // where it was asked for without a value: then 0 and 1 are numbers like others.
  const bool unbacked = !asked.unbacked.empty();
  const symbolic::Range range = counts && !unbacked
                                    ? symbolic::Range{-kLargestSymbol, kLargestSymbol}
                                : value < 0 ? symbolic::Range{-kLargestSymbol, -1}
                                            : symbolic::Range{unbacked ? 0 : 2, kLargestSymbol};
  Ref<> made = symbolic::makeInt(Dim::of(addSymbol(tracer, source, value, range)));
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
  return isSymbolicSize(item, number);
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

namespace {

// What is said of the sizes of one tensor.
struct SizeMarks {
  bool marked = false;            // the program has marked the tensor
  std::vector<bool> dynamic;      // for each dim
  std::vector<int64_t> demanded;  // those that have to stay symbolic
  std::vector<int64_t> unbacked;  // those of which nothing may be decided
};

// A dim whose size was another one at an earlier capture is dynamic.
void noteHistory(Tracer& tracer, const Source& source, const std::vector<int64_t>& sizes,
                 SizeMarks& marks) {
  const size_t rank = sizes.size();
  DynamicHistory::Seen& seen = tracer.options.history->at(sourceKey(source));
  if (seen.sizes.size() != rank || seen.dynamic.size() != rank) {
    // Where a number was, a tensor is of any sizes.
    seen.dynamic.assign(rank, seen.has_number);
  } else {
    for (size_t i = 0; i < rank; ++i) {
      if (seen.sizes[i] >= 0 && seen.sizes[i] != sizes[i]) seen.dynamic[i] = true;
    }
  }
  for (size_t i = 0; i < rank; ++i) {
    if (tracer.options.dynamic != DynamicMode::kAutomatic || !seen.dynamic[i]) continue;
    marks.dynamic[i] = true;
    if (tracer.options.changed_is_unbacked) marks.unbacked.push_back(static_cast<int64_t>(i));
  }
  seen.sizes = sizes;
}

// mark_dynamic and its relatives.
void noteMarks(PyObject* raw, SizeMarks& marks) {
  marks.demanded = marksOf(raw, "_dynamo_dynamic_indices");
  for (int64_t dim : marksOf(raw, "_dynamo_unbacked_indices")) marks.unbacked.push_back(dim);
  for (int64_t dim : marksOf(raw, "_dynamo_strict_unbacked_indices")) marks.unbacked.push_back(dim);
  const std::vector<int64_t> wished = marksOf(raw, "_dynamo_weak_dynamic_indices"),
                             fixed_dims = marksOf(raw, "_dynamo_static_indices");
  for (size_t i = 0; i < marks.dynamic.size(); ++i) {
    if (has(fixed_dims, i)) marks.dynamic[i] = false;
    if (has(wished, i) || has(marks.demanded, i)) marks.dynamic[i] = true;
  }
}

// Dims that were symbols of the graph that made the tensor, which AOTAutograd leaves on its results, and ragged ones of
// nested tensors. Nothing depends on the marks but what is captured: they are not guarded.
void notePassedOn(PyObject* raw, SizeMarks& marks) {
  PyObject** dict = _PyObject_GetDictPtr(raw);
  if (dict == nullptr || *dict == nullptr || PyDict_GET_SIZE(*dict) == 0) return;
  for (int64_t dim : marksOf(raw, "_dynamo_propagated_dynamic_indices")) {
    if (dim >= 0 && static_cast<size_t>(dim) < marks.dynamic.size())
      marks.dynamic[static_cast<size_t>(dim)] = true;
  }
}

[[noreturn]] void refuseMark(Tracer& tracer, const Source& source, int64_t dim,
                             const std::string& why) {
  raiseViolation(sources::print(source, tracer.world.roots().code) + ".size(" +
                 std::to_string(dim) + ") " + why);
}

// Marks that contradict each other, or the tensor.
void checkMarks(Tracer& tracer, PyObject* raw, const Source& source,
                const std::vector<int64_t>& sizes, const SizeMarks& marks) {
  const size_t rank = sizes.size();
  auto refuse = [&](auto dim, const std::string& why) {
    refuseMark(tracer, source, static_cast<int64_t>(dim), why);
  };
  const std::vector<int64_t> static_dims = marksOf(raw, "_dynamo_static_indices");
  for (int64_t dim : marks.demanded) {
    if (dim < 0 || static_cast<size_t>(dim) >= rank)
      refuse(dim, "is marked dynamic, but the tensor has " + std::to_string(rank) +
                      (rank == 1 ? " dimension" : " dimensions"));
  }
  for (size_t i = 0; i < rank; ++i) {
    if (has(marks.unbacked, i) && has(static_dims, i)) refuse(i, "is marked unbacked and static");
    if (!has(marks.demanded, i)) continue;
    if (has(static_dims, i)) refuse(i, "is marked dynamic and static");
    const symbolic::Range range = markedRange(raw, i);
    if (range.low > range.high) {
      refuse(i, "is marked dynamic with ranges that leave no size: at least " +
                    std::to_string(range.low) + " and at most " + std::to_string(range.high));
    }
    // 0 and 1 are constants whatever the marks say, unless a mark rules them out.
    if (sizes[i] < 2 && range.low == 2) continue;
    if (sizes[i] < range.low || sizes[i] > range.high) {
      refuse(i,
             "is marked dynamic from " + std::to_string(range.low) +
                 (range.high < symbolic::kUnbounded ? " to " + std::to_string(range.high) : " on") +
                 ", but it is " + std::to_string(sizes[i]));
    }
  }
}

// The sizes that are symbols from here on; false: there are none.
bool makeSizesSymbolic(Tracer& tracer, PyObject* raw, const Source* source, const SizeMarks& marks,
                       tensor::TensorGuard& guard, shapes::TensorMeta& meta) {
  bool any = false;
  for (size_t i = 0; i < meta.sizes.size(); ++i) {
    const auto dim = static_cast<int64_t>(i);
    const Expr* size = nullptr;
    if (has(marks.unbacked, i)) {
      // Nothing is decided on it, so 0 and 1 are no special cases.
      const symbolic::Range range{0, symbolic::kUnbounded};
      size = tracer.sizes.environment().addUnbacked(range, guard.sizes[i]);
      tracer.sizes.addSymbol(tracer.world.child(SourceKind::kTensorSize, source, nullptr, dim),
                             range);
    } else {
      // 0 and 1 are specialised, as everywhere.
      if (marks.dynamic[i] && guard.sizes[i] < 2 && tracer.options.dynamic == DynamicMode::kAll)
        tellOfConstants(*source, i, guard.sizes[i], tracer.world.roots().code);
      if (!marks.dynamic[i] || guard.sizes[i] < 2 || guard.sizes[i] > kLargestSymbol) continue;
      const symbolic::Range range =
          marks.marked ? markedRange(raw, i) : symbolic::Range{2, symbolic::kUnbounded};
      size = addSymbol(tracer, tracer.world.child(SourceKind::kTensorSize, source, nullptr, dim),
                       guard.sizes[i], range);
      if (has(marks.demanded, i)) tracer.sizes.demand({size->number, source, dim});
    }
    meta.sizes[i] = Dim::of(size);
    guard.sizes[i] = -1;
    any = true;
  }
  return any;
}

// Strides that follow from the sizes further in are expressions of them; the guard asks for the same relation. One that
// follows from none (a column of a larger tensor) is a constant until it changes.
// False: no stride became a symbol of its own. sizes: as numbers.
bool makeStridesSymbolic(Tracer& tracer, const Source* source, const std::vector<int64_t>& sizes,
                         tensor::TensorGuard& guard, shapes::TensorMeta& meta) {
  const size_t rank = sizes.size();
  bool any = false;
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
      if (sizes[inner] == 1 || sizes[inner] * strides[inner] != strides[dim]) continue;
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
    if (!seen.number_changed || strides[dim] > kLargestSymbol) continue;
    meta.strides[dim] = Dim::of(addSymbol(tracer, own, strides[dim], {2, symbolic::kUnbounded}));
    guard.strides[dim] = -1;
    any = true;
  }
  return any;
}

}  // namespace

void shapeFromOutside(Tracer& tracer, PyObject* raw, const Source* source,
                      tensor::TensorGuard& guard, shapes::TensorMeta& meta) {
  SizeMarks marks;
  marks.marked = guard.dynamo_attributes != 0;
  const bool fixed = (meta.is_parameter && tracer.options.fixed_parameters) ||
                     source->kind == SourceKind::kParameter ||
                     source->kind == SourceKind::kBuffer ||
                     (forExport() && !isOfArguments(source, tracer.world.roots()));
  const size_t rank = meta.sizes.size();
  AskedDims asked = askedByName(tracer, *source, rank);
  if (isCallersFake(tracer, raw) && tensor::hasSymbolicSizes(raw)) {
    // SymInts are symbols, whatever the settings say.
    const std::vector<bool> symbolic = tensor::sizesForNow(raw).symbolic;
    for (size_t dim = 0; dim < rank; ++dim) {
      if (symbolic[dim]) asked.dynamic.push_back(static_cast<int64_t>(dim));
    }
  }
  if ((fixed || tracer.options.dynamic == DynamicMode::kStatic) && !marks.marked && asked.empty())
    return;
  if (meta.layout != 0 || !guard.has_strides) return;
  marks.dynamic.assign(rank, tracer.options.dynamic == DynamicMode::kAll && !fixed);
  marks.unbacked = std::move(asked.unbacked);
  if (tracer.options.history != nullptr && !fixed) noteHistory(tracer, *source, guard.sizes, marks);
  if (!fixed && tracer.options.dynamic == DynamicMode::kAutomatic) notePassedOn(raw, marks);
  for (int64_t dim : asked.dynamic) marks.dynamic[static_cast<size_t>(dim)] = true;
  if (marks.marked) {
    noteMarks(raw, marks);
    checkMarks(tracer, raw, *source, guard.sizes, marks);
  }
  const std::vector<int64_t> sizes = guard.sizes, strides = guard.strides;
  bool any = makeSizesSymbolic(tracer, raw, source, marks, guard, meta);
  any |= makeStridesSymbolic(tracer, source, sizes, guard, meta);
  if (!any) return;
  const shapes::Dims now(sizes.begin(), sizes.end()), steps(strides.begin(), strides.end());
  if (shapes::storageBytes(now, steps, shapes::itemSize(meta.dtype)) == meta.storage_bytes)
    meta.storage_bytes =
        shapes::storageBytes(meta.sizes, meta.strides, shapes::itemSize(meta.dtype));
}

}  // namespace stator::interpret
