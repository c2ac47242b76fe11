#include "debug/debug_module.h"

#include "base/boundary.h"
#include "base/text.h"
#include "debug/edit.h"
#include "debug/python_text.h"
#include "debug/reduce.h"
#include "graph/fx.h"
#include "graph/graph_runner.h"

namespace stator::debug {

namespace {

struct SpecimenObject {
  PyObject_HEAD
  Specimen* specimen;
};

PyTypeObject* specimen_type = nullptr;

const Specimen& get(PyObject* self) { return *reinterpret_cast<SpecimenObject*>(self)->specimen; }

Ref<> wrap(Specimen specimen) {
  Ref<> made = orThrow(specimen_type->tp_alloc(specimen_type, 0));
  reinterpret_cast<SpecimenObject*>(made.get())->specimen = new Specimen(std::move(specimen));
  return made;
}

Ref<> str(const std::string& text) {
  return orThrow(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

template <class Items, class Make>
Ref<> listOf(const Items& items, Make&& make) {
  Ref<> list = orThrow(PyList_New(0));
  for (const auto& item : items) {
    if (PyList_Append(list.get(), make(item).get()) < 0) throw PythonError();
  }
  return list;
}

std::vector<int> indices(const Specimen& specimen, PyObject* names) {
  Ref<> list = orThrow(PySequence_List(names));
  std::vector<int> made;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
    const char* name = utf8OrError(PyList_GET_ITEM(list.get(), i));
    if (name == nullptr) throw PythonError();
    int index = specimen.find(name);
    if (index < 0) {
      PyErr_Format(PyExc_KeyError, "no value %s", name);
      throw PythonError();
    }
    made.push_back(index);
  }
  return made;
}

// (specimen, names of the calls that became inputs), or None
Ref<> answer(const Specimen& from, std::optional<Edited> edited) {
  if (!edited) return newRef(Py_None);
  Ref<> cut = listOf(edited->cut, [&](int index) { return str(from.name(index)); });
  Ref<> specimen = wrap(std::move(edited->specimen));
  return orThrow(PyTuple_Pack(2, specimen.get(), cut.get()));
}

PyObject* fromFxFromPython(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject* graph = nullptr;
    PyObject* describe = nullptr;
    PyObject* function_at = nullptr;
    int is_body = 0;
    if (!PyArg_ParseTuple(args, "OO|pO", &graph, &describe, &is_body, &function_at))
      throw PythonError();
    return wrap(fromFx(graph, describe, function_at, is_body != 0));
  });
}

PyObject* inputs(PyObject* self, PyObject*) {
  return guarded([&] {
    return listOf(get(self).graph->inputs(),
                  [](const graph::Node* node) { return str(node->name_hint); });
  });
}

PyObject* outputs(PyObject* self, PyObject*) {
  return guarded([&] {
    return listOf(get(self).graph->outputs(),
                  [](const graph::Node* node) { return str(node->name_hint); });
  });
}

// (name, target, kind, facts, line, mutates) of each call
PyObject* calls(PyObject* self, PyObject*) {
  return guarded([&] {
    const Specimen& specimen = get(self);
    return listOf(specimen.calls(), [&](int index) {
      const graph::Node& node = specimen.graph->nodes()[static_cast<size_t>(index)];
      const ValueFacts& facts = specimen.facts[static_cast<size_t>(index)];
      char kind[] = {static_cast<char>(facts.kind), 0};
      Ref<> name = str(node.name_hint);
      Ref<> text = str(facts.text);
      Ref<> line = str(facts.line);
      return orThrow(Py_BuildValue("(OOsOOO)", name.get(), node.target.get(), kind, text.get(),
                                   line.get(), node.mutates ? Py_True : Py_False));
    });
  });
}

PyObject* callCount(PyObject* self, PyObject*) {
  return PyLong_FromSize_t(get(self).graph->callCount());
}

PyObject* hashFromPython(PyObject* self, PyObject*) {
  return guarded([&] { return orThrow(PyLong_FromUnsignedLongLong(hashOf(get(self)))); });
}

// learn({name: (kind, facts)}): what a run has shown of the values
PyObject* learn(PyObject* self, PyObject* told) {
  return guarded([&] {
    Specimen& specimen = *reinterpret_cast<SpecimenObject*>(self)->specimen;
    PyObject* name = nullptr;
    PyObject* value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(told, &at, &name, &value);) {
      const char* kind = nullptr;
      const char* facts = nullptr;
      const char* text = utf8OrError(name);
      if (text == nullptr || !PyArg_ParseTuple(value, "ss", &kind, &facts)) throw PythonError();
      int index = specimen.find(text);
      if (index < 0) continue;
      specimen.facts[static_cast<size_t>(index)].kind = static_cast<Kind>(kind[0]);
      specimen.facts[static_cast<size_t>(index)].text = facts;
    }
    return newRef(Py_None);
  });
}

PyObject* text(PyObject* self, PyObject* spell) {
  return guarded([&] {
    PythonText made = pythonText(get(self), spell);
    Ref<> parameters = listOf(made.parameters, [](const std::string& name) { return str(name); });
    return orThrow(PyTuple_Pack(2, parameters.get(), str(made.body).get()));
  });
}

PyObject* literal(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject* value = nullptr;
    PyObject* spell = nullptr;
    if (!PyArg_ParseTuple(args, "OO", &value, &spell)) throw PythonError();
    return str(pythonLiteral(value, spell));
  });
}

PyObject* runner(PyObject* self, PyObject*) {
  return guarded([&] { return orThrow(graph::makeRunner(get(self).graph).release()); });
}

// The examples belong to the graph module that is made next; the call of the backend drops them.
PyObject* withExamples(PyObject* self, PyObject* values) {
  return guarded([&] {
    Specimen copy = withInts(get(self), 0, 0);
    const auto& inputs = copy.graph->inputs();
    Ref<> list = orThrow(PySequence_List(values));
    if (static_cast<size_t>(PyList_GET_SIZE(list.get())) != inputs.size()) {
      PyErr_Format(PyExc_ValueError, "%zu inputs, %zd examples", inputs.size(),
                   PyList_GET_SIZE(list.get()));
      throw PythonError();
    }
    for (size_t i = 0; i < inputs.size(); ++i)
      inputs[i]->example = newRef(PyList_GET_ITEM(list.get(), static_cast<Py_ssize_t>(i)));
    return wrap(std::move(copy));
  });
}

PyObject* toFx(PyObject* self, PyObject* args) {
  return guarded([&] {
    const char* name = "";
    if (!PyArg_ParseTuple(args, "|s", &name)) throw PythonError();
    get(self).graph->name = name;
    return orThrow(graph::toGraphModule(get(self).graph, nullptr).release());
  });
}

PyObject* keep(PyObject* self, PyObject* names) {
  return guarded([&] {
    const Specimen& from = get(self);
    std::vector<bool> kept(from.graph->nodes().size(), false);
    for (int index : indices(from, names)) kept[static_cast<size_t>(index)] = true;
    return answer(from, keepCalls(from, kept));
  });
}

PyObject* withIntsFromPython(PyObject* self, PyObject* args) {
  return guarded([&] {
    long long was = 0;
    long long is = 0;
    if (!PyArg_ParseTuple(args, "LL", &was, &is)) throw PythonError();
    return wrap(withInts(get(self), was, is));
  });
}

PyObject* snapshots(PyObject* self, PyObject* args) {
  return guarded([&] {
    PyObject* names = nullptr;
    PyObject* snapshot = nullptr;
    if (!PyArg_ParseTuple(args, "OO", &names, &snapshot)) throw PythonError();
    return wrap(withSnapshots(get(self), indices(get(self), names), snapshot));
  });
}

// reduce(still_fails, passes, body_of): passes of "calls", "functions", "values", "constants"; still_fails(from,
// candidate, names cut, pass)
// -> bool; body_of(function) -> its specimen or None
PyObject* reduce(PyObject* self, PyObject* args) {
  return guarded([&] {
    PyObject* still_fails = nullptr;
    PyObject* passes = nullptr;
    PyObject* bodies = Py_None;
    if (!PyArg_ParseTuple(args, "OO!|O", &still_fails, &PyTuple_Type, &passes, &bodies))
      throw PythonError();
    std::vector<Ref<>> kept;  // specimens that the reducer looks at
    auto body_of = [&](PyObject* function) -> const Specimen* {
      if (bodies == Py_None) return nullptr;
      Ref<> found = orThrow(PyObject_CallOneArg(bodies, function));
      if (Py_TYPE(found.get()) != specimen_type) return nullptr;
      kept.push_back(found);
      return &get(found.get());
    };
    auto ask = [&](const Specimen& from, const Edited& candidate, const std::string& pass) {
      Ref<> old = wrap(from);
      Ref<> made = wrap(candidate.specimen);
      Ref<> cut = listOf(candidate.cut, [&](int index) { return str(from.name(index)); });
      Ref<> verdict = orThrow(PyObject_CallFunctionObjArgs(still_fails, old.get(), made.get(),
                                                           cut.get(), str(pass).get(), nullptr));
      int truth = PyObject_IsTrue(verdict.get());
      if (truth < 0) throw PythonError();
      return truth != 0;
    };
    Reducer reducer(get(self), ask, body_of);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(passes); ++i) {
      PyObject* pass = PyTuple_GET_ITEM(passes, i);
      if (PyUnicode_CompareWithASCIIString(pass, "calls") == 0) {
        reducer.reduceCalls();
      } else if (PyUnicode_CompareWithASCIIString(pass, "functions") == 0) {
        reducer.inlineFunctions();
      } else if (PyUnicode_CompareWithASCIIString(pass, "values") == 0) {
        reducer.reduceValues();
      } else if (PyUnicode_CompareWithASCIIString(pass, "constants") == 0) {
        reducer.reduceConstants();
      } else {
        PyErr_Format(PyExc_ValueError, "no pass %R", pass);
        throw PythonError();
      }
    }
    return wrap(reducer.current());
  });
}

void deallocate(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<SpecimenObject*>(self)->specimen;
  type->tp_free(self);
  Ref<>::steal(reinterpret_cast<PyObject*>(type)).reset();
}

PyMethodDef methods[] = {
    {"from_fx", fromFxFromPython, METH_VARARGS | METH_STATIC,
     "from_fx(graph, describe, is_body=False, function_at): describe(node) gives (kind, facts, "
     "line, "
     "mutates), function_at(node) a function or None"},
    {"inputs", inputs, METH_NOARGS, "Names of the inputs."},
    {"outputs", outputs, METH_NOARGS, "Names of the outputs."},
    {"calls", calls, METH_NOARGS, "(name, target, kind, facts, line, mutates) of each call."},
    {"call_count", callCount, METH_NOARGS, "How many calls there are."},
    {"hash", hashFromPython, METH_NOARGS, "Equal for equal programs."},
    {"learn", learn, METH_O, "learn({name: (kind, facts)}): what a run has shown of the values"},
    {"text", text, METH_O, "text(spell): (parameters, body) as Python"},
    {"literal", literal, METH_VARARGS | METH_STATIC,
     "literal(value, spell): a value that belongs to no graph as Python"},
    {"runner", runner, METH_NOARGS, "A callable that runs it."},
    {"with_examples", withExamples, METH_O,
     "with_examples(values): a copy whose inputs have examples"},
    {"to_fx", toFx, METH_VARARGS,
     "to_fx(name=''): the torch.fx.GraphModule; with a name that of a function that a graph calls"},
    {"keep", keep, METH_O,
     "keep(names): (specimen with these calls alone, calls that became inputs), or None"},
    {"with_ints", withIntsFromPython, METH_VARARGS,
     "with_ints(was, is): another int in all arguments"},
    {"snapshots", snapshots, METH_VARARGS,
     "snapshots(names, function): the values when they were made, as outputs"},
    {"reduce", reduce, METH_VARARGS,
     "reduce(still_fails, passes, body_of=None): the smallest specimen found"},
    {nullptr}};

}  // namespace

bool addSpecimenType(PyObject* module) {
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
      {Py_tp_methods, methods},
      {Py_tp_doc, const_cast<char*>("A graph under examination, see stator.debug.")},
      {0, nullptr}};
  static PyType_Spec spec = {"stator._core.Specimen", sizeof(SpecimenObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  Ref<> type = Ref<>::steal(PyType_FromSpec(&spec));
  if (!type) return false;
  specimen_type = reinterpret_cast<PyTypeObject*>(type.get());
  return PyModule_AddObjectRef(module, "Specimen", type.get()) == 0;
}

}  // namespace stator::debug
