// Methods of lists, tuples, deques and strings that hold or take other objects, and what those of all containers share.
#include "interpret/library/containers.h"

#include "interpret/calls/calls.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/library/rows.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/iteration_changes.h"
#include "interpret/objects/keys.h"
#include "interpret/objects/next.h"
#include "interpret/objects/operators.h"
#include "interpret/objects/truth.h"
#include "interpret/objects/updates.h"
#include "python/types.h"
#include "python/version.h"

namespace stator::interpret {

namespace {

Ref<> none() { return newRef(Py_None); }

Out listAppend(Tracer& t, const Args& args) {
  NEED(2, "append");
  values::Info* info = t.values.find(args.values[0]);
  if (info != nullptr && info->origin == values::Origin::kOutside && !info->shadow &&
      !isBeingSorted(t, args.values[0])) {
    if (!info->appended) info->appended = stealRef(PyList_New(0));
    PyList_Append(info->appended.get(), args.values[1]);
    noteWrite(t, args.values[0]);
    info->dirty = true;
    return none();
  }
  STATOR_VALUE(target, contentsForWrite(t, args.values[0]));
  PyList_Append(target.get(), args.values[1]);
  return none();
}

}  // namespace

bool iterationRunsCode(PyObject* iterable) {
  if (isTraceIterator(iterable)) return true;
  if (graph::isStandIn(iterable) || values::isScalar(iterable)) return false;
  PyTypeObject* type = Py_TYPE(iterable);
  return type != &PyList_Type && type != &PyTuple_Type && type != &PyDict_Type &&
         type != &PySet_Type && type != &PyFrozenSet_Type && type != &PyRange_Type &&
         type != &PyUnicode_Type && type != &PyBytes_Type && type != dequeType() &&
         type != &PyODict_Type && !isDictView(iterable);
}

Out putEach(Tracer& t, const Args& args, CallHandler put) {
  Ref<> keep = newRef(args.values[1]);
  STATOR_VALUE(iterator, iterate(t, args.values[1]));
  if (put == listAppend) STATOR_FLOW(askForLength(t, args.values[1]));
  Args one;
  one.values = {args.values[0], nullptr};
  one.positional = 2;
  for (;;) {
    STATOR_VALUE(item, next(t, iterator.get()));
    if (!item) return none();
    one.values[1] = item.get();
    STATOR_VALUE(done, put(t, one));
    t.frames.commit();
  }
}

template <bool writes>
Out onContents(Tracer& t, const Args& args, const char* method, bool plain_arguments) {
  if (args.positional == 0) return wrongArguments(t, method);
  for (size_t i = 1; i < args.values.size(); ++i) {
    if (plain_arguments && !isNativeSafe(t, args.values[i]))
      return t.breakWith(Reason::kUnsupportedObject,
                         std::string(method) + "() with a value that is not plain");
  }
  Ref<> target;
  if (writes) {
    STATOR_VALUE(items, contentsForWrite(t, args.values[0]));
    target = items;
  } else {
    STATOR_VALUE(items, contents(t, args.values[0]));
    target = items;
  }
  // The C type's own method: what a Python subclass put over it must not run here.
  PyTypeObject* base = stator_native_base(Py_TYPE(target.get()));
  Ref<> function = stealRef(PyObject_GetAttrString(reinterpret_cast<PyObject*>(base), method));
  if (!function) return t.raiseCurrentError();
  std::vector<PyObject*> values = args.values;
  values[0] = target.get();
  auto run = [&](PyObject* self) {
    values[0] = self;
    return PyObject_Vectorcall(function.get(), values.data(), args.positional, args.names);
  };
  if (!PyDict_Check(target.get()) && !PyAnySet_Check(target.get()))
    return t.fromNative(stealRef(run(target.get())));
  STATOR_VALUE(result, withOwnKeys(t, writes ? target.get() : nullptr, [&](PyObject* self) {
                 return run(writes ? self : target.get());
               }));
  return t.fromNative(result);
}

template Out onContents<false>(Tracer&, const Args&, const char*, bool);
template Out onContents<true>(Tracer&, const Args&, const char*, bool);

Out clearContents(Tracer& t, const Args& args) { return onContents<true>(t, args, "clear"); }

Out copyContents(Tracer& t, const Args& args) {
  NEED(1, "copy");
  if (PyDict_Check(args.values[0]) && !iteratesAsDict(t, args.values[0]))
    return callNested(t, torchObject("stator.polyfills.functions.asked_copy"), {args.values[0]});
  return onContents<false>(t, args, "copy");
}

namespace {

Out listExtend(Tracer& t, const Args& args) {
  NEED(2, "extend");
  const bool itself = args.values[0] == args.values[1];
  if (!itself && iterationRunsCode(args.values[1])) return putEach(t, args, listAppend);
  STATOR_VALUE(items, itself && kListsDoubleThemselves ? contents(t, args.values[1])
                      : itself                         ? listOf(t, args.values[1])
                                                       : sizedListOf(t, args.values[1]));
  STATOR_VALUE(target, contentsForWrite(t, args.values[0]));
  Py_ssize_t size = PyList_GET_SIZE(target.get());
  PyList_SetSlice(target.get(), size, size, items.get());
  return none();
}

Out insert(Tracer& t, const Args& args) {
  NEED(3, "insert");
  if (!isNativeSafe(t, args.values[1])) return wrongArguments(t, "insert");
  return onContents<true>(t, args, "insert", false);
}
Out pop(Tracer& t, const Args& args) { return onContents<true>(t, args, "pop"); }
Out reverse(Tracer& t, const Args& args) { return onContents<true>(t, args, "reverse"); }

// index, count, remove: by identity first, then by ==.
Out findIndex(Tracer& t, PyObject* items, PyObject* wanted, Py_ssize_t from, Py_ssize_t& found) {
  // By the C layout, whatever a subclass puts over its methods; the comparison of items may change a list.
  const bool by_layout = PyList_Check(items) || PyTuple_Check(items);
  const Ref<> watch = watchDeque(items);
  for (Py_ssize_t i = from; i < (by_layout ? Py_SIZE(items) : PyObject_Size(items)); ++i) {
    Ref<> item = by_layout ? newRef(PySequence_Fast_GET_ITEM(items, i))
                           : stealRef(PySequence_GetItem(items, i));
    STATOR_VALUE(identical, same(t, item.get(), wanted));
    bool equal = identical.get() == Py_True;
    if (!equal) {
      STATOR_VALUE(compared, runEntered(t, compare(t, Py_EQ, item.get(), wanted)));
      STATOR_VALUE(verdict, truth(t, compared.get()));
      equal = verdict.get() == Py_True;
    }
    if (sawChange(watch))
      return t.breakWith(Reason::kUnsupportedIterator, "a deque changes while it is searched");
    if (equal) {
      found = i;
      return none();
    }
  }
  found = -1;
  return none();
}

Out sequenceIndex(Tracer& t, const Args& args) {
  if (args.keywordCount() != 0) return wrongArguments(t, "index");
  STATOR_VALUE(items, contents(t, args.values[0]));
  if (args.values.size() != 2) {
    if (!isNativeSafe(t, items.get()))
      return t.breakWith(Reason::kUnsupportedObject, "index() in a part of what is not plain");
    return onContents<false>(t, args, "index");
  }
  Py_ssize_t found = -1;
  STATOR_VALUE(ignored, findIndex(t, items.get(), args.values[1], 0, found));
  if (found >= 0) return stealRef(PyLong_FromSsize_t(found));
  if (PyTuple_Check(args.values[0]))
    return t.raiseNew(PyExc_ValueError, "tuple.index(x): x not in tuple");
  if (isDeque(args.values[0]) && isNativeSafe(t, args.values[1]))
    return t.raiseNew(PyExc_ValueError, "%R is not in deque", args.values[1]);
  if (!isNativeSafe(t, args.values[1]))
    return t.breakWith(Reason::kRaises, "a value that is not in the list");
  return t.raiseNew(PyExc_ValueError, "%R is not in list", args.values[1]);
}

Out sequenceCount(Tracer& t, const Args& args) {
  NEED(2, "count");
  STATOR_VALUE(items, contents(t, args.values[0]));
  Py_ssize_t count = 0, at = -1;
  for (;;) {
    STATOR_VALUE(ignored, findIndex(t, items.get(), args.values[1], at + 1, at));
    if (at < 0) return stealRef(PyLong_FromSsize_t(count));
    ++count;
  }
}

Out sequenceRemove(Tracer& t, const Args& args) {
  NEED(2, "remove");
  STATOR_VALUE(items, contents(t, args.values[0]));
  Py_ssize_t found = -1;
  STATOR_VALUE(ignored, findIndex(t, items.get(), args.values[1], 0, found));
  if (found < 0) {
    if (!isDeque(args.values[0]))
      return t.raiseNew(PyExc_ValueError, "list.remove(x): x not in list");
    if (!isNativeSafe(t, args.values[1]))
      return t.breakWith(Reason::kRaises, "a value that is not in the deque");
    return t.raiseNew(PyExc_ValueError, "%R is not in deque", args.values[1]);
  }
  STATOR_VALUE(target, contentsForWrite(t, args.values[0]));
  if (PyList_Check(target.get()))
    PyList_SetSlice(target.get(), found, found + 1, nullptr);
  else
    PySequence_DelItem(target.get(), found);
  return none();
}

Out dequeAppend(Tracer& t, const Args& args) {
  NEED(2, "append");
  return onContents<true>(t, args, "append", false);
}
Out dequeAppendLeft(Tracer& t, const Args& args) {
  NEED(2, "appendleft");
  return onContents<true>(t, args, "appendleft", false);
}
Out dequePopLeft(Tracer& t, const Args& args) { return onContents<true>(t, args, "popleft"); }
Out dequeRotate(Tracer& t, const Args& args) { return onContents<true>(t, args, "rotate"); }
Out dequeExtendBy(Tracer& t, const Args& args, const char* method, CallHandler append) {
  NEED(2, method);
  if (args.values[0] != args.values[1] && iterationRunsCode(args.values[1]))
    return putEach(t, args, append);
  STATOR_VALUE(items, listOf(t, args.values[1]));
  if (PyList_GET_SIZE(items.get()) == 0) return none();  // no change to its iterators
  Args fixed = args;
  fixed.values[1] = items.get();
  return onContents<true>(t, fixed, method, false);
}
Out dequeExtend(Tracer& t, const Args& args) {
  return dequeExtendBy(t, args, "extend", dequeAppend);
}
Out dequeExtendLeft(Tracer& t, const Args& args) {
  return dequeExtendBy(t, args, "extendleft", dequeAppendLeft);
}
// C's copy calls the class.
Out dequeCopy(Tracer& t, const Args& args) {
  NEED(1, "copy");
  if (Py_TYPE(args.values[0]) != dequeType())
    return t.breakWith(Reason::kCallsOutside, "copy of a subclass of deque");
  return onContents<false>(t, args, "copy");
}
Out dequeCall(Tracer& t, const Args& args) {
  Args fixed = args;
  Ref<> items;
  if (args.positional > 0) {
    STATOR_VALUE(list, listOf(t, args.values[0]));
    items = std::move(list);
    fixed.values[0] = items.get();
  }
  return t.fromNative(
      stealRef(PyObject_Vectorcall(reinterpret_cast<PyObject*>(dequeType()), fixed.values.data(),
                                   fixed.positional, fixed.names)));
}

Out strJoin(Tracer& t, const Args& args) {
  NEED(2, "join");
  STATOR_VALUE(items, listOrError(t, args.values[1], "can only join an iterable"));
  if (!isNativeSafe(t, items.get()))
    return t.breakWith(Reason::kUnsupportedObject, "join() of what are no strings");
  return t.fromNative(stealRef(PyUnicode_Join(args.values[0], items.get())));
}

}  // namespace

Out extendList(Tracer& tracer, PyObject* list, PyObject* iterable) {
  Args args;
  args.values = {list, iterable};
  args.positional = 2;
  return listExtend(tracer, args);
}

void registerContainers() {
  const std::pair<const char*, CallHandler> rows[] = {
      {"builtins.list.append", listAppend},
      {"builtins.list.extend", listExtend},
      {"builtins.list.insert", insert},
      {"builtins.list.pop", pop},
      {"builtins.list.clear", clearContents},
      {"builtins.list.reverse", reverse},
      {"builtins.list.copy", copyContents},
      {"builtins.list.index", sequenceIndex},
      {"builtins.list.count", sequenceCount},
      {"builtins.list.remove", sequenceRemove},
      {"builtins.tuple.index", sequenceIndex},
      {"builtins.tuple.count", sequenceCount},
      {"collections.deque.count", sequenceCount},
      {"collections.deque.extendleft", dequeExtendLeft},
      {"collections.deque.insert", insert},
      {"collections.deque.reverse", reverse},
      {"collections.deque.index", sequenceIndex},
      {"collections.deque.remove", sequenceRemove},
      {"builtins.str.join", strJoin},
      {"collections.deque", dequeCall},
      {"collections.deque.append", dequeAppend},
      {"collections.deque.appendleft", dequeAppendLeft},
      {"collections.deque.pop", pop},
      {"collections.deque.popleft", dequePopLeft},
      {"collections.deque.rotate", dequeRotate},
      {"collections.deque.extend", dequeExtend},
      {"collections.deque.clear", clearContents},
      {"collections.deque.copy", dequeCopy},
  };
  for (const auto& [path, handler] : rows) registerHandler(path, handler);
}

}  // namespace stator::interpret
