// Methods of the built-in containers. Those that only move references take any element; those that compare or hash want
// plain ones.
#include "interpret/library/containers.h"

#include "interpret/calls/calls.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/symbols.h"
#include "interpret/core/tables.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/library/rows.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/items.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/iteration_changes.h"
#include "interpret/objects/keys.h"
#include "interpret/objects/lookups.h"
#include "interpret/objects/next.h"
#include "interpret/objects/operators.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/truth.h"
#include "interpret/objects/updates.h"
#include "python/objects.h"
#include "python/types.h"
#include "python/version.h"
#include "symbolic/sym_int.h"
#include "values/dicts.h"

namespace stator::interpret {

namespace {

Ref<> none() { return newRef(Py_None); }

// ---- list
// ------------------------------------------------------------------------------------------------------------------------------

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

// Whether taking the items may run code of the program, which may look at the container that they are put into, or
// raise half way.
bool iterationRunsCode(PyObject* iterable) {
  if (isTraceIterator(iterable)) return true;
  if (graph::isStandIn(iterable) || values::isScalar(iterable)) return false;
  PyTypeObject* type = Py_TYPE(iterable);
  return type != &PyList_Type && type != &PyTuple_Type && type != &PyDict_Type &&
         type != &PySet_Type && type != &PyFrozenSet_Type && type != &PyRange_Type &&
         type != &PyUnicode_Type && type != &PyBytes_Type && type != dequeType() &&
         type != &PyODict_Type && !isDictView(iterable);
}

// The items one by one, each put into args[0] by `put` before the next is taken.
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

// A method of `kind` that moves references only: run natively on the contents.
template <bool writes>
Out onContents(Tracer& t, const Args& args, const char* method, bool plain_arguments = true) {
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
  PyTypeObject* base = Py_TYPE(target.get());
  while (stator_is_user_class(base)) base = base->tp_base;
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

Out listInsert(Tracer& t, const Args& args) {
  NEED(3, "insert");
  if (!isNativeSafe(t, args.values[1])) return wrongArguments(t, "insert");
  return onContents<true>(t, args, "insert", false);
}
Out listPop(Tracer& t, const Args& args) { return onContents<true>(t, args, "pop"); }
Out clear(Tracer& t, const Args& args) { return onContents<true>(t, args, "clear"); }
Out reverse(Tracer& t, const Args& args) { return onContents<true>(t, args, "reverse"); }
Out copy(Tracer& t, const Args& args) {
  NEED(1, "copy");
  if (PyDict_Check(args.values[0]) && !iteratesAsDict(t, args.values[0]))
    return callNested(t, torchObject("stator.polyfills.functions.asked_copy"), {args.values[0]});
  return onContents<false>(t, args, "copy");
}

// What the trace keeps of a dict from outside is a plain one, which knows neither the class nor the factory.
template <bool ordered>
Out classCopy(Tracer& t, const Args& args) {
  NEED(1, "copy");
  const char* path = ordered ? "stator.polyfills.functions.ordered_copy"
                             : "stator.polyfills.functions.defaultdict_copy";
  return callNested(t, torchObject(path), {args.values[0]});
}

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
    return t.raiseNew(PyExc_ValueError, isDeque(args.values[0]) ? "deque.remove(x): x not in deque"
                                                                : "list.remove(x): x not in list");
  }
  STATOR_VALUE(target, contentsForWrite(t, args.values[0]));
  if (PyList_Check(target.get()))
    PyList_SetSlice(target.get(), found, found + 1, nullptr);
  else
    PySequence_DelItem(target.get(), found);
  return none();
}

// ---- dict
// ------------------------------------------------------------------------------------------------------------------------------

// A method of a dict that hashes its first argument once, where that runs code of the program.
bool isOwnKeyed(Tracer& t, const Args& args) {
  if (PyODict_Check(args.values[0])) return false;
  return hasOwnKeys(t, args.values[1]) ? noteOwnKeys(t, args.values[1]) == Flow::kOk
                                       : t.own_keys.any() && hasOwnKeys(t, args.values[0]);
}

Out dictGetMethod(Tracer& t, const Args& args) {
  if (args.keywordCount() != 0 || args.positional < 2 || args.positional > 3)
    return wrongArguments(t, "get");
  STATOR_VALUE(found, dictGet(t, args.values[0], args.values[1]));
  if (found) return found;
  return newRef(args.positional == 3 ? args.values[2] : Py_None);
}

// OrderedDict's own methods go through those that a subclass has put over its access to items.
bool asksSubclass(Tracer& t, const Args& args) {
  if (args.values.empty() || Py_TYPE(args.values[0]) == &PyODict_Type ||
      !PyObject_TypeCheck(args.values[0], &PyODict_Type))
    return false;
  for (const char* method : {"__setitem__", "__getitem__", "__delitem__", "__contains__"}) {
    if (isUserOverride(t, args.values[0], method)) return true;
  }
  return false;
}

// The call with the value that a symbolic key has now.
Args withKnownKey(Tracer& t, const Args& args) {
  Args known = args;
  if (args.values.size() > 1 && symbolic::isSymbol(args.values[1]))
    known.values[1] = t.world.keep(concrete(t, args.values[1]));
  return known;
}

Out dictSetDefault(Tracer& t, const Args& given) {
  const Args args = withKnownKey(t, given);
  if (asksSubclass(t, args))
    return t.breakWith(Reason::kCallsOutside, "setdefault() of a subclass of OrderedDict");
  if (args.keywordCount() != 0 || args.positional < 2 || args.positional > 3)
    return wrongArguments(t, "setdefault");
  if (isOwnKeyed(t, args)) return onContents<true>(t, args, "setdefault", false);
  STATOR_VALUE(found, dictGet(t, args.values[0], args.values[1]));
  if (found) return found;
  Ref<> value = newRef(args.positional == 3 ? args.values[2] : Py_None);
  STATOR_VALUE(target, contentsForWrite(t, args.values[0]));
  if (!values::dictSet(target.get(), args.values[1], value.get())) return t.raiseCurrentError();
  return value;
}

Out dictPop(Tracer& t, const Args& given) {
  const Args args = withKnownKey(t, given);
  if (asksSubclass(t, args))
    return t.breakWith(Reason::kCallsOutside, "pop() of a subclass of OrderedDict");
  if (args.keywordCount() != 0 || args.positional < 2 || args.positional > 3)
    return wrongArguments(t, "pop");
  if (isOwnKeyed(t, args)) return onContents<true>(t, args, "pop", false);
  STATOR_VALUE(found, dictGet(t, args.values[0], args.values[1]));
  if (!found) {
    if (args.positional == 3) return newRef(args.values[2]);
    PyErr_SetObject(PyExc_KeyError, args.values[1]);
    return t.raiseCurrentError();
  }
  STATOR_FLOW(delItemBase(t, args.values[0], args.values[1]));
  return found;
}

Out dictPopItem(Tracer& t, const Args& args) {
  if (args.positional > 0 && PyDict_Check(args.values[0]) &&
      reinterpret_cast<StatorDict*>(args.values[0])->values != nullptr) {
    // Keys shared by instances of a class: popitem() gives it a table of its own, which sys.getsizeof() shows.
    return t.breakWith(Reason::kUnsupportedMutation, "popitem() of an object's __dict__");
  }
  return onContents<true>(t, args, "popitem");
}

// dict's own, which has no `last`, whatever kind of dict it is given.
Out plainPopItem(Tracer& t, const Args& args) {
  if (args.values.size() != 1) return wrongArguments(t, "popitem");
  return dictPopItem(t, args);
}
Out dictKeys(Tracer& t, const Args& args) { return onContents<false>(t, args, "keys"); }
Out dictValues(Tracer& t, const Args& args) { return onContents<false>(t, args, "values"); }
Out dictItems(Tracer& t, const Args& args) { return onContents<false>(t, args, "items"); }

Out dictUpdateMethod(Tracer& t, const Args& args) {
  if (args.positional == 0) return wrongArguments(t, "update");
  STATOR_FLOW(dictUpdate(t, args.values[0], args.withoutFirst()));
  return none();
}

// Unlike a dict's, it goes through a subclass's __setitem__.
Out orderedDictUpdate(Tracer& t, const Args& args) {
  if (args.positional > 0 && isUserOverride(t, args.values[0], "__setitem__"))
    return callNested(t, torchObject("stator.polyfills.functions.ordered_update"), args);
  return dictUpdateMethod(t, args);
}

Out dictFromKeys(Tracer& t, const Args& args) {
  PyObject* named = args.keyword("value");  // OrderedDict's takes it by name too
  if (args.values.size() < 2 || args.values.size() > 3 ||
      args.keywordCount() != (named != nullptr ? 1 : 0) || !PyType_Check(args.values[0])) {
    return wrongArguments(t, "fromkeys");
  }
  PyObject* value = args.values.size() == 3 ? args.values[2] : Py_None;
  bool plain = args.values[0] == reinterpret_cast<PyObject*>(&PyDict_Type);
  PyObject* from = args.values[1];
  if (plain && t.own_keys.any() && !graph::isStandIn(from) &&
      (PyAnySet_CheckExact(from) || PyDict_CheckExact(from))) {
    // Under the hashes that they stand under there.
    STATOR_VALUE(items, contents(t, from));
    STATOR_VALUE(filled, withOwnKeys(t, nullptr, [&](PyObject*) {
                   return PyObject_CallMethod(args.values[0], "fromkeys", "OO", items.get(), value);
                 }));
    return filled;
  }
  STATOR_VALUE(keys, listOf(t, args.values[1]));
  // Of a class: its own constructor, and then item by item.
  STATOR_VALUE(dict, plain ? Out(stealRef(PyDict_New())) : callNested(t, args.values[0], {}));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.get()); ++i) {
    STATOR_FLOW(
        runEntered(t, setItem(t, dict.get(), PyList_GET_ITEM(keys.get(), i), value)).flow());
  }
  return dict;
}

// ---- set
// -------------------------------------------------------------------------------------------------------------------------------

// An element is about the number that a size is.
template <bool writes>
Out withElement(Tracer& t, const Args& args, const char* method) {
  NEED(2, method);
  Args plain = args;
  if (symbolic::isSymbol(args.values[1]))
    plain.values[1] = t.world.keep(concrete(t, args.values[1]));
  STATOR_FLOW(requireHashable(t, plain.values[1]));
  return onContents<writes>(t, plain, method, false);
}
Out setAdd(Tracer& t, const Args& args) { return withElement<true>(t, args, "add"); }
Out setDiscard(Tracer& t, const Args& args) { return withElement<true>(t, args, "discard"); }
Out setRemove(Tracer& t, const Args& args) { return withElement<true>(t, args, "remove"); }
Out setPop(Tracer& t, const Args& args) { return onContents<true>(t, args, "pop"); }

// Of a set C takes the elements, whatever a subclass has for __iter__.
bool isSet(PyObject* value) { return !graph::isStandIn(value) && PyAnySet_Check(value); }

// union, intersection, ... with any iterables of hashable things.
template <bool writes>
Out setOperation(Tracer& t, const Args& args, const char* method) {
  if (args.positional == 0 || args.keywordCount() != 0) return wrongArguments(t, method);
  Args lists;
  std::vector<Ref<>> keep;
  lists.values.push_back(args.values[0]);
  for (size_t i = 1; i < args.positional; ++i) {
    STATOR_VALUE(operand, setOperand(t, args.values[i]));
    lists.values.push_back(operand.get());
    keep.push_back(std::move(operand));
  }
  lists.positional = lists.values.size();
  return onContents<writes>(t, lists, method, false);
}
#define SET_OPERATION(name, writes, method) \
  Out name(Tracer& t, const Args& args) { return setOperation<writes>(t, args, method); }
SET_OPERATION(setUnion, false, "union")
SET_OPERATION(setIntersection, false, "intersection")
SET_OPERATION(setDifference, false, "difference")
SET_OPERATION(setSymmetric, false, "symmetric_difference")
SET_OPERATION(setIsSubset, false, "issubset")
// These two take an item, look, and stop at the first that decides. isdisjoint asks a set's subclass for its own
// iterator.
template <bool of_subclass>
Out setOneByOne(Tracer& t, const Args& args, const char* method, const char* traced) {
  if (args.positional == 2 && args.keywordCount() == 0 && iterationRunsCode(args.values[1]) &&
      (of_subclass || !isSet(args.values[1])))
    return callNested(t, torchObject(traced), args);
  return setOperation<false>(t, args, method);
}
Out setIsSuperset(Tracer& t, const Args& args) {
  return setOneByOne<false>(t, args, "issuperset", "stator.polyfills.functions.set_issuperset");
}
Out setIsDisjoint(Tracer& t, const Args& args) {
  return setOneByOne<true>(t, args, "isdisjoint", "stator.polyfills.functions.set_isdisjoint");
}
Out setUpdate(Tracer& t, const Args& args) {
  if (args.positional == 2 && args.keywordCount() == 0 && iterationRunsCode(args.values[1]) &&
      !isSet(args.values[1]))
    return putEach(t, args, setAdd);
  return setOperation<true>(t, args, "update");
}
SET_OPERATION(setIntersectionUpdate, true, "intersection_update")
SET_OPERATION(setDifferenceUpdate, true, "difference_update")
SET_OPERATION(setSymmetricUpdate, true, "symmetric_difference_update")

// ---- deque
// -----------------------------------------------------------------------------------------------------------------------------

Out dequeAppend(Tracer& t, const Args& args) {
  NEED(2, "append");
  return onContents<true>(t, args, "append", false);
}
Out dequeAppendLeft(Tracer& t, const Args& args) {
  NEED(2, "appendleft");
  return onContents<true>(t, args, "appendleft", false);
}
Out dequePop(Tracer& t, const Args& args) { return onContents<true>(t, args, "pop"); }
Out dequePopLeft(Tracer& t, const Args& args) { return onContents<true>(t, args, "popleft"); }
Out dequeRotate(Tracer& t, const Args& args) { return onContents<true>(t, args, "rotate"); }
Out dequeExtend(Tracer& t, const Args& args) {
  NEED(2, "extend");
  if (args.values[0] != args.values[1] && iterationRunsCode(args.values[1]))
    return putEach(t, args, dequeAppend);
  STATOR_VALUE(items, listOf(t, args.values[1]));
  if (PyList_GET_SIZE(items.get()) == 0) return none();  // no change to its iterators
  Args fixed = args;
  fixed.values[1] = items.get();
  return onContents<true>(t, fixed, "extend", false);
}
Out dequeExtendLeft(Tracer& t, const Args& args) {
  NEED(2, "extendleft");
  if (args.values[0] != args.values[1] && iterationRunsCode(args.values[1]))
    return putEach(t, args, dequeAppendLeft);
  STATOR_VALUE(items, listOf(t, args.values[1]));
  if (PyList_GET_SIZE(items.get()) == 0) return none();  // no change to its iterators
  Args fixed = args;
  fixed.values[1] = items.get();
  return onContents<true>(t, fixed, "extendleft", false);
}
// C's copy calls the class.
Out dequeCopy(Tracer& t, const Args& args) {
  NEED(1, "copy");
  if (Py_TYPE(args.values[0]) != dequeType())
    return t.breakWith(Reason::kCallsOutside, "copy of a subclass of deque");
  return onContents<false>(t, args, "copy");
}
Out dequeInsert(Tracer& t, const Args& args) {
  NEED(3, "insert");
  if (!isNativeSafe(t, args.values[1])) return wrongArguments(t, "insert");
  return onContents<true>(t, args, "insert", false);
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

Out orderedDictCall(Tracer& t, const Args& args) {
  Ref<> dict = stealRef(PyODict_New());
  STATOR_FLOW(dictUpdate(t, dict.get(), args));
  return dict;
}
Out defaultDictCall(Tracer& t, const Args& args) {
  PyObject* factory = args.positional > 0 ? args.values[0] : Py_None;
  Ref<> dict =
      stealRef(PyObject_CallOneArg(reinterpret_cast<PyObject*>(defaultDictType()), factory));
  if (!dict) return t.raiseCurrentError();
  if (args.positional > 0) STATOR_FLOW(dictUpdate(t, dict.get(), args.withoutFirst()));
  return dict;
}
Out moveToEnd(Tracer& t, const Args& args) { return onContents<true>(t, args, "move_to_end"); }

// ---- str
// -------------------------------------------------------------------------------------------------------------------------------

Out strJoin(Tracer& t, const Args& args) {
  NEED(2, "join");
  PyObject* given = args.values[1];
  if (!graph::isStandIn(given) && !isTraceIterator(given) && Py_TYPE(given)->tp_iter == nullptr &&
      PySequence_Check(given) == 0)
    return t.raiseNew(PyExc_TypeError, "can only join an iterable");
  STATOR_VALUE(items, listOf(t, args.values[1]));
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
      {"builtins.list.insert", listInsert},
      {"builtins.list.pop", listPop},
      {"builtins.list.clear", clear},
      {"builtins.list.reverse", reverse},
      {"builtins.list.copy", copy},
      {"builtins.list.index", sequenceIndex},
      {"builtins.list.count", sequenceCount},
      {"builtins.list.remove", sequenceRemove},
      {"builtins.tuple.index", sequenceIndex},
      {"builtins.tuple.count", sequenceCount},
      {"builtins.dict.get", dictGetMethod},
      {"builtins.dict.setdefault", dictSetDefault},
      {"builtins.dict.pop", dictPop},
      {"builtins.dict.popitem", plainPopItem},
      {"builtins.dict.keys", dictKeys},
      {"builtins.dict.values", dictValues},
      {"builtins.dict.items", dictItems},
      {"builtins.dict.fromkeys", dictFromKeys},
      {"collections.OrderedDict.fromkeys", dictFromKeys},
      {"builtins.dict.update", dictUpdateMethod},
      {"builtins.dict.clear", clear},
      {"builtins.dict.copy", copy},
      {"collections.OrderedDict.keys", dictKeys},
      {"collections.OrderedDict.values", dictValues},
      {"collections.OrderedDict.items", dictItems},
      {"collections.OrderedDict.pop", dictPop},
      {"collections.OrderedDict.popitem", dictPopItem},
      {"collections.OrderedDict.update", orderedDictUpdate},
      {"collections.OrderedDict.setdefault", dictSetDefault},
      {"collections.OrderedDict.clear", clear},
      {"collections.OrderedDict.copy", classCopy<true>},
      {"collections.OrderedDict.move_to_end", moveToEnd},
      {"collections.defaultdict.copy", classCopy<false>},
      {"collections.defaultdict.__copy__", classCopy<false>},
      {"builtins.set.add", setAdd},
      {"builtins.set.discard", setDiscard},
      {"builtins.set.remove", setRemove},
      {"builtins.set.pop", setPop},
      {"builtins.set.clear", clear},
      {"builtins.set.copy", copy},
      {"builtins.set.union", setUnion},
      {"builtins.set.intersection", setIntersection},
      {"builtins.set.difference", setDifference},
      {"builtins.set.symmetric_difference", setSymmetric},
      {"builtins.set.issubset", setIsSubset},
      {"builtins.set.issuperset", setIsSuperset},
      {"builtins.set.isdisjoint", setIsDisjoint},
      {"builtins.set.update", setUpdate},
      {"builtins.set.intersection_update", setIntersectionUpdate},
      {"builtins.set.difference_update", setDifferenceUpdate},
      {"builtins.set.symmetric_difference_update", setSymmetricUpdate},
      {"builtins.frozenset.isdisjoint", setIsDisjoint},
      {"builtins.frozenset.symmetric_difference", setSymmetric},
      {"builtins.frozenset.copy", copy},
      {"collections.deque.count", sequenceCount},
      {"collections.deque.extendleft", dequeExtendLeft},
      {"collections.deque.insert", dequeInsert},
      {"collections.deque.reverse", reverse},
      {"collections.deque.index", sequenceIndex},
      {"collections.deque.remove", sequenceRemove},
      {"builtins.frozenset.union", setUnion},
      {"builtins.frozenset.intersection", setIntersection},
      {"builtins.frozenset.difference", setDifference},
      {"builtins.frozenset.issubset", setIsSubset},
      {"builtins.frozenset.issuperset", setIsSuperset},
      {"builtins.str.join", strJoin},
      {"collections.deque", dequeCall},
      {"collections.deque.append", dequeAppend},
      {"collections.deque.appendleft", dequeAppendLeft},
      {"collections.deque.pop", dequePop},
      {"collections.deque.popleft", dequePopLeft},
      {"collections.deque.rotate", dequeRotate},
      {"collections.deque.extend", dequeExtend},
      {"collections.deque.clear", clear},
      {"collections.deque.copy", dequeCopy},
      {"collections.OrderedDict", orderedDictCall},
      {"collections.defaultdict", defaultDictCall},
  };
  for (const auto& [path, handler] : rows) registerHandler(path, handler);
}

}  // namespace stator::interpret
