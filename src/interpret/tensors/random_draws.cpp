// Python's own random numbers. What a generator from outside gives is drawn when the captured part runs, in the
// program's order and before the graph, which gets the values as inputs: the stream and the generator's state
// afterwards are eager's. A generator that the trace has made or seeded is in a known state: it is asked at capture,
// and put into its last state at the exit.
#include "interpret/tensors/random_draws.h"

#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/sym_scalars.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/native_calls.h"
#include "interpret/tensors/arrays.h"
#include "interpret/tensors/rows.h"
#include "symbolic/sym_int.h"

#include <array>

namespace stator::interpret {

using symbolic::Dim;

namespace {

PyTypeObject* randomType() {
  static auto* type = reinterpret_cast<PyTypeObject*>(torchObject("random.Random"));
  return type;
}

PyObject* stateOfGauss() {
  static PyObject* name = PyUnicode_InternFromString("gauss_next");
  return name;
}

// What the methods draw by is C's own, as long as nobody replaces it in the class (unittest.mock does).
bool drawsAsEver(Tracer& t) {
  static PyObject* const names[] = {PyUnicode_InternFromString("random"),
                                    PyUnicode_InternFromString("getrandbits")};
  for (PyObject* name : names) {
    Out found = typeLookup(t, randomType(), name);
    if (!found.ok() || !found.get() || Py_TYPE(found.get()) != &PyMethodDescr_Type) return false;
  }
  return true;
}

// Nothing of the user's: neither a subclass nor a method replaced on the instance.
bool isPlain(Tracer& t, PyObject* object) {
  if (graph::isStandIn(object) || Py_TYPE(object) != randomType() || !drawsAsEver(t)) return false;
  if (values::Info* info = t.values.find(object); info != nullptr && info->overlay) return false;
  Ref<> dict = stealRef(PyObject_GenericGetDict(object, nullptr));
  if (!dict) PyErr_Clear();
  return dict && PyDict_Size(dict.get()) == 1 &&
         PyDict_GetItemWithError(dict.get(), stateOfGauss()) != nullptr;
}

// The generator whose state is known; null: it is what it will be at the call.
PyObject* knownState(Tracer& t, PyObject* object) {
  values::Info* info = t.values.find(object);
  if (info == nullptr || info->origin == values::Origin::kMade) return object;
  return info->shadow.get();
}

// A generator from outside, put into a known state.
Out makeKnown(Tracer& t, PyObject* object) {
  if (PyObject* known = knownState(t, object)) return newRef(known);
  values::Info* info = t.values.find(object);
  Ref<> dict_keys = stealRef(PyTuple_Pack(1, stateOfGauss()));
  t.world.guard(Guard{GuardKind::kDictKeys, t.world.child(SourceKind::kObjectDict, info->source),
                      nullptr, dict_keys});
  Ref<> zero = stealRef(PyLong_FromLong(0));
  Ref<> shadow =
      stealRef(PyObject_CallOneArg(reinterpret_cast<PyObject*>(randomType()), zero.get()));
  if (!shadow) return t.raiseCurrentError();
  info->shadow = shadow;
  info->dirty = true;
  t.effects.write(info);
  t.effects.note();
  return shadow;
}

Ref<> callOn(PyObject* method, PyObject* generator, const Args& args) {
  Args replaced = args;
  replaced.values[0] = generator;
  return stealRef(
      PyObject_Vectorcall(method, replaced.values.data(), replaced.positional, replaced.names));
}

// The numbers that a method for ints can give.
symbolic::Range rangeOf(std::string_view name, const Args& args, int64_t seen) {
  auto number = [&](size_t i, const char* keyword, int64_t otherwise) {
    PyObject* value = i < args.positional ? args.values[i] : args.keyword(keyword);
    if (value == nullptr || !PyLong_CheckExact(value)) return otherwise;
    int64_t read = PyLong_AsLongLong(value);
    if (read == -1 && PyErr_Occurred()) PyErr_Clear(), read = otherwise;
    return read;
  };
  symbolic::Range range;
  if (name == "randint") {
    range = {number(1, "a", range.low), number(2, "b", range.high)};
  } else if (name == "randrange" && args.values.size() == 2 && args.keywordCount() == 0) {
    range = {0, number(1, "", range.high)};
  } else if (name == "randrange" && args.values.size() == 3) {
    range = {number(1, "start", range.low), number(2, "stop", range.high)};
  } else if (name == "_randbelow_with_getrandbits" || name == "getrandbits") {
    range.low = 0;
  }
  if (seen < range.low || seen > range.high) return symbolic::Range();
  return range;
}

// A number that is drawn when the captured part runs: `seen` is another of its kind. Null: of no kind that a graph
// takes.
Out drawnValue(Tracer& t, const char* name, breaks::Draw drawn, const Ref<>& seen,
               const Args& args) {
  const bool is_float = PyFloat_CheckExact(seen.get());
  int64_t number = 0;
  if (PyLong_CheckExact(seen.get())) number = PyLong_AsLongLong(seen.get());
  if (PyErr_Occurred() || (is_float && !t.options.symbolic_floats)) {
    PyErr_Clear();
    return Ref<>();
  }
  const Source* value =
      t.world.root(SourceKind::kDrawn, static_cast<int64_t>(t.effects.draws().size()));
  if (!is_float && !PyLong_CheckExact(seen.get())) {
    STATOR_VALUE(array, arrayDrawn(t, seen.get(), value));
    if (array) {
      t.effects.draw(std::move(drawn));
      t.effects.note();
    }
    return array;
  }
  t.effects.draw(std::move(drawn));
  t.effects.note();
  t.sizes.noteScalar();
  if (is_float) {
    Ref<> made = symbolic::makeScalar(&PyFloat_Type, Ref<>());
    symbolic::asSymScalar(made.get())->source = value;
    symbolic::asSymScalar(made.get())->hint = PyFloat_AS_DOUBLE(seen.get());
    return made;
  }
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(seen.get()));
  graph::Node* node = t.graphs.current().addInput(value, seen, nullptr);
  node->scalar_type = newRef(type);
  node->location = t.location();
  Ref<> stand_in = graph::makeStandIn(node, nullptr, type);
  t.values.addMade(stand_in.get(), 0);
  const symbolic::Expr* symbol = addUnbacked(t, std::move(stand_in), rangeOf(name, args, number));
  node->size = Dim::of(symbol);
  return symbolic::makeInt(Dim::of(symbol));
}

breaks::Draw drawOf(const Source* generator, PyObject* method, const Args& args, size_t first) {
  breaks::Draw drawn;
  drawn.generator = generator;
  drawn.method = newRef(method);
  drawn.args = stealRef(PyTuple_New(static_cast<Py_ssize_t>(args.positional - first)));
  for (size_t i = first; i < args.positional; ++i)
    PyTuple_SET_ITEM(drawn.args.get(), static_cast<Py_ssize_t>(i - first),
                     Py_NewRef(args.values[i]));
  drawn.kwargs = stealRef(PyDict_New());
  for (size_t i = 0; i < args.keywordCount(); ++i)
    PyDict_SetItem(drawn.kwargs.get(), args.name(i), args.values[args.positional + i]);
  return drawn;
}

Out draw(Tracer& t, const char* name, PyObject* method, const Args& args) {
  PyObject* generator = args.positional > 0 ? args.values[0] : nullptr;
  if (generator == nullptr || !isPlain(t, generator))
    return t.breakWith(Reason::kCallsOutside, name);
  PyObject* known = knownState(t, generator);
  for (size_t i = 1; i < args.values.size(); ++i) {
    bool fits =
        known != nullptr ? isNativeSafe(t, args.values[i]) : values::isScalar(args.values[i]);
    if (!fits) return t.breakWith(Reason::kCallsOutside, name);
  }
  if (known != nullptr) {
    Ref<> result = callOn(method, known, args);
    if (result && !values::isScalar(result.get())) return t.breakWith(Reason::kCallsOutside, name);
    return t.fromNative(std::move(result));
  }
  const Source* source = t.sourceOf(generator);
  if (source == nullptr || t.graphs.nested()) return t.breakWith(Reason::kCallsOutside, name);
  // Of which type it will be, and whether it raises, another generator tells.
  Ref<> zero = stealRef(PyLong_FromLong(0));
  Ref<> other =
      stealRef(PyObject_CallOneArg(reinterpret_cast<PyObject*>(randomType()), zero.get()));
  Ref<> seen = other ? callOn(method, other.get(), args) : Ref<>();
  if (!seen) {
    PyErr_Clear();
    return t.breakWith(Reason::kCallsOutside, name);
  }
  STATOR_VALUE(value, drawnValue(t, name, drawOf(source, method, args, 1), seen, args));
  if (!value) return t.breakWith(Reason::kCallsOutside, name);
  Ref<> dict_keys = stealRef(PyTuple_Pack(1, stateOfGauss()));
  t.world.guard(Guard{GuardKind::kDictKeys, t.world.child(SourceKind::kObjectDict, source), nullptr,
                      dict_keys});
  return value;
}

// Methods of NumPy's older generators; the functions of numpy.random are those of one for the process.
constexpr std::array kNumpy = {"rand",   "randn",           "random",   "random_sample", "uniform",
                               "normal", "standard_normal", "randint",  "exponential",   "gamma",
                               "beta",   "poisson",         "binomial", "permutation"};

Out drawArray(Tracer& t, const char* name, const Args& args) {
  const std::string path = std::string("numpy.random.RandomState.") + name;
  PyObject* method = torchObject(path.c_str());
  PyObject* type = torchObject("numpy.random.RandomState");
  PyObject* generator = args.positional > 0 ? args.values[0] : nullptr;
  for (size_t i = 1; i < args.values.size(); ++i) {
    if (!values::isConstantDeep(args.values[i]) && !PyType_Check(args.values[i]))
      return t.breakWith(Reason::kCallsOutside, name);
  }
  if (generator == nullptr || reinterpret_cast<PyObject*>(Py_TYPE(generator)) != type ||
      t.sourceOf(generator) == nullptr || t.graphs.nested())
    return t.breakWith(Reason::kCallsOutside, name);
  Ref<> zero = stealRef(PyLong_FromLong(0));
  Ref<> other = stealRef(PyObject_CallOneArg(type, zero.get()));
  Ref<> seen = other ? callOn(method, other.get(), args) : Ref<>();
  if (!seen) {
    PyErr_Clear();
    return t.breakWith(Reason::kCallsOutside, name);
  }
  STATOR_VALUE(value,
               drawnValue(t, name, drawOf(t.sourceOf(generator), method, args, 1), seen, args));
  if (!value) return t.breakWith(Reason::kCallsOutside, name);
  return value;
}

template <size_t i>
Out drawArrayBy(Tracer& t, const Args& args) {
  return drawArray(t, kNumpy[i], args);
}
template <size_t... i>
void registerNumpyMethods(std::index_sequence<i...>) {
  (registerHandler((std::string("numpy.random.RandomState.") + kNumpy[i]).c_str(), drawArrayBy<i>),
   ...);
}

Out seed(Tracer& t, const Args& args) {
  PyObject* generator = args.positional > 0 ? args.values[0] : nullptr;
  PyObject* by = args.positional > 1 ? args.values[1] : args.keyword("a");
  if (generator == nullptr || !isPlain(t, generator) || by == nullptr || by == Py_None)
    return t.breakWith(Reason::kCallsOutside, "seed");
  for (size_t i = 1; i < args.values.size(); ++i) {
    if (!values::isScalar(args.values[i])) return t.breakWith(Reason::kCallsOutside, "seed");
  }
  Ref<> zero = stealRef(PyLong_FromLong(0));
  Ref<> other =
      stealRef(PyObject_CallOneArg(reinterpret_cast<PyObject*>(randomType()), zero.get()));
  if (!other || !callOn(torchObject("random.Random.seed"), other.get(), args)) {
    PyErr_Clear();
    return t.breakWith(Reason::kCallsOutside, "seed");
  }
  STATOR_VALUE(known, makeKnown(t, generator));
  return t.fromNative(callOn(torchObject("random.Random.seed"), known.get(), args));
}

Out getState(Tracer& t, const Args& args) {
  PyObject* known = args.values.size() == 1 && isPlain(t, args.values[0])
                        ? knownState(t, args.values[0])
                        : nullptr;
  if (known == nullptr) return t.breakWith(Reason::kCallsOutside, "getstate");
  return t.fromNative(stealRef(PyObject_CallOneArg(torchObject("random.Random.getstate"), known)));
}

Out setState(Tracer& t, const Args& args) {
  if (args.values.size() != 2 || args.keywordCount() != 0 || !isPlain(t, args.values[0]) ||
      !values::isConstantDeep(args.values[1]))
    return t.breakWith(Reason::kCallsOutside, "setstate");
  Ref<> zero = stealRef(PyLong_FromLong(0));
  Ref<> other =
      stealRef(PyObject_CallOneArg(reinterpret_cast<PyObject*>(randomType()), zero.get()));
  PyObject* method = torchObject("random.Random.setstate");
  if (!other || !callOn(method, other.get(), args)) {
    PyErr_Clear();
    return t.breakWith(Reason::kCallsOutside, "setstate");
  }
  STATOR_VALUE(known, makeKnown(t, args.values[0]));
  return t.fromNative(callOn(method, known.get(), args));
}

Out makeGenerator(Tracer& t, const Args& args) {
  if (args.values.size() != 1 || args.values[0] == Py_None || !values::isScalar(args.values[0]))
    return t.breakWith(Reason::kCallsOutside, "random.Random");
  return fromNativeMade(
      t, stealRef(PyObject_Vectorcall(reinterpret_cast<PyObject*>(randomType()), args.values.data(),
                                      args.positional, args.names)));
}

constexpr std::array kMethods = {
    "uniform",        "randint",         "randrange",
    "gauss",          "normalvariate",   "triangular",
    "betavariate",    "expovariate",     "gammavariate",
    "lognormvariate", "vonmisesvariate", "paretovariate",
    "weibullvariate", "choice",          "_randbelow_with_getrandbits"};

template <size_t i>
Out drawBy(Tracer& t, const Args& args) {
  static PyObject* method = torchObject((std::string("random.Random.") + kMethods[i]).c_str());
  return draw(t, kMethods[i], method, args);
}
template <size_t... i>
void registerMethods(std::index_sequence<i...>) {
  (registerHandler((std::string("random.Random.") + kMethods[i]).c_str(), drawBy<i>), ...);
}

Out drawFloat(Tracer& t, const Args& args) {
  return draw(t, "random", torchObject("_random.Random.random"), args);
}
Out drawBits(Tracer& t, const Args& args) {
  return draw(t, "getrandbits", torchObject("_random.Random.getrandbits"), args);
}

}  // namespace

bool isRandomGenerator(PyObject* object) { return Py_TYPE(object) == randomType(); }

Ref<> randomState(PyObject* generator) {
  return stealRef(PyObject_CallOneArg(torchObject("_random.Random.getstate"), generator));
}

void registerNumpyRandom() { registerNumpyMethods(std::make_index_sequence<kNumpy.size()>()); }

void registerRandom() {
  registerMethods(std::make_index_sequence<kMethods.size()>());
  registerHandler("_random.Random.random", drawFloat);
  registerHandler("_random.Random.getrandbits", drawBits);
  registerHandler("random.Random.seed", seed);
  registerHandler("random.Random.getstate", getState);
  registerHandler("random.Random.setstate", setState);
  registerHandler("random.Random", makeGenerator);
}

}  // namespace stator::interpret
