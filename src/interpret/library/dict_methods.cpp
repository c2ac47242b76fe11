// Methods of dicts, OrderedDict and defaultdict.
#include "interpret/calls/calls.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/symbols.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/library/containers.h"
#include "interpret/library/rows.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/items.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/keys.h"
#include "interpret/objects/lookups.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/updates.h"
#include "python/objects.h"
#include "symbolic/sym_int.h"
#include "values/dicts.h"

namespace stator::interpret {

namespace {

// What the trace keeps of a dict from outside is a plain one, which knows neither the class nor the factory.
template <bool ordered>
Out classCopy(Tracer& t, const Args& args) {
  NEED(1, "copy");
  const char* path = ordered ? "stator.polyfills.functions.ordered_copy"
                             : "stator.polyfills.functions.defaultdict_copy";
  return callNested(t, torchObject(path), {args.values[0]});
}

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
    return missingKey(t, args.values[1]);
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
  return newRef(Py_None);
}

// Unlike a dict's, it goes through a subclass's __setitem__.
Out orderedDictUpdate(Tracer& t, const Args& args) {
  if (args.positional > 0 && isUserOverride(t, args.values[0], "__setitem__"))
    return callNested(t, torchObject("stator.polyfills.functions.ordered_update"), args);
  return dictUpdateMethod(t, args);
}

Out dictFromKeys(Tracer& t, const Args& args) {
  PyObject* named = args.keyword("value");  // OrderedDict's takes it by name too
  if (args.positional < 2 || args.values.size() > 3 ||
      args.keywordCount() != (named != nullptr ? 1 : 0) || !PyType_Check(args.values[0]) ||
      (named != nullptr && args.values[0] == reinterpret_cast<PyObject*>(&PyDict_Type))) {
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

}  // namespace

void registerDictMethods() {
  const std::pair<const char*, CallHandler> rows[] = {
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
      {"builtins.dict.clear", clearContents},
      {"builtins.dict.copy", copyContents},
      {"collections.OrderedDict.keys", dictKeys},
      {"collections.OrderedDict.values", dictValues},
      {"collections.OrderedDict.items", dictItems},
      {"collections.OrderedDict.pop", dictPop},
      {"collections.OrderedDict.popitem", dictPopItem},
      {"collections.OrderedDict.update", orderedDictUpdate},
      {"collections.OrderedDict.setdefault", dictSetDefault},
      {"collections.OrderedDict.clear", clearContents},
      {"collections.OrderedDict.copy", classCopy<true>},
      {"collections.OrderedDict.move_to_end", moveToEnd},
      {"collections.defaultdict.copy", classCopy<false>},
      {"collections.defaultdict.__copy__", classCopy<false>},
      {"collections.OrderedDict", orderedDictCall},
      {"collections.defaultdict", defaultDictCall},
  };
  for (const auto& [path, handler] : rows) registerHandler(path, handler);
}

}  // namespace stator::interpret
