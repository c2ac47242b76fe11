// Built-in functions that make iterators and ask them; methods of generators.
#include "interpret/calls/calls.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/library/rows.h"
#include "interpret/library/warnings.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/next.h"
#include "interpret/objects/outside_iterators.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/truth.h"
#include "python/generators.h"
#include "python/objects.h"
#include "python/types.h"

namespace stator::interpret {

namespace {

Out iterCall(Tracer& t, const Args& args) {
  if (args.positional == 2 && args.keywordCount() == 0) {
    PyObject* asked = args.values[0];
    if (graph::isStandIn(asked) || isTraceIterator(asked) || PyCallable_Check(asked) == 0)
      return t.fromNative(  // in the words of this CPython
          stealRef(
              PyObject_CallFunctionObjArgs(builtinFunction("iter"), Py_None, Py_None, nullptr)));
    return t.made(makeTraceIterator(IteratorKind::kCallable,
                                    {newRef(args.values[0]), newRef(args.values[1])}));
  }
  NEED(1, "iter");
  return iterate(t, args.values[0]);
}

Out nextCall(Tracer& t, const Args& args) {
  if (args.keywordCount() != 0 || args.positional < 1 || args.positional > 2)
    return wrongArguments(t, "next");
  PyObject* iterator = args.values[0];
  if (args.positional == 1 && !graph::isStandIn(iterator) && !isTraceIterator(iterator) &&
      !stator_iterator_known(iterator) && isUserOverride(t, iterator, "__next__")) {
    // The StopIteration that it raises comes through as it is, with its value.
    STATOR_VALUE(bound, special(t, iterator, "__next__"));
    return callNested(t, bound.get(), {});
  }
  STATOR_VALUE(item, next(t, args.values[0]));
  if (item) return item;
  if (args.positional == 2) return newRef(args.values[1]);
  return raiseStop(t, args.values[0]);
}

Out zipCall(Tracer& t, const Args& args) {
  bool strict = false;
  if (args.keywordCount() != 0) {
    PyObject* flag = args.keyword("strict");
    if (flag == nullptr || args.keywordCount() != 1) return wrongArguments(t, "zip");
    strict = flag == Py_True;
  }
  std::vector<Ref<>> parts;
  for (size_t i = 0; i < args.positional; ++i) {
    STATOR_VALUE(part, iterate(t, args.values[i]));
    parts.push_back(std::move(part));
  }
  Ref<> zip = makeTraceIterator(IteratorKind::kZip, std::move(parts));
  asTraceIterator(zip.get())->flag = strict;
  return t.made(zip);
}

Out enumerateCall(Tracer& t, const Args& args) {
  const size_t named = args.keyword("start") != nullptr ? 1 : 0;
  if (args.positional < 1 || args.values.size() > 2 || args.keywordCount() != named)
    return wrongArguments(t, "enumerate");
  PyObject* start = args.positional > 1 ? args.values[1] : args.keyword("start");
  int64_t first = 0;
  if (start != nullptr) {
    if (!PyLong_CheckExact(start))
      return t.breakWith(Reason::kUnsupportedObject, "enumerate() from something else than an int");
    int overflow = 0;
    first = PyLong_AsLongLongAndOverflow(start, &overflow);
    if (overflow != 0 || first > INT64_MAX / 2)
      return t.breakWith(Reason::kUnsupportedObject, "enumerate() from a very large number");
  }
  STATOR_VALUE(part, iterate(t, args.values[0]));
  return t.made(makeTraceIterator(IteratorKind::kEnumerate, {part}, first));
}

Out mapCall(Tracer& t, const Args& args) {
  if (args.positional < 2 || args.keywordCount() != 0) return wrongArguments(t, "map");
  std::vector<Ref<>> parts = {newRef(args.values[0])};
  for (size_t i = 1; i < args.positional; ++i) {
    STATOR_VALUE(part, iterate(t, args.values[i]));
    parts.push_back(std::move(part));
  }
  return t.made(makeTraceIterator(IteratorKind::kMap, std::move(parts)));
}

Out filterCall(Tracer& t, const Args& args) {
  NEED(2, "filter");
  STATOR_VALUE(part, iterate(t, args.values[1]));
  return t.made(makeTraceIterator(IteratorKind::kFilter, {newRef(args.values[0]), part}));
}

// A class with a __reversed__ of its own, or with other methods that reversed() asks of what has none in C (or iter()
// of a dict, which stands for dict's own here).
bool reversesOtherwise(Tracer& t, PyObject* sequence) {
  if (graph::isStandIn(sequence) || isTraceIterator(sequence)) return false;
  PyTypeObject* type = Py_TYPE(sequence);
  if (!stator_is_user_class(type)) return false;
  if (isProgrammed(t, type, "__reversed__")) return true;
  if (PyList_Check(sequence)) return false;
  if (PyDict_Check(sequence)) return isProgrammed(t, type, "__iter__");
  return isProgrammed(t, type, "__len__") || isProgrammed(t, type, "__getitem__");
}

Out reversedCall(Tracer& t, const Args& args) {
  NEED(1, "reversed");
  PyObject* sequence = args.values[0];
  if (reversesOtherwise(t, sequence)) {
    if (isDenied(t, Py_TYPE(sequence), "__reversed__"))
      return t.raiseNew(PyExc_TypeError, "'%.200s' object is not reversible",
                        Py_TYPE(sequence)->tp_name);
  } else if (PyList_Check(sequence) || PyTuple_Check(sequence) || PyRange_Check(sequence) ||
             PyUnicode_Check(sequence)) {
    STATOR_VALUE(items, contents(t, sequence));
    // A list's own __reversed__ does not ask a subclass for its length.
    const Py_ssize_t size =
        PyList_Check(items.get()) ? PyList_GET_SIZE(items.get()) : PyObject_Size(items.get());
    return t.made(makeTraceIterator(IteratorKind::kReversed, {newRef(sequence)}, size - 1));
  } else if (PyDict_Check(sequence) || isDictView(sequence)) {
    return reversedKeys(t, sequence);
  }
  if (graph::isStandIn(sequence) || isTraceIterator(sequence))
    return t.breakWith(Reason::kUnsupportedIterator, "reversed()");
  STATOR_VALUE(bound, special(t, sequence, "__reversed__"));
  if (bound) return callNested(t, bound.get(), {});
  if (PySequence_Check(sequence) == 0)
    return t.raiseNew(PyExc_TypeError, "'%.200s' object is not reversible",
                      typeOf(t, sequence)->tp_name);
  STATOR_VALUE(count_out, runEntered(t, length(t, sequence)));
  if (!PyLong_CheckExact(count_out.get()))
    return t.breakWith(Reason::kUnsupportedIterator, "reversed()");
  Ref<> made = makeTraceIterator(IteratorKind::kReversed, {newRef(sequence)},
                                 PyLong_AsSsize_t(count_out.get()) - 1);
  asTraceIterator(made.get())->flag = true;
  return t.made(made);
}

Out generatorSend(Tracer& t, const Args& args) {
  NEED(2, "send");
  STATOR_VALUE(taken, takenOver(t, args.values[0]));
  if (!taken)
    return t.breakWith(Reason::kUnsupportedIterator, "send() to a generator from outside");
  TraceIterator* generator = asTraceIterator(taken.get());
  if (generator->index == 0 && args.values[1] != Py_None) {
    return t.raiseNew(PyExc_TypeError, "can't send non-None value to a just-started generator");
  }
  STATOR_VALUE(item, t.above.runGenerator(taken.get(), newRef(args.values[1])));
  if (item) return item;
  return raiseStop(t, taken.get());
}

Out generatorClose(Tracer& t, const Args& args) {
  NEED(1, "close");
  STATOR_VALUE(taken, takenOver(t, args.values[0]));
  if (!taken)
    return t.breakWith(Reason::kUnsupportedIterator, "close() of a generator from outside");
  return t.above.closeGenerator(taken.get());
}

// throw(exception), or the old form throw(type, value, traceback).
Out generatorThrow(Tracer& t, const Args& args) {
  if (args.positional < 2 || args.positional > 4 || args.keywordCount() != 0)
    return wrongArguments(t, "throw");
  PyObject* what = args.values[1];
  PyObject* value = args.positional > 2 ? args.values[2] : Py_None;
  if (graph::isStandIn(what) || graph::isStandIn(value)) return wrongArguments(t, "throw");
  if (args.positional > 2 && kThrowsInParts != nullptr)
    STATOR_FLOW(giveWarning(t, PyExc_DeprecationWarning, kThrowsInParts).flow());
  Ref<> exception = newRef(what);
  if (PyExceptionClass_Check(what)) {
    if (PyExceptionInstance_Check(value)) {
      exception = newRef(value);
    } else {
      Args given;
      if (value != Py_None) given.values = {value};
      given.positional = given.values.size();
      STATOR_VALUE(made, callNested(t, what, given));
      exception = std::move(made);
    }
  }
  if (!PyExceptionInstance_Check(exception.get()) || !t.isMade(exception.get()))
    return t.breakWith(Reason::kRaises, "throws an exception from outside");
  STATOR_VALUE(taken, takenOver(t, args.values[0]));
  if (!taken)
    return t.breakWith(Reason::kUnsupportedIterator, "throw() into a generator from outside");
  STATOR_VALUE(item, t.above.throwIntoGenerator(taken.get(), exception));
  if (item) return item;
  return raiseStop(t, taken.get());
}

}  // namespace

void registerIterators() {
  const std::pair<const char*, CallHandler> rows[] = {
      {"builtins.iter", iterCall},
      {"builtins.next", nextCall},
      {"builtins.zip", zipCall},
      {"builtins.enumerate", enumerateCall},
      {"builtins.map", mapCall},
      {"builtins.filter", filterCall},
      {"builtins.reversed", reversedCall},
      {"types.GeneratorType.send", generatorSend},
      {"types.GeneratorType.close", generatorClose},
      {"types.GeneratorType.throw", generatorThrow},
  };
  for (const auto& [path, handler] : rows) registerHandler(path, handler);
}

}  // namespace stator::interpret
