// Built-in functions that go through an iterable: sum, any, all, min, max, sorted, and list.sort.
#include "interpret/calls/calls.h"
#include "interpret/calls/inlining.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/symbols.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/library/rows.h"
#include "interpret/library/sums.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/next.h"
#include "interpret/objects/operators.h"
#include "interpret/objects/truth.h"
#include "python/objects.h"
#include "python/opcode_numbers.h"
#include "python/sorting.h"
#include "symbolic/sym_int.h"

#include <algorithm>

namespace stator::interpret {

namespace {

Out quantifier(Tracer& t, const Args& args, bool stop_at) {
  NEED(1, "any");
  STATOR_VALUE(iterator, iterate(t, args.values[0]));
  for (;;) {
    STATOR_VALUE(item, next(t, iterator.get()));
    if (!item) return boolean(!stop_at);
    STATOR_VALUE(verdict, truth(t, item.get()));
    if ((verdict.get() == Py_True) == stop_at) return boolean(stop_at);
  }
}
Out anyCall(Tracer& t, const Args& args) { return quantifier(t, args, true); }
Out allCall(Tracer& t, const Args& args) { return quantifier(t, args, false); }

struct Best {
  Ref<> item, key;
};

Flow consider(Tracer& t, PyObject* item, PyObject* key, bool largest, Best& best) {
  Best one{newRef(item), newRef(item)};
  if (key != nullptr) {
    STATOR_VALUE(k, callNested(t, key, {item}));
    one.key = std::move(k);
  }
  if (best.item) {
    STATOR_VALUE(compared,
                 runEntered(t, compare(t, largest ? Py_GT : Py_LT, one.key.get(), best.key.get())));
    STATOR_VALUE(verdict, truth(t, compared.get()));
    if (verdict.get() != Py_True) return Flow::kOk;
  }
  best = std::move(one);
  return Flow::kOk;
}

// The key is asked for each item before the next is taken. Ok with null: there was none.
Out extremeByKey(Tracer& t, PyObject* iterable, PyObject* key, bool largest) {
  STATOR_VALUE(iterator, iterate(t, iterable));
  Best best;
  for (;;) {
    STATOR_VALUE(item, next(t, iterator.get()));
    if (!item) return best.item;
    STATOR_FLOW(consider(t, item.get(), key, largest, best));
  }
}

// Of two sizes: the one that is known to be it, otherwise an expression of both.
const symbolic::Expr* better(Tracer& t, const symbolic::Expr* one, const symbolic::Expr* other,
                             bool largest) {
  if (const std::optional<bool> less =
          t.sizes.environment().known(symbolic::lessOrEqual(one, other)))
    return *less == largest ? other : one;
  return largest ? symbolic::greatest(one, other) : symbolic::least(one, other);
}

Out extreme(Tracer& t, const Args& args, bool largest) {
  const char* name = largest ? "max" : "min";
  PyObject* key = args.keyword("key");
  PyObject* fallback = args.keyword("default");
  if (args.positional == 0 || args.keywordCount() != static_cast<size_t>(key != nullptr) +
                                                         static_cast<size_t>(fallback != nullptr))
    return wrongArguments(t, name);
  if (key == Py_None) key = nullptr;
  Ref<> items;
  if (args.positional == 1 && key != nullptr) {
    STATOR_VALUE(best, extremeByKey(t, args.values[0], key, largest));
    if (best) return best;
    items = stealRef(PyList_New(0));
  } else if (args.positional == 1) {
    STATOR_VALUE(list, listOf(t, args.values[0]));
    items = list;
  } else {
    items = stealRef(PyList_New(0));
    for (size_t i = 0; i < args.positional; ++i) PyList_Append(items.get(), args.values[i]);
  }
  Py_ssize_t n = PyList_GET_SIZE(items.get());
  if (key == nullptr && n > 1) {
    // The larger of two numbers is a number of its own, whichever it is.
    const symbolic::Expr* best_size = nullptr;
    bool ints = true, symbols = false;
    for (Py_ssize_t i = 0; ints && i < n; ++i) {
      PyObject* item = PyList_GET_ITEM(items.get(), i);
      const symbolic::Expr* size = nullptr;
      if (symbolic::isSymInt(item)) {
        size = t.sizes.environment().simplify(symbolic::dimOf(item).expr());
        symbols = true;
      } else if (PyLong_CheckExact(item)) {
        int overflow = 0;
        const long long value = PyLong_AsLongLongAndOverflow(item, &overflow);
        if (overflow == 0) size = symbolic::integer(value);
      }
      ints = size != nullptr;
      if (ints) best_size = best_size == nullptr ? size : better(t, best_size, size, largest);
    }
    if (ints && symbols) return symInt(t, symbolic::Dim::of(best_size));
  }
  if (n == 0) {
    if (fallback != nullptr) return newRef(fallback);
    return t.raiseNew(PyExc_ValueError, "%s() arg is an empty sequence", name);
  }
  Best best;
  for (Py_ssize_t i = 0; i < n; ++i)
    STATOR_FLOW(consider(t, PyList_GET_ITEM(items.get(), i), key, largest, best));
  return best.item;
}
Out maxCall(Tracer& t, const Args& args) { return extreme(t, args, true); }
Out minCall(Tracer& t, const Args& args) { return extreme(t, args, false); }

template <class Order>
void reversePart(Order& order, size_t from, size_t to) {
  std::reverse(order.begin() + static_cast<std::ptrdiff_t>(from),
               order.begin() + static_cast<std::ptrdiff_t>(to));
}

// Moves `run` on to the first item that is less than the one before it.
template <class Less>
Flow skipRising(const Less& less, size_t size, size_t& run) {
  for (bool falls = false; run < size; ++run) {
    STATOR_FLOW(less(run, run - 1, falls));
    if (falls) break;
  }
  return Flow::kOk;
}

// The length of the run that at least two items begin with, put into rising order.
template <class Order, class Less>
Flow firstRun(Order& order, const Less& less, size_t& run) {
  const size_t size = order.size();
  bool descending = false, verdict = false;
  STATOR_FLOW(less(1, 0, descending));
  for (run = 2; run < size; ++run) {
    STATOR_FLOW(less(run, run - 1, verdict));
    if (verdict != descending) break;
  }
  if (descending) reversePart(order, 0, run);
  return Flow::kOk;
}

// The same where falling runs hold equal items: each group of them is turned round at once, and all of them again with
// the whole.
template <class Order, class Less>
Flow firstRunWithEquals(Order& order, const Less& less, size_t& run) {
  const size_t size = order.size();
  bool verdict = false;
  run = 1;
  STATOR_FLOW(skipRising(less, size, run));
  if (run == size) return Flow::kOk;
  if (run > 1) {
    STATOR_FLOW(less(0, run - 1, verdict));
    if (verdict) return Flow::kOk;
    reversePart(order, 0, run);
  }
  size_t equal = 0;
  auto turn_equal = [&] {
    if (equal != 0) reversePart(order, run - equal - 1, run);
    equal = 0;
  };
  for (++run; run < size; ++run) {
    STATOR_FLOW(less(run, run - 1, verdict));
    if (verdict) {
      turn_equal();
      continue;
    }
    STATOR_FLOW(less(run - 1, run, verdict));
    if (verdict) break;
    ++equal;
  }
  turn_equal();
  reversePart(order, 0, run);
  return skipRising(less, size, run);
}

// Where a comparison raises, what is sorted so far stays.
template <class Order, class Less>
Flow mergeRuns(Order& order, const Less& less) {
  size_t size = order.size(), run = std::min<size_t>(size, 1);
  if (size > 1 && kFallingRunsHoldEqualItems) STATOR_FLOW(firstRunWithEquals(order, less, run));
  if (size > 1 && !kFallingRunsHoldEqualItems) STATOR_FLOW(firstRun(order, less, run));
  for (; run < size; ++run) {
    size_t left = 0, right = run;
    while (left < right) {
      size_t middle = left + (right - left) / 2;
      bool verdict = false;
      STATOR_FLOW(less(run, middle, verdict));
      if (verdict)
        right = middle;
      else
        left = middle + 1;
    }
    auto from = order.begin() + static_cast<std::ptrdiff_t>(run);
    std::rotate(order.begin() + static_cast<std::ptrdiff_t>(left), from, from + 1);
  }
  return Flow::kOk;
}

// Sorts by keys that only Python code can compare: the order of the comparisons is that of list.sort, which takes a run
// that is there already and puts the rest in by binary insertion; from 64 items on it does more than that.
Flow sortByComparing(Tracer& t, Ref<>& items, const Ref<>& keys, bool reverse) {
  Py_ssize_t n = PyList_GET_SIZE(items.get());
  if (n >= 64)
    return t.breakWith(Reason::kUnsupportedObject, "sorts many objects by their own comparison");
  std::vector<std::pair<Ref<>, Ref<>>> order;
  for (Py_ssize_t i = 0; i < n; ++i)
    order.emplace_back(newRef(PyList_GET_ITEM(keys.get(), i)),
                       newRef(PyList_GET_ITEM(items.get(), i)));
  // A stable sort the other way round is a sort of the reversed list, reversed.
  if (reverse) std::reverse(order.begin(), order.end());
  auto less = [&](size_t left, size_t right, bool& verdict) -> Flow {
    STATOR_VALUE(compared, runEntered(t, compare(t, Py_LT, order[left].first.get(),
                                                 order[right].first.get())));
    STATOR_VALUE(truth, truth(t, compared.get()));
    verdict = truth.get() == Py_True;
    return Flow::kOk;
  };
  const Flow flow = mergeRuns(order, less);
  if (reverse) std::reverse(order.begin(), order.end());
  Ref<> sorted = stealRef(PyList_New(0));
  for (const auto& [key, item] : order) PyList_Append(sorted.get(), item.get());
  items = std::move(sorted);
  return flow;
}

// Sorts `items` in place by plain keys; stable, as list.sort is.
Flow sortItems(Tracer& t, Ref<>& items, PyObject* key, bool reverse) {
  Py_ssize_t n = PyList_GET_SIZE(items.get());
  Ref<> pairs = stealRef(PyList_New(0));
  for (Py_ssize_t i = 0; i < n; ++i) {
    Ref<> item_key = newRef(PyList_GET_ITEM(items.get(), i));
    if (key != nullptr && key != Py_None) {
      STATOR_VALUE(k, callNested(t, key, {item_key.get()}));
      item_key = k;
    }
    if (graph::isStandIn(item_key.get()))
      return t.breakWith(Reason::kDataDependentBranch, "sorts by keys that are not plain values");
    PyList_Append(pairs.get(), item_key.get());
  }
  if (!isNativeSafe(t, pairs.get())) return sortByComparing(t, items, pairs, reverse);
  // Native sort of (key, position): positions keep it stable and are never reached by a tie of keys that compare equal
  // only.
  Ref<> positions = stealRef(PyList_New(0));
  for (Py_ssize_t i = 0; i < n; ++i) {
    Ref<> index = stealRef(PyLong_FromSsize_t(i));
    PyList_Append(positions.get(), index.get());
  }
  Ref<> getter = stealRef(PyObject_GetAttrString(pairs.get(), "__getitem__"));
  Ref<> sort = stealRef(PyObject_GetAttrString(positions.get(), "sort"));
  Ref<> kwargs = stealRef(PyDict_New());
  PyDict_SetItemString(kwargs.get(), "key", getter.get());
  PyDict_SetItemString(kwargs.get(), "reverse", reverse ? Py_True : Py_False);
  Ref<> empty = stealRef(PyTuple_New(0));
  Ref<> done = stealRef(PyObject_Call(sort.get(), empty.get(), kwargs.get()));
  const Flow flow = done ? Flow::kOk : t.raiseCurrentError();
  Ref<> sorted = stealRef(PyList_New(0));
  for (Py_ssize_t i = 0; i < n; ++i)
    PyList_Append(
        sorted.get(),
        PyList_GET_ITEM(items.get(), PyLong_AsSsize_t(PyList_GET_ITEM(positions.get(), i))));
  items = std::move(sorted);
  return flow;
}

Flow sortArguments(Tracer& t, const Args& args, PyObject*& key, bool& reverse) {
  key = args.keyword("key");
  PyObject* flag = args.keyword("reverse");
  if (args.keywordCount() !=
      static_cast<size_t>(key != nullptr) + static_cast<size_t>(flag != nullptr))
    return wrongArguments(t, "sorted");
  if (flag != nullptr) {
    STATOR_VALUE(verdict, truth(t, flag));
    reverse = verdict.get() == Py_True;
  }
  return Flow::kOk;
}

Out sortedCall(Tracer& t, const Args& args) {
  if (args.positional != 1) return wrongArguments(t, "sorted");
  PyObject* key = nullptr;
  bool reverse = false;
  STATOR_FLOW(sortArguments(t, args, key, reverse));
  STATOR_VALUE(items, sizedListOf(t, args.values[0]));
  STATOR_FLOW(sortItems(t, items, key, reverse));
  return items;
}

Out listSort(Tracer& t, const Args& args) {
  if (args.positional != 1) return wrongArguments(t, "sort");
  PyObject* key = nullptr;
  bool reverse = false;
  STATOR_FLOW(sortArguments(t, args, key, reverse));
  STATOR_VALUE(target, contentsForWrite(t, args.values[0]));
  auto* list = reinterpret_cast<PyListObject*>(target.get());
  // As CPython does it: keys and comparisons see an empty list, whose `allocated` tells whether they have changed it.
  Ref<> sorted = stealRef(PyList_GetSlice(target.get(), 0, Py_SIZE(list)));
  PyList_SetSlice(target.get(), 0, Py_SIZE(list), nullptr);
  list->allocated = -1;
  const Flow flow = sortItems(t, sorted, key, reverse);
  const bool changed = list->allocated != -1;
  if (changed)
    PyList_SetSlice(target.get(), 0, Py_SIZE(list), nullptr);
  else
    list->allocated = 0;
  PyList_SetSlice(target.get(), 0, 0, sorted.get());
  STATOR_FLOW(flow);
  if (changed) return t.raiseNew(PyExc_ValueError, "list modified during sort");
  return newRef(Py_None);
}
}  // namespace

void registerOrderings() {
  const std::pair<const char*, CallHandler> rows[] = {
      {"builtins.sum", sumCall},        {"builtins.any", anyCall}, {"builtins.all", allCall},
      {"builtins.max", maxCall},        {"builtins.min", minCall}, {"builtins.sorted", sortedCall},
      {"builtins.list.sort", listSort},
  };
  for (const auto& [path, handler] : rows) registerHandler(path, handler);
}

}  // namespace stator::interpret
