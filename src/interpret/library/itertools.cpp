// itertools: iterators of our own, rebuilt as CPython's at an exit.
#include "interpret/library/itertools.h"

#include "interpret/calls/calls.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/library/rows.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/next.h"
#include "interpret/objects/operators.h"
#include "interpret/objects/truth.h"
#include "python/opcode_numbers.h"

namespace stator::interpret {

namespace {

Ref<> number(int64_t value) { return stealRef(PyLong_FromLongLong(value)); }

// Positional or keyword argument; null: not given.
PyObject* argument(const Args& args, size_t index, const char* name) {
  return args.positional > index ? args.values[index] : args.keyword(name);
}

Out chain(Tracer& t, const Args& args) {
  if (args.keywordCount() != 0) return wrongArguments(t, "chain");
  Ref<> iterables = stealRef(PyTuple_New(static_cast<Py_ssize_t>(args.positional)));
  for (size_t i = 0; i < args.positional; ++i)
    PyTuple_SET_ITEM(iterables.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args.values[i]));
  STATOR_VALUE(outer, iterate(t, iterables.get()));
  return t.made(makeTraceIterator(IteratorKind::kChain, {outer, Ref<>()}));
}

Out chainFromIterable(Tracer& t, const Args& args) {
  if (args.values.size() != 2 || args.keywordCount() != 0)
    return wrongArguments(t, "from_iterable");
  STATOR_VALUE(outer, iterate(t, args.values[1]));
  return t.made(makeTraceIterator(IteratorKind::kChain, {outer, Ref<>()}));
}

// None, or an int that is not negative.
bool isCount(PyObject* value) {
  int overflow = 0;
  return value == Py_None ||
         (PyLong_CheckExact(value) && PyLong_AsLongLongAndOverflow(value, &overflow) >= 0);
}

Out islice(Tracer& t, const Args& args) {
  if (args.keywordCount() != 0 || args.positional < 2 || args.positional > 4)
    return wrongArguments(t, "islice");
  PyObject* start = args.positional > 2 ? args.values[1] : Py_None;
  PyObject* stop = args.positional > 2 ? args.values[2] : args.values[1];
  PyObject* step = args.positional > 3 ? args.values[3] : Py_None;
  if (!isCount(start) || !isCount(stop) || !isCount(step)) return wrongArguments(t, "islice");
  int64_t steps = step == Py_None ? 1 : PyLong_AsLongLong(step);
  if (steps == 0) return wrongArguments(t, "islice");
  STATOR_VALUE(iterator, iterate(t, args.values[0]));
  return t.made(makeTraceIterator(
      IteratorKind::kIslice,
      {iterator, start == Py_None ? number(0) : newRef(start), newRef(stop), number(steps)}));
}

// As CPython asks: it can be made an int or a float.
bool isNumber(Tracer& t, PyObject* value) {
  PyTypeObject* type = typeOf(t, value);
  const PyNumberMethods* methods = type->tp_as_number;
  return PyType_IsSubtype(type, &PyComplex_Type) ||
         (methods != nullptr && (methods->nb_index != nullptr || methods->nb_int != nullptr ||
                                 methods->nb_float != nullptr));
}

Out countCall(Tracer& t, const Args& args) {
  PyObject *start = argument(args, 0, "start"), *step = argument(args, 1, "step");
  if (args.values.size() !=
      static_cast<size_t>(start != nullptr) + static_cast<size_t>(step != nullptr))
    return wrongArguments(t, "count");
  for (PyObject* given : {start, step}) {
    if (given != nullptr && !isNumber(t, given)) return wrongArguments(t, "count");
  }
  Ref<> number_of_bool;  // which it gives in the place of True
  if (start != nullptr && PyBool_Check(start)) {
    number_of_bool = number(start == Py_True ? 1 : 0);
    start = number_of_bool.get();
  }
  return t.made(makeTraceIterator(
      IteratorKind::kCount,
      {start != nullptr ? newRef(start) : number(0), step != nullptr ? newRef(step) : number(1)}));
}

Out cycle(Tracer& t, const Args& args) {
  if (args.values.size() != 1 || args.keywordCount() != 0) return wrongArguments(t, "cycle");
  STATOR_VALUE(iterator, iterate(t, args.values[0]));
  return t.made(makeTraceIterator(IteratorKind::kCycle, {iterator, stealRef(PyList_New(0))}));
}

Out repeat(Tracer& t, const Args& args) {
  PyObject *object = argument(args, 0, "object"), *times = argument(args, 1, "times");
  if (object == nullptr || (times != nullptr && !PyLong_CheckExact(times)) ||
      args.values.size() != (times != nullptr ? 2u : 1u))
    return wrongArguments(t, "repeat");
  int overflow = 0;
  int64_t count = -1;
  if (times != nullptr)
    count = std::max<int64_t>(0, PyLong_AsLongLongAndOverflow(times, &overflow));
  if (overflow != 0) return wrongArguments(t, "repeat");
  return t.made(makeTraceIterator(IteratorKind::kRepeat, {newRef(object)}, count));
}

Out accumulate(Tracer& t, const Args& args) {
  PyObject *iterable = argument(args, 0, "iterable"), *function = argument(args, 1, "func"),
           *initial = args.keyword("initial");
  const size_t given = (iterable != nullptr) + (function != nullptr) + (initial != nullptr);
  if (iterable == nullptr || args.positional > 2 || args.values.size() != given)
    return wrongArguments(t, "accumulate");
  STATOR_VALUE(iterator, iterate(t, iterable));
  return t.made(
      makeTraceIterator(IteratorKind::kAccumulate,
                        {iterator, newRef(function != nullptr ? function : Py_None), Ref<>(),
                         initial != nullptr && initial != Py_None ? newRef(initial) : Ref<>()}));
}

template <IteratorKind kind>
Out functionAndIterable(Tracer& t, const Args& args) {
  if (args.values.size() != 2 || args.keywordCount() != 0) return wrongArguments(t, "itertools");
  STATOR_VALUE(iterator, iterate(t, args.values[1]));
  return t.made(makeTraceIterator(kind, {newRef(args.values[0]), iterator}));
}

Out compress(Tracer& t, const Args& args) {
  PyObject *data = argument(args, 0, "data"), *selectors = argument(args, 1, "selectors");
  if (data == nullptr || selectors == nullptr || args.values.size() != 2)
    return wrongArguments(t, "compress");
  STATOR_VALUE(first, iterate(t, data));
  STATOR_VALUE(second, iterate(t, selectors));
  return t.made(makeTraceIterator(IteratorKind::kCompress, {first, second}));
}

Out zipLongest(Tracer& t, const Args& args) {
  PyObject* fill = args.keyword("fillvalue");
  if (args.keywordCount() != static_cast<size_t>(fill != nullptr))
    return wrongArguments(t, "zip_longest");
  std::vector<Ref<>> parts = {newRef(fill != nullptr ? fill : Py_None)};
  for (size_t i = 0; i < args.positional; ++i) {
    STATOR_VALUE(part, iterate(t, args.values[i]));
    parts.push_back(std::move(part));
  }
  return t.made(makeTraceIterator(IteratorKind::kZipLongest, std::move(parts)));
}

Out pairwise(Tracer& t, const Args& args) {
  if (args.values.size() != 1 || args.keywordCount() != 0) return wrongArguments(t, "pairwise");
  STATOR_VALUE(iterator, iterate(t, args.values[0]));
  return t.made(makeTraceIterator(IteratorKind::kPairwise, {iterator, Ref<>()}));
}

Ref<> copyOfTee(const TraceIterator* iterator) {
  Ref<> copy = makeTraceIterator(IteratorKind::kTee, *iterator->sources, iterator->index);
  asTraceIterator(copy.get())->exhausted = iterator->exhausted;
  return copy;
}

// The first that tee() gives for an iterator: itself if it can be copied. CPython asks any other once more for its
// iterator.
Out teeOf(Tracer& t, PyObject* iterator) {
  if (isTraceIterator(iterator)) {
    if (asTraceIterator(iterator)->kind == IteratorKind::kTee) return newRef(iterator);
  } else {
    static PyObject* const name = PyUnicode_InternFromString("__copy__");
    Out copy = runEntered(t, getAttrOrNull(t, iterator, name));
    if (copy.flow() == Flow::kRaise && t.errors.raisedIs(PyExc_AttributeError))
      t.errors.dropRaised();
    else if (!copy.ok())
      return copy;
    else if (copy.get() != nullptr)
      return t.breakWith(Reason::kUnsupportedIterator, "tee() of what copies itself");
  }
  STATOR_VALUE(inner, iterate(t, iterator));
  Ref<> shared = stealRef(PyList_New(0));
  PyList_Append(shared.get(), inner.get());
  return t.made(makeTraceIterator(IteratorKind::kTee, {shared}, 1));
}

Out tee(Tracer& t, const Args& args) {
  if (args.keywordCount() != 0 || args.positional < 1 || args.positional > 2)
    return wrongArguments(t, "tee");
  int64_t copies = 2;
  if (args.positional == 2) {
    if (!isCount(args.values[1]) || args.values[1] == Py_None) return wrongArguments(t, "tee");
    copies = PyLong_AsLongLong(args.values[1]);
    if (copies > 1000) return wrongArguments(t, "tee");
  }
  STATOR_VALUE(first, iterate(t, args.values[0]));
  if (copies == 0) return stealRef(PyTuple_New(0));
  STATOR_VALUE(iterator, teeOf(t, first.get()));
  Ref<> out = stealRef(PyTuple_New(copies));
  PyTuple_SET_ITEM(out.get(), 0, newRef(iterator.get()).release());
  for (int64_t i = 1; i < copies; ++i)
    PyTuple_SET_ITEM(out.get(), i, t.made(copyOfTee(asTraceIterator(iterator.get()))).release());
  return out;
}

// product, permutations, combinations: they take all items first and only move references from then on, so CPython's
// own run over trace values.
Out moves(Tracer& t, const Args& args, const char* name, size_t iterables) {
  if (PyObject* count = args.keyword("r"); count != nullptr && args.keywordCount() == 1 &&
                                           iterables == 1 && args.positional == 1 &&
                                           std::string_view(name) != "product")
    return moves(t, Args{{args.values[0], count}, 2}, name, iterables);
  // product() alone has a keyword that says nothing about one of the iterables.
  PyObject* repeat = args.keyword("repeat");
  if (args.keywordCount() != 0 &&
      (repeat == nullptr || args.keywordCount() != 1 || !PyLong_CheckExact(repeat) ||
       iterables != args.positional || std::string_view(name) != "product"))
    return t.breakWith(Reason::kUnsupportedIterator, std::string(name) + "() with keywords");
  Ref<> own = stealRef(PyTuple_New(static_cast<Py_ssize_t>(args.positional)));
  for (size_t i = 0; i < args.positional; ++i) {
    if (i >= iterables) {
      if (!isNativeSafe(t, args.values[i])) return wrongArguments(t, name);
      PyTuple_SET_ITEM(own.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args.values[i]));
      continue;
    }
    STATOR_VALUE(list, sizedListOf(t, args.values[i]));
    PyTuple_SET_ITEM(own.get(), static_cast<Py_ssize_t>(i), PyList_AsTuple(list.get()));
  }
  if (repeat != nullptr) {
    const long times = PyLong_AsLong(repeat);
    if (times < 0 || times > 1000) {
      PyErr_Clear();
      return t.breakWith(Reason::kUnsupportedIterator, "product() with this repeat");
    }
    own = stealRef(PySequence_Repeat(own.get(), times));
  }
  PyObject* type = reinterpret_cast<PyObject*>(itertoolsType(name));
  Ref<> iterator = stealRef(PyObject_Call(type, own.get(), nullptr));
  if (!iterator) return t.raiseCurrentError();
  return t.made(makeTraceIterator(IteratorKind::kMoves, {iterator, newRef(type), own}));
}
Out product(Tracer& t, const Args& args) { return moves(t, args, "product", args.positional); }
Out permutations(Tracer& t, const Args& args) { return moves(t, args, "permutations", 1); }
Out combinations(Tracer& t, const Args& args) { return moves(t, args, "combinations", 1); }
Out combinationsWithReplacement(Tracer& t, const Args& args) {
  return moves(t, args, "combinations_with_replacement", 1);
}

}  // namespace

namespace {

// The item that an iterator of itertools gives next, a method for each kind; none (no value): it has ended.
class Following {
 public:
  Following(Tracer& of, TraceIterator& traced)
      : tracer_(of), iterator_(&traced), parts_(*traced.sources) {}

  Out next() {
    switch (iterator_->kind) {
      case IteratorKind::kChain:
        return chain();
      case IteratorKind::kIslice:
        return islice();
      case IteratorKind::kCount:
        return count();
      case IteratorKind::kCycle:
        return cycle();
      case IteratorKind::kRepeat:
        return repeat();
      case IteratorKind::kAccumulate:
        return accumulate();
      case IteratorKind::kStarMap:
        return starMap();
      case IteratorKind::kTakeWhile:
        return takeWhile();
      case IteratorKind::kDropWhile:
        return dropWhile();
      case IteratorKind::kFilterFalse:
        return filterFalse();
      case IteratorKind::kCompress:
        return compress();
      case IteratorKind::kZipLongest:
        return zipLongest();
      case IteratorKind::kPairwise:
        return pairwise();
      case IteratorKind::kTee:
        return tee();
      case IteratorKind::kMoves:
        return moves();
      default:
        return tracer_.breakWith(Reason::kUnsupportedIterator);
    }
  }

 private:
  Out finish() {
    iterator_->exhausted = true;
    return Ref<>();
  }
  // What the function at the front says of an item.
  Out verdict(PyObject* item) {
    if (parts_[0].get() == Py_None || parts_[0].get() == reinterpret_cast<PyObject*>(&PyBool_Type))
      return truth(tracer_, item);
    STATOR_VALUE(result, callNested(tracer_, parts_[0].get(), {item}));
    return truth(tracer_, result.get());
  }
  Out nextOf(const Ref<>& inner) { return interpret::next(tracer_, inner.get()); }

  Out chain() {
    for (;;) {
      if (!parts_[1]) {
        STATOR_VALUE(iterable, nextOf(parts_[0]));
        if (!iterable) return finish();
        STATOR_VALUE(inner, iterate(tracer_, iterable.get()));
        parts_[1] = inner;
      }
      STATOR_VALUE(item, nextOf(parts_[1]));
      if (item) return item;
      parts_[1].reset();
    }
  }

  Out islice() {
    int64_t wanted = PyLong_AsLongLong(parts_[1].get());
    int64_t stop = parts_[2].get() == Py_None ? INT64_MAX : PyLong_AsLongLong(parts_[2].get());
    // CPython stops before it takes anything beyond `stop`.
    for (; iterator_->index < wanted && iterator_->index < stop; iterator_->index++) {
      STATOR_VALUE(skipped, nextOf(parts_[0]));
      if (!skipped) return finish();
    }
    if (iterator_->index >= stop) return finish();
    STATOR_VALUE(item, nextOf(parts_[0]));
    if (!item) return finish();
    iterator_->index++;
    int64_t step = PyLong_AsLongLong(parts_[3].get());
    parts_[1] = number(wanted > stop - step ? stop : wanted + step);
    return item;
  }

  Out count() {
    Ref<> item = parts_[0];
    STATOR_VALUE(following,
                 runEntered(tracer_, binary(tracer_, NB_ADD, item.get(), parts_[1].get())));
    parts_[0] = following;
    return item;
  }

  Out cycle() {
    if (!iterator_->flag) {
      STATOR_VALUE(item, nextOf(parts_[0]));
      if (item) {
        PyList_Append(parts_[1].get(), item.get());
        return item;
      }
      iterator_->flag = true;
      iterator_->index = 0;
    }
    Py_ssize_t size = PyList_GET_SIZE(parts_[1].get());
    if (size == 0) return finish();
    Ref<> item = newRef(PyList_GET_ITEM(parts_[1].get(), iterator_->index));
    iterator_->index = (iterator_->index + 1) % size;
    return item;
  }

  Out repeat() {
    if (iterator_->index == 0) return finish();
    if (iterator_->index > 0) iterator_->index--;
    return parts_[0];
  }

  Out accumulate() {
    if (parts_[3]) {
      parts_[2] = std::move(parts_[3]);
      parts_[3].reset();
      return parts_[2];
    }
    STATOR_VALUE(item, nextOf(parts_[0]));
    if (!item) return finish();
    if (!parts_[2]) {
      parts_[2] = item;
      return item;
    }
    Out total = parts_[1].get() == Py_None
                    ? runEntered(tracer_, binary(tracer_, NB_ADD, parts_[2].get(), item.get()))
                    : callNested(tracer_, parts_[1].get(), {parts_[2].get(), item.get()});
    if (!total.ok()) return total;
    parts_[2] = total.take();
    return parts_[2];
  }

  Out starMap() {
    STATOR_VALUE(item, nextOf(parts_[1]));
    if (!item) return finish();
    STATOR_VALUE(list, listOf(tracer_, item.get()));
    Args args;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i)
      args.values.push_back(PyList_GET_ITEM(list.get(), i));
    args.positional = args.values.size();
    return callNested(tracer_, parts_[0].get(), args);
  }

  Out takeWhile() {
    STATOR_VALUE(item, nextOf(parts_[1]));
    if (!item) return finish();
    STATOR_VALUE(good, verdict(item.get()));
    return good.get() == Py_True ? Out(item) : finish();
  }

  Out dropWhile() {
    for (;;) {
      STATOR_VALUE(item, nextOf(parts_[1]));
      if (!item) return finish();
      if (iterator_->flag) return item;
      STATOR_VALUE(drop, verdict(item.get()));
      if (drop.get() == Py_True) continue;
      iterator_->flag = true;
      return item;
    }
  }

  Out filterFalse() {
    for (;;) {
      STATOR_VALUE(item, nextOf(parts_[1]));
      if (!item) return finish();
      STATOR_VALUE(good, verdict(item.get()));
      if (good.get() != Py_True) return item;
    }
  }

  Out compress() {
    for (;;) {
      STATOR_VALUE(item, nextOf(parts_[0]));
      if (!item) return finish();
      STATOR_VALUE(selector, nextOf(parts_[1]));
      if (!selector) return finish();
      STATOR_VALUE(good, truth(tracer_, selector.get()));
      if (good.get() == Py_True) return item;
    }
  }

  Out zipLongest() {
    Ref<> tuple = stealRef(PyTuple_New(static_cast<Py_ssize_t>(parts_.size()) - 1));
    bool any = false;
    for (size_t i = 1; i < parts_.size(); ++i) {
      Ref<> item;
      if (parts_[i]) {
        STATOR_VALUE(got, nextOf(parts_[i]));
        item = got;
      }
      if (item) {
        any = true;
      } else {
        parts_[i].reset();
        item = parts_[0];
        bool left = false;
        for (size_t j = 1; j < parts_.size(); ++j) left |= static_cast<bool>(parts_[j]);
        if (!left) return finish();
      }
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i) - 1, item.release());
    }
    if (!any) return finish();
    return tuple;
  }

  Out pairwise() {
    if (!parts_[1]) {
      STATOR_VALUE(first, nextOf(parts_[0]));
      if (!first) return finish();
      parts_[1] = first;
    }
    STATOR_VALUE(item, nextOf(parts_[0]));
    if (!item) return finish();
    Ref<> pair = stealRef(PyTuple_Pack(2, parts_[1].get(), item.get()));
    parts_[1] = item;
    return pair;
  }

  Out tee() {
    PyObject* shared = parts_[0].get();
    if (iterator_->index < PyList_GET_SIZE(shared))
      return newRef(PyList_GET_ITEM(shared, iterator_->index++));
    STATOR_VALUE(item, interpret::next(tracer_, PyList_GET_ITEM(shared, 0)));
    if (!item) return finish();
    PyList_Append(shared, item.get());
    iterator_->index++;
    return item;
  }

  Out moves() {
    Ref<> item = stealRef(PyIter_Next(parts_[0].get()));
    if (!item) return PyErr_Occurred() ? Out(tracer_.raiseCurrentError()) : finish();
    iterator_->index++;
    return item;
  }

  Tracer& tracer_;
  TraceIterator* iterator_;
  std::vector<Ref<>>& parts_;
};

}  // namespace

Out nextOfItertools(Tracer& tracer, PyObject* object) {
  return Following(tracer, *asTraceIterator(object)).next();
}

void registerItertools() {
  const std::pair<const char*, CallHandler> rows[] = {
      {"itertools.chain", chain},
      {"itertools.chain.from_iterable", chainFromIterable},
      {"itertools.islice", islice},
      {"itertools.count", countCall},
      {"itertools.cycle", cycle},
      {"itertools.repeat", repeat},
      {"itertools.accumulate", accumulate},
      {"itertools.starmap", functionAndIterable<IteratorKind::kStarMap>},
      {"itertools.takewhile", functionAndIterable<IteratorKind::kTakeWhile>},
      {"itertools.dropwhile", functionAndIterable<IteratorKind::kDropWhile>},
      {"itertools.filterfalse", functionAndIterable<IteratorKind::kFilterFalse>},
      {"itertools.compress", compress},
      {"itertools.zip_longest", zipLongest},
      {"itertools.pairwise", pairwise},
      {"itertools.tee", tee},
      {"itertools.product", product},
      {"itertools.permutations", permutations},
      {"itertools.combinations", combinations},
      {"itertools.combinations_with_replacement", combinationsWithReplacement},
  };
  for (const auto& [path, handler] : rows) registerHandler(path, handler);
  registerPolyfill("itertools.groupby", "iteration.groupby");
}

}  // namespace stator::interpret
