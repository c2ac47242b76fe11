// A graph is described to `graph_build` by dicts, one for each node:
//   op ("input", "call_function", "call_method"), target, args, kwargs, facts (sizes, strides, dtype, device, index, requires_grad,
//   is_parameter), structure, mutates, scalar_type, location, scope; for inputs: source (steps from the root), example, name.
// Other nodes are named in args by instances of `marker`, which have an `index`.
#include "graph/graph_module.h"

#include "base/boundary.h"
#include "base/rebuilt.h"
#include "base/stack_room.h"
#include "base/text.h"
#include "graph/executor.h"
#include "graph/fx.h"
#include "graph/fx_record.h"
#include "graph/fx_source.h"
#include "graph/graph_runner.h"
#include "graph/lazy_meta.h"

#include <deque>

namespace stator::graph {

namespace {

constexpr const char* kCapsule = "stator.graph";

// A graph and what a trace would otherwise own beside it.
struct Handle {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  std::deque<sources::Source> sources;
};

Handle& handleOf(PyObject* capsule) {
  void* pointer = PyCapsule_GetPointer(capsule, kCapsule);
  if (pointer == nullptr) throw PythonError();
  return *static_cast<Handle*>(pointer);
}

std::string textOf(PyObject* value) {
  const char* data = utf8OrError(value);
  if (data == nullptr) throw PythonError();
  return data;
}

int64_t number(PyObject* value) {
  int64_t made = PyLong_AsLongLong(value);
  if (made == -1 && PyErr_Occurred() != nullptr) throw PythonError();
  return made;
}

shapes::Dims dims(PyObject* tuple) {
  shapes::Dims made;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    made.push_back(number(PyTuple_GET_ITEM(tuple, i)));
  return made;
}

class Description {
 public:
  Description(Handle& handle, PyObject* marker)
      : handle_(handle), graph_(*handle.graph), marker_(marker) {}

  void locations(PyObject* list) {
    // (code, offset, position of the caller or -1)
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
      PyObject* item = PyList_GET_ITEM(list, i);
      int64_t caller = number(PyTuple_GET_ITEM(item, 2));
      auto* code = reinterpret_cast<PyCodeObject*>(PyTuple_GET_ITEM(item, 0));
      graph_.locations.push_back(
          {caller < 0 ? nullptr : &graph_.locations[static_cast<size_t>(caller)],
           Ref<PyCodeObject>::create(code), static_cast<int>(number(PyTuple_GET_ITEM(item, 1)))});
    }
  }

  void scopes(PyObject* list) {
    // (path, class, n-th call, position of the outer one or -1)
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
      PyObject* item = PyList_GET_ITEM(list, i);
      int64_t outer = number(PyTuple_GET_ITEM(item, 3));
      graph_.scopes.push_back({outer < 0 ? nullptr : &graph_.scopes[static_cast<size_t>(outer)],
                               textOf(PyTuple_GET_ITEM(item, 0)), newRef(PyTuple_GET_ITEM(item, 1)),
                               static_cast<int>(number(PyTuple_GET_ITEM(item, 2)))});
    }
  }

  void nodes(PyObject* list) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) node(PyList_GET_ITEM(list, i));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
      PyObject* structure = PyDict_GetItemString(PyList_GET_ITEM(list, i), "structure");
      if (structure != nullptr)
        graph_.nodes()[static_cast<size_t>(i)].structure = replace(structure);
    }
  }

 private:
  PyObject* field(const char* name) { return PyDict_GetItemString(current_, name); }

  const shapes::TensorMeta* facts() {
    PyObject* tuple = field("facts");
    if (tuple == nullptr || tuple == Py_None) return nullptr;
    shapes::TensorMeta& meta = graph_.metas.emplace_back();
    meta.sizes = dims(PyTuple_GET_ITEM(tuple, 0));
    meta.strides = dims(PyTuple_GET_ITEM(tuple, 1));
    meta.dtype = static_cast<shapes::DType>(number(PyTuple_GET_ITEM(tuple, 2)));
    meta.device = static_cast<shapes::DeviceType>(number(PyTuple_GET_ITEM(tuple, 3)));
    meta.device_index = static_cast<int16_t>(number(PyTuple_GET_ITEM(tuple, 4)));
    meta.requires_grad = number(PyTuple_GET_ITEM(tuple, 5)) != 0;
    meta.is_parameter = number(PyTuple_GET_ITEM(tuple, 6)) != 0;
    return &meta;
  }

  // Steps from the root: (kind, key or index).
  const sources::Source* source() {
    PyObject* steps = field("source");
    if (steps == nullptr) return nullptr;
    const sources::Source* base = nullptr;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(steps); ++i) {
      PyObject* step = PyList_GET_ITEM(steps, i);
      PyObject* key = PyTuple_GET_ITEM(step, 1);
      sources::Source& made = handle_.sources.emplace_back();
      made.kind = kind(textOf(PyTuple_GET_ITEM(step, 0)));
      made.base = base;
      if (PyLong_Check(key)) {
        made.index = number(key);
      } else {
        made.key = newRef(key);
      }
      base = &made;
    }
    return base;
  }

  static sources::SourceKind kind(const std::string& name) {
    using sources::SourceKind;
    if (name == "local") return SourceKind::kLocal;
    if (name == "globals") return SourceKind::kGlobals;
    if (name == "attr") return SourceKind::kAttr;
    if (name == "parameter") return SourceKind::kParameter;
    if (name == "buffer") return SourceKind::kBuffer;
    if (name == "submodule") return SourceKind::kSubmodule;
    if (name == "dict_item") return SourceKind::kDictItem;
    STATOR_CHECK(name == "list_item", name);
    return SourceKind::kListItem;
  }

  Ref<> replace(PyObject* value) {
    if (Py_TYPE(value) == reinterpret_cast<PyTypeObject*>(marker_)) {
      Ref<> index = orThrow(PyObject_GetAttrString(value, "index"));
      Node& node = graph_.nodes()[static_cast<size_t>(number(index.get()))];
      return orThrow(
          makeStandIn(&node, node.meta, reinterpret_cast<PyObject*>(&PyBaseObject_Type)).release());
    }
    if (isContainer(value))
      return orThrow(rebuilt(value, [&](PyObject* item) { return replace(item); }).release());
    return newRef(value);
  }

  void node(PyObject* description) {
    current_ = description;
    std::string op = textOf(field("op"));
    Node* node = nullptr;
    if (op == "input") {
      PyObject* example = field("example");
      node = graph_.addInput(source(), example != nullptr ? newRef(example) : Ref<>(), nullptr);
    } else {
      PyObject* kwargs = field("kwargs");
      node = graph_.addCall(op == "call_method" ? Op::kCallMethod : Op::kCallFunction,
                            newRef(field("target")), replace(field("args")),
                            kwargs != nullptr ? replace(kwargs) : Ref<>());
    }
    node->meta = facts();
    node->mutates = field("mutates") == Py_True;
    if (PyObject* type = field("scalar_type")) node->scalar_type = newRef(type);
    if (PyObject* name = field("name")) node->name_hint = textOf(name);
    if (PyObject* at = field("location"))
      node->location = &graph_.locations[static_cast<size_t>(number(at))];
    if (PyObject* at = field("scope"))
      node->scope = &graph_.scopes[static_cast<size_t>(number(at))];
  }

  Handle& handle_;
  Graph& graph_;
  PyObject* marker_;
  PyObject* current_ = nullptr;
};

// graph_build(marker, nodes, outputs, locations=[], scopes=[])
PyObject* build(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject* marker = nullptr;
    PyObject* nodes = nullptr;
    PyObject* outputs = nullptr;
    PyObject* locations = nullptr;
    PyObject* scopes = nullptr;
    if (!PyArg_ParseTuple(args, "OO!O!|O!O!", &marker, &PyList_Type, &nodes, &PyList_Type, &outputs,
                          &PyList_Type, &locations, &PyList_Type, &scopes)) {
      throw PythonError();
    }
    auto handle = std::make_unique<Handle>();
    Description description(*handle, marker);
    if (locations != nullptr) description.locations(locations);
    if (scopes != nullptr) description.scopes(scopes);
    description.nodes(nodes);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(outputs); ++i) {
      handle->graph->addOutput(
          &handle->graph->nodes()[static_cast<size_t>(number(PyList_GET_ITEM(outputs, i)))]);
    }
    Ref<> capsule = orThrow(PyCapsule_New(handle.get(), kCapsule, [](PyObject* dying) {
      delete static_cast<Handle*>(PyCapsule_GetPointer(dying, kCapsule));
    }));
    static_cast<void>(handle.release());  // NOLINT(bugprone-unused-return-value): the capsule's now
    return capsule;
  });
}

PyCodeObject* codeOf(PyObject* object) {
  return object != nullptr && PyCode_Check(object) ? reinterpret_cast<PyCodeObject*>(object)
                                                   : nullptr;
}

PyObject* text(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject* handle = nullptr;
    PyObject* code = nullptr;
    if (!PyArg_ParseTuple(args, "O|O", &handle, &code)) throw PythonError();
    return orThrow(PyUnicode_FromString(handleOf(handle).graph->text(codeOf(code)).c_str()));
  });
}

PyObject* dropDead(PyObject*, PyObject* handle) {
  return guarded([&] {
    handleOf(handle).graph->dropDead();
    return newRef(Py_None);
  });
}

PyObject* truncate(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject* handle = nullptr;
    Py_ssize_t length = 0;
    if (!PyArg_ParseTuple(args, "On", &handle, &length)) throw PythonError();
    handleOf(handle).graph->truncate(static_cast<size_t>(length));
    return newRef(Py_None);
  });
}

PyObject* runner(PyObject*, PyObject* handle) {
  return guarded([&] { return orThrow(makeRunner(handleOf(handle).graph).release()); });
}

PyObject* toFx(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject* handle = nullptr;
    PyObject* code = nullptr;
    if (!PyArg_ParseTuple(args, "O|O", &handle, &code)) throw PythonError();
    return orThrow(toGraphModule(handleOf(handle).graph, codeOf(code)).release());
  });
}

PyObject* fxGraph(PyObject*, PyObject* record) {
  return guarded([&] { return makeFxGraph(record); });
}

// graph_compile(handle, module, backend) -> (callable, [(kind, inputs, others)])
PyObject* compileFromPython(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject* handle = nullptr;
    PyObject* module = nullptr;
    PyObject* backend = nullptr;
    if (!PyArg_ParseTuple(args, "OOO", &handle, &module, &backend)) throw PythonError();
    Compiled compiled = compile(handleOf(handle).graph, module, backend);
    if (!compiled.callable) throw PythonError();
    Ref<> guards = orThrow(PyList_New(0));
    auto list = [](const std::vector<int>& positions) {
      Ref<> made = orThrow(PyList_New(0));
      for (int position : positions) {
        if (PyList_Append(made.get(), orThrow(PyLong_FromLong(position)).get()) < 0)
          throw PythonError();
      }
      return made;
    };
    for (const BackendGuard& guard : compiled.guards) {
      Ref<> item = orThrow(
          Py_BuildValue("(sNN)", guard.kind == BackendGuard::Kind::kSameInput ? "same" : "overlap",
                        list(guard.inputs).release(), list(guard.others).release()));
      if (PyList_Append(guards.get(), item.get()) < 0) throw PythonError();
    }
    return orThrow(PyTuple_Pack(2, compiled.callable.get(), guards.get()));
  });
}

PyObject* source(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject* graph = nullptr;
    PyObject* helpers = nullptr;
    if (!PyArg_ParseTuple(args, "OO", &graph, &helpers)) throw PythonError();
    return orThrow(fxSource(graph, helpers).release());
  });
}

PyObject* standIn(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject* handle = nullptr;
    Py_ssize_t index = 0;
    if (!PyArg_ParseTuple(args, "On", &handle, &index)) throw PythonError();
    Node& node = handleOf(handle).graph->nodes()[static_cast<size_t>(index)];
    return orThrow(
        makeStandIn(&node, node.meta, reinterpret_cast<PyObject*>(&PyBaseObject_Type)).release());
  });
}

PyObject* leakFlag(PyObject*, PyObject*) { return PyBool_FromLong(takeLeakFlag() ? 1 : 0); }

}  // namespace

PyMethodDef graph_methods[] = {
    {"graph_build", build, METH_VARARGS,
     "graph_build(marker, nodes, outputs, locations=[], scopes=[]): a graph from its description"},
    {"graph_text", text, METH_VARARGS, "graph_text(graph, code=None): the text form"},
    {"graph_drop_dead", dropDead, METH_O, "Drops what no output needs."},
    {"graph_truncate", truncate, METH_VARARGS,
     "graph_truncate(graph, length): forgets the nodes behind the first `length`"},
    {"graph_runner", runner, METH_O, "A callable that runs the graph."},
    {"graph_to_fx", toFx, METH_VARARGS, "graph_to_fx(graph, code=None): the torch.fx.GraphModule"},
    {"fx_graph", fxGraph, METH_O, "fx_graph(record): the torch.fx.Graph of a captured graph"},
    {"graph_compile", compileFromPython, METH_VARARGS,
     "graph_compile(graph, module, backend): (callable, guards)"},
    {"fx_source", source, METH_VARARGS,
     "fx_source(graph, helpers): (source, globals, lines) of an FX graph, or None"},
    {"graph_stand_in", standIn, METH_VARARGS,
     "graph_stand_in(graph, index): a stand-in for a node"},
    {"graph_leak_flag", leakFlag, METH_NOARGS,
     "Whether a slot of a stand-in fired since the last call."},
    {nullptr}};

bool initTypes() {
  return initStandInType() && initRecordType() && initLazyMetaType() && initRunnerType();
}

}  // namespace stator::graph
