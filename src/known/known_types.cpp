#include "known/known_types.h"

#include "base/fields.h"
#include "base/imports.h"
#include "base/numpy_number.h"
#include "base/parts.h"
#include "base/ref.h"
#include "base/stack_room.h"
#include "base/text.h"
#include "graph/stand_in.h"
#include "known/names.h"
#include "known/torch_names.h"
#include "python/objects.h"
#include "python/types.h"
#include "values/value_table.h"

#include <string>
#include <string_view>
#include <unordered_map>

namespace stator::known {

namespace {

struct Known {
  PyTypeObject* tensor = nullptr;
  PyTypeObject* parameter = nullptr;
  PyTypeObject* buffer = nullptr;
  PyTypeObject* module = nullptr;
  PyTypeObject* device = nullptr;
  PyTypeObject* size = nullptr;
  PyTypeObject* deque = nullptr;
  PyTypeObject* partial = nullptr;
  PyTypeObject* enumeration = nullptr;
  PyTypeObject* lru_cache = nullptr;
  PyTypeObject* default_dict = nullptr;
  PyTypeObject* mapping_proxy = nullptr;
  PyTypeObject* generator = nullptr;
  PyTypeObject* item_getter = nullptr;
  PyTypeObject* attr_getter = nullptr;
  PyTypeObject* method_caller = nullptr;
  PyTypeObject* compiled_function = nullptr;
  PyObject* disabled_torch_function = nullptr;
};
Known known;

// The references are kept for the life of the process.
bool take(PyTypeObject*& out, const char* module, const char* name) {
  Ref<> owner = stealRef(importModule(module));
  if (!owner) return false;
  PyObject* found = PyObject_GetAttrString(owner.get(), name);
  if (found == nullptr) return false;
  out = reinterpret_cast<PyTypeObject*>(found);
  return true;
}

}  // namespace

bool initKnownTypes() {
  if (known.tensor != nullptr) return true;
  bool ok =
      take(known.parameter, "torch.nn", "Parameter") && take(known.module, "torch.nn", "Module") &&
      take(known.device, "torch", "device") && take(known.size, "torch", "Size") &&
      take(known.deque, "collections", "deque") && take(known.partial, "functools", "partial") &&
      take(known.enumeration, "enum", "Enum") &&
      take(known.lru_cache, "functools", "_lru_cache_wrapper") &&
      take(known.default_dict, "collections", "defaultdict") &&
      take(known.mapping_proxy, "types", "MappingProxyType") &&
      take(known.generator, "types", "GeneratorType") && take(known.buffer, "torch.nn", "Buffer") &&
      take(known.item_getter, "operator", "itemgetter") &&
      take(known.attr_getter, "operator", "attrgetter") &&
      take(known.method_caller, "operator", "methodcaller") &&
      take(known.compiled_function, "stator._core", "CompiledFunction");
  if (!ok) return false;
  Ref<> torch_c = stealRef(importModule("torch._C"));
  if (!torch_c) return false;
  known.disabled_torch_function =
      PyObject_GetAttrString(torch_c.get(), "_disabled_torch_function_impl");
  return known.disabled_torch_function != nullptr && take(known.tensor, "torch", "Tensor");
}

PyTypeObject* tensorType() { return known.tensor; }
PyTypeObject* parameterType() { return known.parameter; }
PyTypeObject* moduleType() { return known.module; }
PyTypeObject* deviceType() { return known.device; }
PyTypeObject* sizeType() { return known.size; }
PyTypeObject* generatorType() { return known.generator; }
PyTypeObject* dequeType() { return known.deque; }
PyTypeObject* partialType() { return known.partial; }

bool isGraphModule(PyObject* object) {
  // torch.fx may be imported after the first time that somebody asks; before that there is no such object.
  static PyTypeObject* type = nullptr;
  if (type == nullptr) {
    static PyObject* home = PyUnicode_InternFromString("torch.fx.graph_module");
    Ref<> module = stealRef(PyImport_GetModule(home));
    Ref<> found = module ? stealRef(PyObject_GetAttrString(module.get(), "GraphModule")) : nullptr;
    if (!found || !PyType_Check(found.get())) {
      PyErr_Clear();
      return false;
    }
    type = reinterpret_cast<PyTypeObject*>(found.release());
  }
  return PyObject_TypeCheck(object, type);
}

PyTypeObject* enumType() { return known.enumeration; }
PyTypeObject* compiledFunctionType() { return known.compiled_function; }
PyTypeObject* lruCacheType() { return known.lru_cache; }
PyTypeObject* defaultDictType() { return known.default_dict; }
PyTypeObject* mappingProxyType() { return known.mapping_proxy; }
PyTypeObject* itemGetterType() { return known.item_getter; }
PyTypeObject* attrGetterType() { return known.attr_getter; }
PyTypeObject* methodCallerType() { return known.method_caller; }

bool isDictView(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == &PyDictKeys_Type || type == &PyDictValues_Type || type == &PyDictItems_Type ||
         type == &PyODictKeys_Type || type == &PyODictValues_Type || type == &PyODictItems_Type;
}

bool isEnumMember(PyObject* object) { return PyType_IsSubtype(Py_TYPE(object), known.enumeration); }

bool isNamedTuple(PyObject* object) {
  if (!PyTuple_Check(object) || PyTuple_CheckExact(object)) return false;
  static PyObject* fields = PyUnicode_InternFromString("_fields");
  static PyObject* sequence_fields = PyUnicode_InternFromString("n_sequence_fields");
  return _PyType_Lookup(Py_TYPE(object), fields) != nullptr ||
         _PyType_Lookup(Py_TYPE(object), sequence_fields) != nullptr;
}

bool isStructSequence(PyObject* object) {
  static PyObject* sequence_fields = PyUnicode_InternFromString("n_sequence_fields");
  return PyTuple_Check(object) && !PyTuple_CheckExact(object) &&
         _PyType_Lookup(Py_TYPE(object), sequence_fields) != nullptr;
}

bool hasOwnDispatch(PyTypeObject* type) {
  static PyObject* dispatch = PyUnicode_InternFromString("__torch_dispatch__");
  return _PyType_Lookup(type, dispatch) != _PyType_Lookup(known.tensor, dispatch);
}

bool isPlainTensorType(PyTypeObject* type) {
  if (type == known.tensor || type == known.parameter || type == known.buffer) return true;
  static PyObject* function = PyUnicode_InternFromString("__torch_function__");
  static PyObject* dispatch = PyUnicode_InternFromString("__torch_dispatch__");
  PyObject* of_tensor = _PyType_Lookup(known.tensor, function);
  PyObject* found = _PyType_Lookup(type, function);
  if (found != of_tensor && found != known.disabled_torch_function) return false;
  // A subclass that keeps Tensor's own __torch_function__ re-wraps every result in its class: not plain either.
  return found == known.disabled_torch_function &&
         _PyType_Lookup(type, dispatch) == _PyType_Lookup(known.tensor, dispatch);
}

bool isBoundBuiltin(PyObject* object) {
  if (!PyCFunction_Check(object)) return false;
  PyObject* self = PyCFunction_GET_SELF(object);
  return self != nullptr && !PyModule_Check(self) && !PyType_Check(self);
}

// TypeVar, Callable[...], Optional[...]: descriptions of types, which nobody changes.
bool isTypingObject(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  static PyObject* const module = PyUnicode_InternFromString("__module__");
  if (!stator_is_user_class(type) || stator_type_dict(type) == nullptr)
    return type->tp_name == std::string_view("types.GenericAlias") ||
           type->tp_name == std::string_view("types.UnionType") ||
           std::string_view(type->tp_name).substr(0, 7) == "typing.";
  PyObject* home = PyDict_GetItemWithError(stator_type_dict(type), module);
  return home != nullptr && PyUnicode_Check(home) &&
         PyUnicode_CompareWithASCIIString(home, "typing") == 0;
}

bool isOpaqueConstant(PyObject* object) {
  // Types written in C keep their dotted name, and those here compare and hash without any help of Python code.
  std::string_view name = Py_TYPE(object)->tp_name;
  if (isTypingObject(object)) return true;
  // Members of enumerations that pybind11 made.
  static PyObject* const entries = PyUnicode_InternFromString("__entries");
  if (std::string_view(Py_TYPE(reinterpret_cast<PyObject*>(Py_TYPE(object)))->tp_name) ==
          "pybind11_type" &&
      _PyType_Lookup(Py_TYPE(object), entries) != nullptr)
    return true;
  if (isPlacement(object)) return true;
  if (name.find('.') == std::string_view::npos) return false;
  if (name.substr(0, 12) == "numpy.dtypes" || name == "numpy.dtype") return true;
  if (isNumpyNumber(object)) return true;
  // A match reads what it was found in: a bytearray may have changed.
  if (name == "re.Match") {
    static PyObject* const text = PyUnicode_InternFromString("string");
    Ref<> of = stealRef(PyObject_GetAttr(object, text));
    return of && (PyUnicode_CheckExact(of.get()) || PyBytes_CheckExact(of.get()));
  }
  for (std::string_view known : {"re.Pattern", "decimal.Decimal", "datetime.date",
                                 "datetime.datetime", "datetime.time", "datetime.timedelta"}) {
    if (name == known) return true;
  }
  return false;
}

bool isStaticKey(PyObject* key) {
  if (values::isConstantDeep(key)) return true;
  needStack();
  if (PyType_Check(key) || PyFunction_Check(key) || PyCFunction_Check(key) || PyModule_Check(key))
    return true;
  if (PyTuple_CheckExact(key)) return everyItem(key, isStaticKey);
  if (isEnumMember(key)) {
    // An enumeration may have its own __hash__ or __eq__, in Python; Enum's own are as good as C's.
    static PyObject* const methods[] = {PyUnicode_InternFromString("__hash__"),
                                        PyUnicode_InternFromString("__eq__")};
    for (PyObject* name : methods) {
      PyObject* found = _PyType_Lookup(Py_TYPE(key), name);
      if (found != nullptr && PyFunction_Check(found) &&
          found != _PyType_Lookup(known.enumeration, name))
        return false;
    }
    return true;
  }
  return isOpaqueConstant(key);
}

PyTypeObject* itertoolsType(const char* name) {
  return reinterpret_cast<PyTypeObject*>(torchObject((std::string("itertools.") + name).c_str()));
}

bool isPlacement(PyObject* object) { return isPlacementType(Py_TYPE(object)); }

bool isPlacementType(PyTypeObject* type) {
  // pybind11 makes them, so that their class is never `type` itself.
  if (Py_TYPE(reinterpret_cast<PyObject*>(type)) == &PyType_Type) return false;
  static auto* const placement =
      reinterpret_cast<PyTypeObject*>(torchObject("torch._C._distributed.Placement"));
  return placement != nullptr && PyType_IsSubtype(type, placement);
}

// Layers of torch's own; containers are no layers. Recurrent layers keep their weights a second time, in a list that
// AOTAutograd, which puts fakes in the places of parameters while it traces, would leave changed.
bool isLayerClass(PyTypeObject* type) {
  static auto* known = new std::unordered_map<PyTypeObject*, bool>();
  auto found = known->find(type);
  if (found != known->end()) return found->second;
  static PyObject* module_name = PyUnicode_InternFromString("__module__");
  PyObject* home = type != moduleType() ? _PyType_Lookup(type, module_name) : nullptr;
  bool layer = false;
  if (home != nullptr && PyUnicode_Check(home) && stator_is_user_class(type)) {
    std::string_view text = utf8(home);
    layer = (text.rfind("torch.nn.modules.", 0) == 0 && text != "torch.nn.modules.container" &&
             text != "torch.nn.modules.lazy" && text != "torch.nn.modules.rnn") ||
            text.rfind("torch.ao.nn.", 0) == 0;
  }
  if (layer) {
    keepForever(reinterpret_cast<PyObject*>(type));
    (*known)[type] = true;
  }
  return layer;
}

namespace {

PyObject* handlerName() {
  static PyObject* const name = PyUnicode_InternFromString("__torch_function__");
  return name;
}

// A handler of torch's own (torch.Tensor's, that of nested tensors). A wrapper class with one goes into the graph as it
// is, and the handler is part of each operation there.
bool isTorchs(PyObject* handler) {
  Ref<> function = stealRef(PyObject_GetAttr(handler, names().func));
  if (!function) PyErr_Clear();
  if (!function || !PyFunction_Check(function.get())) return false;
  PyObject* module = reinterpret_cast<PyFunctionObject*>(function.get())->func_module;
  return module != nullptr && PyUnicode_Check(module) &&
         std::string_view(utf8(module)).substr(0, 6) == "torch.";
}

}  // namespace

// As torch looks: everything but exact tensors and parameters, and what has switched it off.
bool isOverloadedType(PyTypeObject* type) {
  if (type == tensorType() || type == parameterType() || !stator_is_user_class(type)) return false;
  PyObject* found = _PyType_Lookup(type, handlerName());
  return found != nullptr && found != torchObject("torch._C._disabled_torch_function_impl") &&
         !(hasOwnDispatch(type) && isTorchs(found));
}

}  // namespace stator::known
