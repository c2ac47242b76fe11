#include "graph/content.h"

#include "base/check.h"
#include "base/imports.h"
#include "base/text.h"
#include "graph/fx_record.h"
#include "python/types.h"
#include "shapes/arg.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <unordered_map>

namespace stator::graph {

namespace {

// Stops the walk: the graph has no content that another process could know.
struct NoContent : std::exception {
  explicit NoContent(std::string reason) : why(std::move(reason)) {}
  std::string why;
};

std::string textOf(PyObject* object) {
  const char* text = object != nullptr && PyUnicode_Check(object) ? utf8OrNull(object) : nullptr;
  PyErr_Clear();
  return text != nullptr ? text : "";
}

std::string attributeText(PyObject* object, const char* name) {
  Ref<> value = Ref<>::steal(PyObject_GetAttrString(object, name));
  PyErr_Clear();
  return textOf(value.get());
}

bool isTorchName(const std::string& module) {
  return module == "torch" || module.starts_with("torch.");
}

// The folder that torch's Python files are in, with a slash.
const std::string& torchFolder() {
  static const std::string folder = [] {
    Ref<> torch = Ref<>::steal(importModule("torch"));
    std::string file = torch ? attributeText(torch.get(), "__file__") : "";
    return file.substr(0, file.rfind('/') + 1);
  }();
  return folder;
}

class Writer {
 public:
  explicit Writer(const Graph& graph) : graph_(graph) {}

  std::string write() {
    number('I', static_cast<int64_t>(graph_.inputs().size()));
    for (const Node* input : graph_.inputs()) addInput(*input);
    for (const Node& node : graph_.nodes()) addNode(node);
    number('O', static_cast<int64_t>(graph_.outputs().size()));
    for (const Node* node : graph_.outputs()) number('v', node->index);
    if (graph_.symbols) addSymbols(*graph_.symbols);
    return std::move(out_);
  }

 private:
  [[noreturn]] static void refuse(std::string why) { throw NoContent(std::move(why)); }

  void number(char tag, int64_t value) {
    out_ += tag;
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(char tag, std::string_view value) {
    number(tag, static_cast<int64_t>(value.size()));
    out_ += value;
  }
  void dim(symbolic::Dim value) {
    if (value.isStatic()) {
      number('n', value.value());
    } else {
      text('e', value.text());
    }
  }

  void addInput(const Node& node) {
    if (node.wrapper) refuse("a tensor of a class of its own is an input");
    number('i', node.index);
    number('f', (node.of_module ? 1 : 0) | (node.written ? 2 : 0) | (node.scalar_type ? 4 : 0));
    if (node.scalar_type) {
      text('t', reinterpret_cast<PyTypeObject*>(node.scalar_type.get())->tp_name);
      if (node.size.isStatic()) refuse("a float is an input");
      dim(node.size);
      return;
    }
    if (node.meta == nullptr) refuse("an input is neither tensor nor number");
    number('d', static_cast<int64_t>(node.meta->sizes.size()));
    for (symbolic::Dim size : node.meta->sizes) dim(size);
    for (symbolic::Dim stride : node.meta->strides) dim(stride);
    dim(node.meta->storage_offset);
  }

  void addNode(const Node& node) {
    if (node.op == Op::kInput) return;
    if (node.op == Op::kAttribute || node.op == Op::kCallModule)
      refuse("parameters or modules belong to the graph");
    if (node.wrapper) refuse("a tensor of a class of its own");
    number('c', node.index);
    text(node.op == Op::kCallMethod ? 'm' : 't', nameOf(node));
    value(node.args.get());
    if (node.kwargs) value(node.kwargs.get());
  }

  void addSymbols(const Symbols& symbols) {
    // Not the values that they have now: what is made of the graph says which ones it fits (its conditions).
    number('h', static_cast<int64_t>(symbols.hints.size()));
    for (int64_t unbacked : symbols.unbacked) number('u', unbacked);
    for (const std::string& condition : symbols.conditions) text('k', condition);
  }

  const std::string& nameOf(const Node& node) {
    std::string& name = names_[node.target.get()];
    if (name.empty())
      name = node.op == Op::kCallMethod ? textOf(node.target.get()) : targetName(node.target.get());
    if (name.empty()) refuse("it calls something without a name");
    return name;
  }

  static std::string targetName(PyObject* target) {
    if (PyCFunction_Check(target)) return builtinName(target);
    if (PyFunction_Check(target)) return functionName(target);
    PyTypeObject* type = Py_TYPE(target);
    const std::string home = attributeText(reinterpret_cast<PyObject*>(type), "__module__");
    if (home == "torch._ops") return operatorName(target);
    // What a checkpoint does is in its body.
    if (home == "torch._higher_order_ops.wrap" &&
        std::string_view(type->tp_name) == "TagActivationCheckpoint")
      return "checkpoint";
    if (PyType_Check(target)) {
      auto* named = reinterpret_cast<PyTypeObject*>(target);
      if (!stator_is_user_class(named)) return std::string("type ") + named->tp_name;
    }
    refuse(std::string("it calls an object of class ") + type->tp_name);
  }

  // Of a function in C: what it is bound to says where it comes from.
  static std::string builtinName(PyObject* target) {
    PyObject* self = PyCFunction_GET_SELF(target);
    std::string home;
    if (self == nullptr) {
      home = attributeText(target, "__module__");
    } else if (PyModule_Check(self)) {
      const char* name = PyModule_GetName(self);
      PyErr_Clear();
      home = name != nullptr ? name : "";
    } else if (PyType_Check(self)) {
      home = reinterpret_cast<PyTypeObject*>(self)->tp_name;
    }
    const bool known = isTorchName(home) || home == "builtins" || home == "_operator" ||
                       home == "math" || home == "_VariableFunctionsClass";
    const std::string name = attributeText(target, "__name__");
    if (!known || name.empty())
      refuse("it calls " + (name.empty() ? "a function" : name) + ", which is not torch's");
    return "builtin " + home + "." + name;
  }

  static std::string functionName(PyObject* target) {
    const std::string module = attributeText(target, "__module__");
    const std::string name = attributeText(target, "__qualname__");
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(target));
    const std::string file = textOf(code->co_filename);
    const bool own =
        isTorchName(module) && !torchFolder().empty() && file.starts_with(torchFolder());
    // What a closure holds may be anything, but in a function that is a name of the module's: F.max_pool2d.
    if (!own || (PyFunction_GET_CLOSURE(target) != nullptr && !isNameOf(module, target)))
      refuse("it calls " + (name.empty() ? "a function" : name) + ", which is not torch's");
    return "function " + module + "." + name + ":" + std::to_string(code->co_firstlineno) + " " +
           (PyFunction_GET_CLOSURE(target) != nullptr ? attributeText(target, "__name__") : "");
  }

  static bool isNameOf(const std::string& module, PyObject* target) {
    Ref<> home =
        Ref<>::steal(PyImport_GetModule(Ref<>::steal(PyUnicode_FromString(module.c_str())).get()));
    const std::string name = attributeText(target, "__name__");
    Ref<> found = home && !name.empty()
                      ? Ref<>::steal(PyObject_GetAttrString(home.get(), name.c_str()))
                      : Ref<>();
    PyErr_Clear();
    return found.get() == target;
  }

  // torch.ops.aten.add.Tensor; those of libraries, and higher-order ones, may mean another thing tomorrow.
  static std::string operatorName(PyObject* target) {
    const std::string kind = Py_TYPE(target)->tp_name;
    if (kind != "OpOverload" && kind != "OpOverloadPacket")
      refuse("it calls an operator of kind " + kind);
    Ref<> shown = Ref<>::steal(PyObject_Str(target));
    PyErr_Clear();
    const std::string name = textOf(shown.get());
    if (!name.starts_with("aten.") && !name.starts_with("prims."))
      refuse("it calls " + name + ", which is not torch's");
    return "operator " + kind + " " + name;
  }

  void items(char tag, PyObject* sequence) {
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(sequence);
    number(tag, size);
    for (Py_ssize_t i = 0; i < size; ++i) value(PySequence_Fast_GET_ITEM(sequence, i));
  }

  void value(PyObject* object) {
    needStack();
    if (isStandIn(object)) {
      const Node* node = asStandIn(object)->node;
      if (node->home != &graph_) refuse("a function of its own is called in it");
      number('v', node->index);
    } else if (PyTuple_CheckExact(object)) {
      items('(', object);
    } else if (PyList_CheckExact(object)) {
      items('[', object);
    } else if (PyDict_CheckExact(object)) {
      number('{', PyDict_GET_SIZE(object));
      PyObject* key = nullptr;
      PyObject* held = nullptr;
      for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &held);) {
        value(key);
        value(held);
      }
    } else if (PySlice_Check(object)) {
      const auto* slice = reinterpret_cast<PySliceObject*>(object);
      out_ += ':';
      for (PyObject* part : {slice->start, slice->stop, slice->step}) value(part);
    } else if (const std::shared_ptr<Graph> body = bodyOf(object)) {
      refuseNotes(object);
      text('b', Writer(*body).write());
    } else {
      constant(object);
    }
  }

  // What is said of a body beside its graph: a checkpoint's context_fn, which may be anything.
  static void refuseNotes(PyObject* body) {
    Ref<> notes = Ref<>::steal(PyObject_GetAttrString(body, "meta"));
    if (!notes) throw PythonError();
    if (!PyDict_Check(notes.get()) || PyDict_GET_SIZE(notes.get()) != 0)
      refuse("a function in it has notes of the program's (a checkpoint's context_fn)");
  }

  void constant(PyObject* object) {
    const shapes::TorchTypes& types = shapes::torchTypes();
    PyTypeObject* type = Py_TYPE(object);
    if (object == Py_None || object == Py_True || object == Py_False || object == Py_Ellipsis) {
      out_ += object == Py_None ? 'N' : object == Py_True ? 'T' : object == Py_False ? 'F' : '.';
    } else if (PyLong_CheckExact(object)) {
      Ref<> shown = Ref<>::steal(PyNumber_ToBase(object, 16));
      if (!shown) throw PythonError();
      text('L', textOf(shown.get()));
    } else if (PyFloat_CheckExact(object)) {
      real('D', PyFloat_AS_DOUBLE(object));
    } else if (PyComplex_CheckExact(object)) {
      real('C', PyComplex_RealAsDouble(object));
      real('C', PyComplex_ImagAsDouble(object));
    } else if (PyUnicode_CheckExact(object)) {
      text('s', textOf(object));
    } else if (type == types.size) {
      items('z', object);
    } else if (type == types.dtype || type == types.device || type == types.layout ||
               type == types.memory_format) {
      Ref<> shown = Ref<>::steal(PyObject_Str(object));
      if (!shown) throw PythonError();
      text('o', textOf(shown.get()));
    } else {
      refuse(std::string("an argument is of class ") + type->tp_name);
    }
  }

  void real(char tag, double value) {
    int64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    number(tag, bits);
  }

  const Graph& graph_;
  std::string out_;
  std::unordered_map<PyObject*, std::string> names_;
};

}  // namespace

Result<std::string> contentOf(const Graph& graph) {
  try {
    return Writer(graph).write();
  } catch (const NoContent& no) {
    return NotApplicable{no.why};
  }
}

}  // namespace stator::graph
