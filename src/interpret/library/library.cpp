// Functions of the standard library that are written in C.
#include "base/rebuilt.h"
#include "base/stack_room.h"
#include "base/text.h"
#include "interpret/calls/calls.h"
#include "interpret/calls/instances.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/library/rows.h"
#include "interpret/objects/attribute_writes.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/lookups.h"
#include "interpret/objects/native_calls.h"
#include "interpret/objects/scalars.h"
#include "interpret/objects/subclass_checks.h"
#include "interpret/objects/truth.h"
#include "python/types.h"
#include "sources/short_lived.h"
#include "symbolic/sym_int.h"

#include <algorithm>

namespace stator::interpret {

namespace {

// operator.itemgetter, attrgetter, methodcaller only keep references.
Out makeGetter(Tracer& t, const Args& args, PyTypeObject* type) {
  for (PyObject* value : args.values) {
    if (type != itemGetterType() && type != methodCallerType() && !PyUnicode_CheckExact(value))
      return t.breakWith(Reason::kRaises, type->tp_name);
  }
  if (type == methodCallerType() && (args.positional == 0 || !PyUnicode_CheckExact(args.values[0])))
    return t.breakWith(Reason::kRaises, type->tp_name);
  return fromNativeMade(
      t, stealRef(PyObject_Vectorcall(reinterpret_cast<PyObject*>(type), args.values.data(),
                                      args.positional, args.names)));
}
Out itemGetter(Tracer& t, const Args& args) { return makeGetter(t, args, itemGetterType()); }
Out attrGetter(Tracer& t, const Args& args) { return makeGetter(t, args, attrGetterType()); }
Out methodCaller(Tracer& t, const Args& args) { return makeGetter(t, args, methodCallerType()); }

// A function of C that changes the list it is given by comparing its (plain) elements.
Out onPlainList(Tracer& t, const Args& args, const char* path) {
  if (args.positional == 0 || !PyList_CheckExact(args.values[0]))
    return t.breakWith(Reason::kCallsOutside, path);
  STATOR_VALUE(items, contents(t, args.values[0]));
  if (!isNativeSafe(t, items.get()))
    return t.breakWith(Reason::kUnsupportedObject,
                       std::string(path) + "() of a list that is not plain");
  for (size_t i = 1; i < args.values.size(); ++i) {
    if (!isNativeSafe(t, args.values[i]))
      return t.breakWith(Reason::kUnsupportedObject,
                         std::string(path) + "() of a value that is not plain");
  }
  STATOR_VALUE(target, contentsForWrite(t, args.values[0]));
  Args replaced = args;
  replaced.values[0] = target.get();
  return callNative(t, torchObject(path), replaced);
}
#define ON_PLAIN_LIST(name, path) \
  Out name(Tracer& t, const Args& args) { return onPlainList(t, args, path); }
ON_PLAIN_LIST(heapify, "heapq.heapify")
ON_PLAIN_LIST(heappush, "heapq.heappush")
ON_PLAIN_LIST(heappop, "heapq.heappop")
ON_PLAIN_LIST(heapreplace, "heapq.heapreplace")
ON_PLAIN_LIST(heappushpop, "heapq.heappushpop")

// Among symbolic numbers each comparison is a guard of its own.
Out bisect(Tracer& t, const Args& args, const char* path, const char* polyfill) {
  const bool symbols = std::any_of(args.values.begin(), args.values.end(),
                                   [](PyObject* value) { return symbolic::isSymbol(value); });
  return symbols ? callNested(t, torchObject(polyfill), args)
                 : callNative(t, torchObject(path), args);
}
Out bisectLeft(Tracer& t, const Args& args) {
  return bisect(t, args, "bisect.bisect_left", "stator.polyfills.functions.bisect_left");
}
Out bisectRight(Tracer& t, const Args& args) {
  return bisect(t, args, "bisect.bisect_right", "stator.polyfills.functions.bisect_right");
}

ON_PLAIN_LIST(insortLeft, "bisect.insort_left")
ON_PLAIN_LIST(insortRight, "bisect.insort_right")

// json: pure unless somebody's own encoder or hooks are asked.
Out json(Tracer& t, const Args& args, const char* path) {
  for (const char* hook : {"cls", "default", "object_hook", "object_pairs_hook", "parse_float",
                           "parse_int", "parse_constant"}) {
    if (args.keyword(hook) != nullptr && args.keyword(hook) != Py_None)
      return t.breakWith(Reason::kCallsOutside, path);
  }
  return callNative(t, torchObject(path), args);
}
Out jsonDumps(Tracer& t, const Args& args) { return json(t, args, "json.dumps"); }
Out jsonLoads(Tracer& t, const Args& args) { return json(t, args, "json.loads"); }

// A module that is imported already; ok with null: it is not.
Out loadedModule(Tracer& t, PyObject* name) {
  PyObject* modules = PyImport_GetModuleDict();
  if (t.values.find(modules) == nullptr)
    t.values.addOutside(modules, t.world.sources().pinned(modules));
  return dictGet(t, modules, name);
}

// importlib.import_module(name) and __import__(name), of a whole name; the latter gives the package that the name
// begins with.
template <bool outermost>
Out importByName(Tracer& t, const Args& args) {
  if (args.values.size() != 1 || args.positional != 1 || !PyUnicode_CheckExact(args.values[0]) ||
      PyUnicode_GET_LENGTH(args.values[0]) == 0)
    return t.breakWith(Reason::kCallsOutside, "an import");
  const char* utf8 = utf8OrNull(args.values[0]);
  if (utf8 == nullptr) return t.breakWith(Reason::kCallsOutside, "an import");
  const std::string text = utf8;
  if (text[0] == '.') return t.breakWith(Reason::kCallsOutside, "a relative import");
  STATOR_VALUE(module, loadedModule(t, args.values[0]));
  if (module && outermost) {
    Ref<> first = stealRef(PyUnicode_FromString(text.substr(0, text.find('.')).c_str()));
    STATOR_VALUE(package, loadedModule(t, first.get()));
    module = std::move(package);
  }
  // None stands where an import is to fail.
  if (!module || module.get() == Py_None) return t.breakWith(Reason::kCallsOutside, "an import");
  return module;
}

// warnings._filters_mutated(): a counter goes up, which the plan sees to.
Out filtersMutated(Tracer& t, const Args& args) {
  NEED(0, "_filters_mutated");
  t.effects.callLate({torchObject("warnings._filters_mutated"), {}});
  return newRef(Py_None);
}

// types.SimpleNamespace(**attributes)
// collections.namedtuple(...): a new class, which does not outlive the captured part.
Out namedTuple(Tracer& t, const Args& args) {
  STATOR_VALUE(type, callNative(t, torchObject("collections.namedtuple"), args));
  return t.made(type);
}

// operator.length_hint(object, default)
Out lengthHint(Tracer& t, const Args& args) {
  if (args.values.empty() || args.values.size() > 2 || args.keywordCount() != 0)
    return t.breakWith(Reason::kRaises, "length_hint");
  if (args.values.size() == 2 && !PyLong_Check(args.values[1]))
    return t.breakWith(Reason::kRaises, "length_hint");
  static PyObject* const name = PyUnicode_InternFromString("__len__");
  STATOR_VALUE(has_length, typeLookup(t, typeOf(t, args.values[0]), name));
  if (!has_length) return t.breakWith(Reason::kCallsOutside, "length_hint of what has no length");
  return length(t, args.values[0]);
}

Out simpleNamespace(Tracer& t, const Args& args) {
  if (args.positional != 0) return t.breakWith(Reason::kRaises, "SimpleNamespace");
  auto* type = reinterpret_cast<PyTypeObject*>(torchObject("types.SimpleNamespace"));
  Ref<> empty = stealRef(PyTuple_New(0));
  STATOR_VALUE(made, fromNativeMade(t, stealRef(type->tp_new(type, empty.get(), nullptr))));
  for (size_t i = 0; i < args.keywordCount(); ++i)
    STATOR_FLOW(storeInstanceAttr(t, made.get(), args.name(i), args.values[i]));
  return made;
}

}  // namespace

namespace {

// The class and its bases stay as they are.
void needVersion(Tracer& t, PyTypeObject* type) {
  auto* object = reinterpret_cast<PyObject*>(type);
  if (stator_is_user_class(type))
    t.world.guard(
        Guard{GuardKind::kTypeVersion, t.world.sources().pinned(object), nullptr, newRef(object)});
}

// What abc says of classes holds as long as these and all registrations stay as they are.
Flow needClasses(Tracer& t, std::initializer_list<PyTypeObject*> types) {
  for (PyTypeObject* type : types) {
    if (isMadeClass(t, reinterpret_cast<PyObject*>(type)))
      return t.breakWith(Reason::kCallsOutside, "abc, about a class of the trace's own");
    needVersion(t, type);
  }
  Ref<> token = stealRef(PyObject_CallNoArgs(torchObject("_abc.get_cache_token")));
  if (!token) return t.raiseCurrentError();
  t.world.guard(Guard{GuardKind::kAbcToken, nullptr, nullptr, token});
  return Flow::kOk;
}

// A protocol's last word on an object that lacks some of its members: registrations, and what typing's own hook says of
// the class. It looks at the frames of abc that call it, so that it is asked through them.
Out protocolCheck(Tracer& t, PyTypeObject* protocol, PyObject* object) {
  static PyObject* runtime = PyUnicode_InternFromString("_is_runtime_protocol");
  STATOR_VALUE(checkable, typeLookup(t, protocol, runtime));
  if (checkable.get() != Py_True || graph::isStandIn(object) ||
      typeOf(t, object) != Py_TYPE(object))
    return t.breakWith(Reason::kCallsOutside,
                       "a protocol's check, which looks at the frames that call it");
  STATOR_FLOW(needClasses(t, {protocol, Py_TYPE(object)}));
  PyObject* check = torchObject("abc.ABCMeta.__instancecheck__");
  return t.fromNative(stealRef(
      PyObject_CallFunctionObjArgs(check, reinterpret_cast<PyObject*>(protocol), object, nullptr)));
}

// What ABCMeta's __instancecheck__ comes down to: the class of the object, by the registrations that are guarded.
Out abcInstanceCheck(Tracer& t, const Args& args) {
  if (args.values.size() != 2) return t.breakWith(Reason::kRaises, "_abc_instancecheck");
  static PyObject* protocol = PyUnicode_InternFromString("_is_protocol");
  if (!PyType_Check(args.values[0])) return t.breakWith(Reason::kRaises, "_abc_instancecheck");
  auto* type = reinterpret_cast<PyTypeObject*>(args.values[0]);
  if (_PyType_Lookup(type, protocol) != nullptr) return protocolCheck(t, type, args.values[1]);
  return isSubclass(t, reinterpret_cast<PyObject*>(typeOf(t, args.values[1])), args.values[0]);
}

// What ABCMeta's __subclasscheck__ comes down to, where a metaclass has one of its own before it (protocols, 3.12 on).
Out abcSubclassCheck(Tracer& t, const Args& args) {
  if (args.values.size() != 2 || !PyType_Check(args.values[0]) || !PyType_Check(args.values[1]))
    return t.breakWith(Reason::kRaises, "_abc_subclasscheck");
  STATOR_FLOW(needClasses(t, {reinterpret_cast<PyTypeObject*>(args.values[0]),
                              reinterpret_cast<PyTypeObject*>(args.values[1])}));
  return t.fromNative(stealRef(PyObject_CallFunctionObjArgs(
      torchObject("_abc._abc_subclasscheck"), args.values[0], args.values[1], nullptr)));
}

// The module of a function that is under way, so many calls up from the one that asks.
Out moduleUp(Tracer& t, const Args& args, Py_ssize_t depth) {
  if (args.values.size() == 1 && args.positional == 1 && PyLong_CheckExact(args.values[0]))
    depth = PyLong_AsSsize_t(args.values[0]);
  else if (!args.values.empty())
    depth = -1;
  PyErr_Clear();
  if (depth < 0 || depth >= static_cast<Py_ssize_t>(t.frames.size()))
    return t.breakWith(Reason::kCallsOutside, "sys._getframemodulename");
  const size_t last = t.frames.size() - 1;
  for (size_t i = 0; i <= static_cast<size_t>(depth); ++i) {
    if (known::isPolyfill(t.frames.at(last - i).code->code()))
      return t.breakWith(Reason::kCallsOutside, "sys._getframemodulename");
  }
  Ref<> function = t.frames.at(last - static_cast<size_t>(depth)).function;
  if (!function) {
    STATOR_VALUE(driven, fromOutside(t, t.world.roots().function,
                                     t.world.root(sources::SourceKind::kFunction)));
    function = std::move(driven);
  }
  static PyObject* const module = PyUnicode_InternFromString("__module__");
  return runEntered(t, getAttr(t, function.get(), module));
}

Out frameModuleName(Tracer& t, const Args& args) { return moduleUp(t, args, 0); }  // 3.12 on
Out callersModule(Tracer& t, const Args& args) { return moduleUp(t, args, 1); }

// What a description of types is made of: types, other such descriptions, plain values; tuples and lists of them,
// copied, so that typing does not keep the trace's. Null: something else.
Ref<> typePart(Tracer& t, PyObject* value) {
  needStack();
  if (graph::isStandIn(value) || isTraceIterator(value)) return Ref<>();
  if (PyTuple_CheckExact(value) || PyList_CheckExact(value))
    return rebuilt(value, [&](PyObject* part) { return typePart(t, part); });
  const bool fits = values::isScalar(value) || (isStaticKey(value) && !isMadeClass(t, value));
  return fits ? newRef(value) : Ref<>();
}

// `Dict[str, int]`: what typing keeps for it, or makes of it. Nobody changes these objects.
Out typingSubscript(Tracer& t, PyObject* function, const Args& args) {
  std::vector<Ref<>> keep;
  std::vector<PyObject*> given;
  for (PyObject* value : args.values) {
    Ref<> part = typePart(t, value);
    if (!part) {
      STATOR_VALUE(inside, plain(t, value));
      // Not what a subclass of int or str is worth: typing asks for types.
      const bool of_a_kind = PyLong_Check(value) || PyUnicode_Check(value) || PyBytes_Check(value);
      if (!of_a_kind) part = typePart(t, inside.get());
    }
    if (!part) return t.breakWith(Reason::kCallsOutside, "a subscript of typing's");
    given.push_back(part.get());
    keep.push_back(std::move(part));
  }
  Ref<> result = stealRef(PyObject_Vectorcall(function, given.data(), args.positional, args.names));
  if (!result) return t.raiseCurrentError();
  return fromOutside(t, result.get(), t.world.sources().pinned(result.get()));
}

// Functions of `re` over constants. With re.DEBUG they print what they compile.
constexpr const char* kRegex[] = {"re.compile", "re.match", "re.fullmatch", "re.search",
                                  "re.sub",     "re.subn",  "re.split",     "re.findall"};

template <size_t index>
Out regexCall(Tracer& t, const Args& args) {
  static PyObject* const debug = torchObject("re.DEBUG");
  for (PyObject* value : args.values) {
    if (!PyLong_Check(value)) continue;
    Ref<> shows = stealRef(PyNumber_And(value, debug));
    if (!shows) return t.raiseCurrentError();
    if (PyObject_IsTrue(shows.get()) == 1) return t.breakWith(Reason::kCallsOutside, kRegex[index]);
  }
  // C reads the letters, whatever the class of a text says about other things.
  Args exact = args;
  for (PyObject*& value : exact.values) {
    if (!PyUnicode_Check(value) || PyUnicode_CheckExact(value)) continue;
    STATOR_VALUE(letters, exactScalar(t, value));
    if (letters) value = t.world.keep(letters);
  }
  return callNative(t, torchObject(kRegex[index]), exact);
}

template <size_t... index>
void registerRegex(std::index_sequence<index...>) {
  (registerHandler(kRegex[index], regexCall<index>), ...);
}

// Looked for at once. An iterator over what may change sees the changes, and keeps it from being resized.
Out matchesIn(Tracer& t, const Args& args) {
  if (args.values.size() != 2 ||
      !(PyUnicode_Check(args.values[1]) || PyBytes_Check(args.values[1])))
    return t.breakWith(Reason::kCallsOutside, "finditer");
  return callNative(t, torchObject("stator.polyfills.functions.matches"), args);
}

// functools.singledispatch's `dispatch`: the implementation that its registry has for a class, which it then keeps in a
// cache of its own.
Out dispatch(Tracer& t, PyObject* function, const Args& args) {
  if (args.values.size() != 1 || !PyType_Check(args.values[0]))
    return t.breakWith(Reason::kRaises, "dispatch");
  STATOR_VALUE(registry, fromClosure(t, function, "registry"));
  STATOR_VALUE(entries, contents(t, registry.get()));
  Ref<> token = stealRef(PyObject_CallNoArgs(torchObject("_abc.get_cache_token")));
  if (token) t.world.guard(Guard{GuardKind::kAbcToken, nullptr, nullptr, token});
  PyErr_Clear();
  STATOR_VALUE(cache, fromClosure(t, function, "dispatch_cache"));
  if (reinterpret_cast<PyObject*>(Py_TYPE(cache.get())) != torchObject("weakref.WeakKeyDictionary"))
    return t.breakWith(Reason::kCallsOutside, "dispatch, with a cache of its own kind");
  STATOR_VALUE(cached_for, fromClosure(t, function, "cache_token"));
  if (cached_for.get() != Py_None &&
      (!token || PyObject_RichCompareBool(cached_for.get(), token.get(), Py_EQ) != 1)) {
    return t.breakWith(Reason::kCallsOutside, "dispatch, whose cache is out of date");
  }
  Ref<> found = Ref<>::create(PyDict_GetItemWithError(entries.get(), args.values[0]));
  if (!found)
    found = stealRef(PyObject_CallFunctionObjArgs(torchObject("functools._find_impl"),
                                                  args.values[0], entries.get(), nullptr));
  if (!found) return t.raiseCurrentError();
  t.effects.callLate({torchObject("weakref.WeakKeyDictionary.__setitem__"),
                      {cache, newRef(args.values[0]), found},
                      true});
  return found;
}

// The guard against endless recursion that dataclasses and reprlib put around __repr__.
template <bool of_reprlib>
Out recursiveRepr(Tracer& t, PyObject* function, const Args& args) {
  static std::vector<PyObject*> under_way;
  STATOR_VALUE(wrapped, fromClosure(t, function, "user_function"));
  if (args.values.size() != 1) return t.breakWith(Reason::kRaises, "__repr__() takes no arguments");
  if (std::find(under_way.begin(), under_way.end(), args.values[0]) != under_way.end()) {
    if (of_reprlib) return fromClosure(t, function, "fillvalue");
    return t.fromNative(stealRef(PyUnicode_FromString("...")));
  }
  under_way.push_back(args.values[0]);
  Out text = callNested(t, wrapped.get(), args);
  under_way.pop_back();
  return text;
}

// inspect's question whether a class hides the dict of its instances. From 3.12 on it keeps the answers, by mro or weak
// references to it.
Out shadowedDict(Tracer& t, const Args& args) {
  if (args.values.size() != 1 || !PyType_Check(args.values[0]))
    return t.breakWith(Reason::kRaises, "_shadowed_dict");
  if (!isMadeClass(t, args.values[0]))
    needVersion(t, reinterpret_cast<PyTypeObject*>(args.values[0]));
  Ref<> found =
      stealRef(PyObject_CallOneArg(torchObject("inspect._shadowed_dict"), args.values[0]));
  if (!found) return t.raiseCurrentError();
  return fromOutside(t, found.get(), t.world.sources().pinned(found.get()));
}

// torch.jit.script_if_tracing(fn): nothing is being traced by torch.jit, so it is fn.
Out scriptIfTracing(Tracer& t, PyObject* function, const Args& args) {
  STATOR_VALUE(original, fromClosure(t, function, "fn"));
  t.world.keep(original);
  return call(t, original.get(), args);
}

PyCodeObject* codeInside(PyCodeObject* outer, const char* name) {
  PyObject* constants = outer->co_consts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i) {
    PyObject* constant = PyTuple_GET_ITEM(constants, i);
    if (PyCode_Check(constant) &&
        PyUnicode_CompareWithASCIIString(reinterpret_cast<PyCodeObject*>(constant)->co_name,
                                         name) == 0) {
      return reinterpret_cast<PyCodeObject*>(constant);
    }
  }
  return nullptr;
}

// The code of a function that another one makes when it runs.
PyCodeObject* innerCode(const char* path, const char* name) {
  PyObject* outer = torchObject(path);
  if (outer == nullptr || !PyFunction_Check(outer)) return nullptr;
  return codeInside(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(outer)), name);
}

void registerTypingSubscripts() {
  PyCodeObject* decorator = innerCode("typing._tp_cache", "decorator");
  PyCodeObject* inner = decorator != nullptr ? codeInside(decorator, "inner") : nullptr;
  if (inner != nullptr) registerCode(inner, typingSubscript);
}

void registerRecursiveRepr() {
  PyCodeObject* decorator = innerCode("reprlib.recursive_repr", "decorating_function");
  PyCodeObject* wrapper = decorator != nullptr ? codeInside(decorator, "wrapper") : nullptr;
  if (wrapper != nullptr) registerCode(wrapper, recursiveRepr<true>);
}

void registerInner(const char* path, const char* name, FunctionHandler handler) {
  if (PyCodeObject* code = innerCode(path, name)) registerCode(code, handler);
}

}  // namespace

void registerLibrary() {
  const std::pair<const char*, CallHandler> rows[] = {
      {"operator.itemgetter", itemGetter},
      {"operator.attrgetter", attrGetter},
      {"operator.methodcaller", methodCaller},
      {"heapq.heapify", heapify},
      {"heapq.heappush", heappush},
      {"heapq.heappop", heappop},
      {"heapq.heapreplace", heapreplace},
      {"heapq.heappushpop", heappushpop},
      {"types.SimpleNamespace", simpleNamespace},
      {"collections.namedtuple", namedTuple},
      {"operator.length_hint", lengthHint},
      {"bisect.bisect_left", bisectLeft},
      {"bisect.bisect_right", bisectRight},
      {"bisect.insort_left", insortLeft},
      {"bisect.insort_right", insortRight},
      {"json.dumps", jsonDumps},
      {"json.loads", jsonLoads},
      {"inspect._shadowed_dict", shadowedDict},
  };
  for (const auto& [path, handler] : rows) registerHandler(path, handler);
  for (const char* path : {"bisect.bisect_left", "bisect.bisect_right"}) allowSymbols(path);
  for (const char* path :
       {"re.escape", "keyword.iskeyword", "struct.calcsize", "struct.pack", "struct.unpack",
        "zlib.crc32", "zlib.adler32", "binascii.crc32", "binascii.hexlify", "binascii.unhexlify"})
    registerPure(path);
  registerRegex(std::make_index_sequence<std::size(kRegex)>());
  registerHandler("_abc._abc_instancecheck", abcInstanceCheck);
  registerHandler("_abc._abc_subclasscheck", abcSubclassCheck);
  registerHandler("importlib.import_module", importByName<false>);
  registerHandler("builtins.__import__", importByName<true>);
  registerHandler("warnings._filters_mutated", filtersMutated);
  registerHandler("typing._caller", callersModule);
  registerTypingSubscripts();
  if (PySys_GetObject("_getframemodulename") != nullptr)
    registerHandler("sys._getframemodulename", frameModuleName);
  registerInner("torch.jit._trace._script_if_tracing", "wrapper", scriptIfTracing);
  registerInner("functools.singledispatch", "dispatch", dispatch);
  // 3.13 has reprlib's
  registerInner("dataclasses._recursive_repr", "wrapper", recursiveRepr<false>);
  registerRecursiveRepr();
  registerPolyfill("functools.reduce", "functions.reduce");
  registerPolyfill("operator.countOf", "functions.count_of");
  registerPolyfill("operator.indexOf", "functions.index_of");
  registerPolyfill("operator.delitem", "functions.delitem");
  registerPolyfill("operator.concat", "functions.concat");
  registerPolyfill("operator.iconcat", "functions.iconcat");
  registerPolyfill("operator.call", "functions.call");
  registerPure("posix.fspath");
  for (const char* path :
       {"datetime.timedelta", "datetime.date", "datetime.time", "datetime.datetime"})
    registerPure(path);
  registerPolyfill("re.Pattern.sub", "functions.pattern_sub");
  registerWholePolyfill("re.Pattern.finditer", "functions.pattern_finditer");
  registerWholePolyfill("re.finditer", "functions.finditer");
  registerHandler("stator.polyfills.functions.matches", matchesIn);
  registerPolyfill("functools.cmp_to_key", "functions.cmp_to_key");
  registerPolyfill("collections._count_elements", "functions.count_elements");
  registerPolyfill("builtins.object.__reduce_ex__", "objects.reduce_ex");
  registerPolyfill("builtins.object.__getstate__", "objects.getstate");
}

}  // namespace stator::interpret
