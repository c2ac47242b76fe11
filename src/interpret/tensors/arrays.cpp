// NumPy arrays in traces. An array from outside is an input of the graph by way of the tensor that has its memory; what
// the program sees is an instance of stator/polyfills/arrays.py's Array, whose methods put calls of NumPy into the
// graph. At an exit such an instance becomes the array itself again.
#include "interpret/tensors/arrays.h"

#include "base/check.h"
#include "base/imports.h"
#include "base/numpy_number.h"
#include "base/text.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/instance_attributes.h"
#include "interpret/tensors/rows.h"
#include "tensor/meta_of.h"

#include <cstring>
#include <string>
#include <string_view>

namespace stator::interpret {

namespace {

struct Arrays {
  PyTypeObject* ndarray = nullptr;
  PyTypeObject* number = nullptr;  // numpy.generic
  // Of the polyfills, which are loaded when a trace first has to do with NumPy.
  PyTypeObject* array = nullptr;  // Array
  PyObject* file = nullptr;
};
Arrays arrays;

bool loadPolyfills() {
  if (arrays.array != nullptr) return true;
  PyObject* array = torchObject("stator.polyfills.arrays.Array");
  PyObject* function = torchObject("stator.polyfills.arrays.function");
  PyErr_Clear();
  if (array == nullptr || function == nullptr) return false;
  arrays.file =
      Py_NewRef(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function))->co_filename);
  arrays.array = reinterpret_cast<PyTypeObject*>(array);
  return true;
}

// What a trace calls in place of a function of NumPy's, by its name ("np:linalg.norm"), or of a method of tensors.
PyObject* loadPolyfill(const char* name) {
  if (!loadPolyfills()) return nullptr;
  if (!std::string_view(name).starts_with("np:")) return torchObject(name);
  Ref<> made = stealRef(
      PyObject_CallFunction(torchObject("stator.polyfills.arrays.standing_for"), "s", name));
  if (!made) PyErr_Clear();
  return made && made.get() != Py_None ? made.release() : nullptr;
}

PyObject* tensorName() {
  static PyObject* const name = PyUnicode_InternFromString("_tensor");
  return name;
}
PyObject* scalarName() {
  static PyObject* const name = PyUnicode_InternFromString("_scalar");
  return name;
}

PyObject* frozenName() {
  static PyObject* const name = PyUnicode_InternFromString("_frozen");
  return name;
}

Ref<> makeArray(Tracer& t, PyObject* tensor, PyObject* scalar, PyObject* frozen = Py_False) {
  STATOR_CHECK(loadPolyfills());
  Ref<> made = stealRef(PyType_GenericAlloc(arrays.array, 0));
  if (!made || PyObject_GenericSetAttr(made.get(), tensorName(), tensor) != 0 ||
      PyObject_GenericSetAttr(made.get(), scalarName(), scalar) != 0 ||
      PyObject_GenericSetAttr(made.get(), frozenName(), frozen) != 0)
    throw PythonError();
  t.values.addMade(made.get(), t.frames.instruction());
  t.torch.noteArray();
  return made;
}

// What is known of all of NumPy's numbers at a place, beside its sources: that one was an input of the graph
// (number), and that they stay constants all the same (has_number).
DynamicHistory::Seen& allNumbers(Tracer& t) { return t.options.history->at(~uint64_t{0}); }

bool numberChanged(Tracer& t, PyObject* number, const Source* source) {
  if (t.options.history == nullptr || t.options.dynamic == DynamicMode::kStatic) return false;
  if (allNumbers(t).has_number) return false;
  int64_t bits = 0;
  std::memcpy(&bits, number + 1, numpyNumberSize(number));
  DynamicHistory::Seen& seen = t.options.history->at(sourceKey(*source));
  if (seen.has_number && seen.number != bits) seen.number_changed = true;
  seen.has_number = true;
  seen.number = bits;
  if (seen.number_changed) allNumbers(t).number = 1;
  return seen.number_changed;
}

Out make(Tracer& t, const Args& args) {
  if (args.values.size() < 2 || !graph::isStandIn(args.values[0]))
    return t.breakWith(Reason::kUnsupportedObject, "an array of what is no tensor");
  return makeArray(t, args.values[0], args.values[1],
                   args.values.size() > 2 ? args.values[2] : Py_False);
}

}  // namespace

bool isTraceArray(PyObject* object) {
  return arrays.array != nullptr && Py_TYPE(object) == arrays.array;
}

bool isArrayCode(PyCodeObject* code) {
  return arrays.file != nullptr && (code->co_filename == arrays.file ||
                                    PyUnicode_Compare(code->co_filename, arrays.file) == 0);
}

PyTypeObject* arrayTypeSeen(PyObject* array) {
  PyObject* scalar = rawInstanceAttr(array, scalarName());
  if (scalar == nullptr || scalar == Py_None) return arrays.ndarray;
  return reinterpret_cast<PyTypeObject*>(
      torchObject((std::string("numpy.") + utf8(scalar)).c_str()));
}

PyObject* arrayTensor(PyObject* array) { return rawInstanceAttr(array, tensorName()); }

bool isArrayScalar(PyObject* array) { return rawInstanceAttr(array, scalarName()) != Py_None; }
bool isArrayFrozen(PyObject* array) { return rawInstanceAttr(array, frozenName()) == Py_True; }

bool holdsArray(const Args& args) {
  for (PyObject* value : args.values) {
    if (isTraceArray(value)) return true;
    if (!PyList_CheckExact(value) && !PyTuple_CheckExact(value)) continue;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
      if (isTraceArray(PySequence_Fast_GET_ITEM(value, i))) return true;
    }
  }
  return false;
}

PyObject* fromArrays(PyObject* callable) {
  static const std::pair<PyObject*, PyObject*> known[] = {
      {torchObject("torch.from_numpy"), torchObject("stator.polyfills.arrays.from_numpy")},
      {torchObject("torch.as_tensor"), torchObject("stator.polyfills.arrays.as_tensor")},
      {torchObject("torch.tensor"), torchObject("stator.polyfills.arrays.tensor")}};
  for (const auto& [function, polyfill] : known) {
    if (callable == function) return polyfill;
  }
  return nullptr;
}

Out arrayFromOutside(Tracer& tracer, PyObject* raw, const Source* source) {
  if (arrays.ndarray == nullptr || tracer.graphs.nested() || !tracer.options.trace_numpy)
    return Ref<>();
  Ref<> scalar = newRef(Py_None);
  if (Py_TYPE(raw) != arrays.ndarray) {
    // Single numbers: constants, until one is seen to change from call to call.
    std::string_view name = Py_TYPE(raw)->tp_name;
    if (isNumpyNumber(raw)) {
      if (!numberChanged(tracer, raw, source)) return Ref<>();
    } else if (name.substr(0, 6) != "numpy." || !PyType_IsSubtype(Py_TYPE(raw), arrays.number) ||
               PyFloat_Check(raw) || PyComplex_Check(raw)) {
      return Ref<>();
    }
    scalar = stealRef(PyUnicode_FromString(std::string(name.substr(6)).c_str()));
  }
  static PyObject* const as_input = torchObject("stator._numpy.as_input");
  Ref<> tensor = stealRef(PyObject_CallOneArg(as_input, raw));
  if (!tensor) return tracer.raiseCurrentError();
  if (tensor.get() == Py_None) return Ref<>();
  tracer.world.guard(
      Guard{GuardKind::kType, source, nullptr, newRef(reinterpret_cast<PyObject*>(Py_TYPE(raw)))});
  STATOR_VALUE(stand_in, fromOutside(tracer, tensor.get(),
                                     tracer.world.child(SourceKind::kArrayTensor, source)));
  Ref<> array = makeArray(tracer, stand_in.get(), scalar.get());
  values::Info& info = tracer.values.addOutside(raw, source);
  info.shadow = array;
  info.unpacked = true;
  return array;
}

bool numbersBecomeConstant(Tracer& tracer) {
  if (tracer.options.history == nullptr || !tracer.options.fullgraph) return false;
  DynamicHistory::Seen& all = allNumbers(tracer);
  if (all.number == 0 || all.has_number) return false;
  all.has_number = true;
  return true;
}

Out arrayDrawn(Tracer& tracer, PyObject* seen, const Source* source) {
  if (arrays.ndarray == nullptr || Py_TYPE(seen) != arrays.ndarray) return Ref<>();
  Ref<> tensor = stealRef(PyObject_CallOneArg(torchObject("stator._numpy.as_input"), seen));
  if (!tensor) return tracer.raiseCurrentError();
  if (tensor.get() == Py_None) return Ref<>();
  tracer.graphs.current().metas.push_back(tensor::metaOf(tensor.get()));
  shapes::TensorMeta& meta = tracer.graphs.current().metas.back();
  meta.storage_id = tracer.storages.fresh();
  graph::Node* node = tracer.graphs.current().addInput(
      tracer.world.child(SourceKind::kArrayTensor, source), tensor, &meta);
  node->location = tracer.location();
  node->scope = tracer.frames.innermost().scope;
  Ref<> stand_in =
      graph::makeStandIn(node, &meta, reinterpret_cast<PyObject*>(Py_TYPE(tensor.get())));
  tracer.values.addMade(stand_in.get(), 0);
  return makeArray(tracer, stand_in.get(), Py_None);
}

namespace {

bool isOfNumpy(PyObject* member) {
  if (std::string_view(Py_TYPE(member)->tp_name).starts_with("numpy.")) return true;
  static PyObject* const name = PyUnicode_InternFromString("__module__");
  Ref<> module = stealRef(PyObject_GetAttr(member, name));
  PyErr_Clear();
  return module && PyUnicode_Check(module.get()) &&
         std::string_view(utf8(module.get())).starts_with("numpy");
}

// The functions of one module of NumPy's, as soon as the program has loaded it; true when that is done. What is there
// already: to ask for the others would load whole packages.
bool registerFunctions(const char* path) {
  Ref<> module = loadedModule(path);
  if (!module) return false;
  std::string prefix = "np:";
  if (std::string_view(path) != "numpy") prefix += std::string(path + std::strlen("numpy.")) + ".";
  PyObject *key = nullptr, *member = nullptr;
  Py_ssize_t position = 0;
  Ref<> members = stealRef(PyDict_Copy(PyModule_GetDict(module.get())));
  while (members && PyDict_Next(members.get(), &position, &key, &member)) {
    const char* name = PyUnicode_Check(key) ? utf8OrNull(key) : nullptr;
    if (name == nullptr || *name == '_' || PyType_Check(member) || !PyCallable_Check(member) ||
        !isOfNumpy(member))
      continue;
    Ref<> text = stealRef(PyUnicode_FromString((prefix + name).c_str()));
    if (!text) throw PythonError();
    CallRow row{CallKind::kPolyfill, nullptr, text.release(), true};
    row.load = loadPolyfill;
    registerRow(member, row);
  }
  return true;
}

}  // namespace

// Asked for at each capture: NumPy loads its packages when they are first used.
void registerArrays() {
  if (arrays.ndarray == nullptr) {
    if (!registerFunctions("numpy")) return;
    registerHandler("stator.polyfills.arrays.make", make);
    registerPure("stator._numpy.kinds");
    registerPure("stator._numpy.warn_of_frozen");
    registerPure("stator._numpy.dtype_argument");
    registerPure("numpy.dtype");
    for (const char* number :
         {"numpy.float64", "numpy.float32", "numpy.float16", "numpy.int64", "numpy.int32",
          "numpy.int16", "numpy.int8", "numpy.uint8", "numpy.bool_"})
      registerPure(number);
    CallRow to_numpy{CallKind::kPolyfill, nullptr,
                     PyUnicode_InternFromString("stator.polyfills.arrays.numpy_of"), true};
    to_numpy.load = loadPolyfill;
    registerRow(torchObject("torch.Tensor.numpy"), to_numpy);
    arrays.number = reinterpret_cast<PyTypeObject*>(torchObject("numpy.generic"));
    arrays.ndarray = reinterpret_cast<PyTypeObject*>(torchObject("numpy.ndarray"));
  }
  static bool linalg = false, fft = false, random = false;
  if (!linalg) linalg = registerFunctions("numpy.linalg");
  if (!fft) fft = registerFunctions("numpy.fft");
  if (!random && loadedModule("numpy.random")) {
    registerNumpyRandom();
    random = true;
  }
}

}  // namespace stator::interpret
