#include "runtime/differentiated.h"

#include "base/boundary.h"
#include "base/error_aside.h"
#include "base/imports.h"
#include "graph/graph_runner.h"
#include "regions/cuts.h"
#include "runtime/active.h"
#include "shapes/infer.h"
#include "tensor/kept_inputs.h"
#include "tensor/torch_function.h"

#include <algorithm>
#include <structmember.h>

namespace stator::runtime {
namespace {

// A compiled graph, and what its first run has shown.
struct Watched {
  Ref<> compiled;
  Ref<> runner;   // of the graph as it was captured; null: it does not compute the same again
  Ref<> written;  // positions of inputs that only count and average, as a tuple
  GraphName name;
  // What of the results of autograd's function the outputs are, as a tuple, and which output leads to the function over
  // how many others. Null: no run was looked at; None: there is no such function.
  Ref<> places;
  Py_ssize_t output = 0, between = 0;
};

struct Differentiated {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  Watched* graph;
};

Watched& as(PyObject* self) { return *reinterpret_cast<Differentiated*>(self)->graph; }

// What a run leaves with autograd's function.
struct Kept {
  Ref<> graph;  // Differentiated
  tensor::KeptInputs inputs;
};

struct Run {
  PyObject_HEAD
  Kept* kept;
};

Kept& asRun(PyObject* self) { return *reinterpret_cast<Run*>(self)->kept; }

void freeRun(PyObject* self) {
  PyObject_GC_UnTrack(self);
  delete std::exchange(reinterpret_cast<Run*>(self)->kept, nullptr);
  PyObject_GC_Del(self);
}

int traverseRun(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(asRun(self).graph.get());
  return 0;
}

PyObject* inputsOf(PyObject* self, PyObject*) {
  return guarded([&] { return asRun(self).inputs.list().release(); });
}

PyObject* placesOf(PyObject* self, PyObject*) {
  return newRef(as(asRun(self).graph.get()).places.get()).release();
}

PyObject* writtenOf(PyObject* self, PyObject*) {
  return newRef(as(asRun(self).graph.get()).written.get()).release();
}

// The graph as it was captured, with other inputs.
PyObject* compute(PyObject* self, PyObject* inputs) {
  return guarded([&]() -> PyObject* {
    HookDisabledScope disabled;
    Ref<> given = orThrow(PySequence_Tuple(inputs));
    return PyObject_Call(as(asRun(self).graph.get()).runner.get(), given.get(), nullptr);
  });
}

PyMethodDef run_methods[] = {{"inputs", inputsOf, METH_NOARGS, nullptr},
                             {"places", placesOf, METH_NOARGS, nullptr},
                             {"written", writtenOf, METH_NOARGS, nullptr},
                             {"compute", compute, METH_O, nullptr},
                             {nullptr}};

PyTypeObject makeRunType() {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "stator._core.KeptRun";
  type.tp_basicsize = sizeof(Run);
  type.tp_dealloc = freeRun;
  type.tp_traverse = traverseRun;
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  type.tp_doc =
      "The inputs of a compiled graph's run, for gradients that are differentiated again.";
  type.tp_methods = run_methods;
  return type;
}

PyTypeObject run_type = makeRunType();

PyObject* attributeName(const char* text) { return PyUnicode_InternFromString(text); }

// The function of autograd's that was found at the first run, of this run. Null: it is not there.
Ref<> functionBehind(const Watched& graph, PyObject* outputs) {
  static PyObject* const grad_fn = attributeName("grad_fn");
  static PyObject* const next_functions = attributeName("next_functions");
  if (graph.output >= PySequence_Fast_GET_SIZE(outputs)) return nullptr;
  PyObject* output = PySequence_Fast_GET_ITEM(outputs, graph.output);
  Ref<> function = orThrow(PyObject_GetAttr(output, grad_fn));
  for (Py_ssize_t i = 0; i < graph.between && function.get() != Py_None; ++i) {
    Ref<> next = orThrow(PyObject_GetAttr(function.get(), next_functions));
    if (!PyTuple_Check(next.get()) || PyTuple_GET_SIZE(next.get()) != 1) return nullptr;
    function = newRef(PyTuple_GET_ITEM(PyTuple_GET_ITEM(next.get(), 0), 0));
  }
  return function.get() == Py_None ? nullptr : std::move(function);
}

bool autocasts() {
  const shapes::State state = shapes::State::now();
  return state.autocast_cpu || state.autocast_cuda;
}

void look(Watched& graph, PyObject* outputs) {
  Ref<> home = orThrow(importModule("stator._twice"));
  Ref<> found =
      orThrow(PyObject_CallMethod(home.get(), "look", "OsOl", outputs, graph.name.place.c_str(),
                                  graph.name.backend.get(), graph.name.number));
  PyObject* places = Py_None;
  if (found.get() != Py_None &&
      PyArg_ParseTuple(found.get(), "nnO", &graph.output, &graph.between, &places) == 0)
    throw PythonError();
  graph.places = newRef(places);
}

void noteRun(PyObject* self, PyObject* const* inputs, size_t count, PyObject* outputs) {
  Watched& graph = as(self);
  if (graph.places && (graph.places.get() == Py_None || !graph.runner)) return;
  tensor::TorchFunctionPause plain(true);
  if (!graph.places) look(graph, outputs);
  if (graph.places.get() == Py_None || !graph.runner || autocasts()) return;
  Ref<> function = functionBehind(graph, outputs);
  if (!function) return;
  auto* run = PyObject_GC_New(Run, &run_type);
  if (run == nullptr) throw PythonError();
  run->kept = new Kept{newRef(self), tensor::KeptInputs(inputs, count)};
  Ref<> kept = Ref<>::steal(reinterpret_cast<PyObject*>(run));
  PyObject_GC_Track(kept.get());
  static PyObject* const name = attributeName("_stator_run");
  if (PyObject_SetAttr(function.get(), name, kept.get()) < 0) throw PythonError();
}

PyObject* call(PyObject* self, PyObject* const* args, size_t flags, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    Ref<> outputs = stealRef(PyObject_Vectorcall(as(self).compiled.get(), args, flags, keywords));
    const bool fits = outputs && (PyTuple_Check(outputs.get()) || PyList_Check(outputs.get()));
    if (!fits || !shapes::State::now().grad_enabled) return outputs.release();
    try {
      noteRun(self, args, static_cast<size_t>(PyVectorcall_NARGS(flags)), outputs.get());
    } catch (const PythonError&) {
      PyErr_Clear();  // what is not noted is missed by errors and by second gradients alone
    }
    return outputs.release();
  });
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  if (reinterpret_cast<Differentiated*>(self)->graph == nullptr) return 0;
  const Watched& graph = as(self);
  for (const Ref<>* one : {&graph.compiled, &graph.runner, &graph.name.backend})
    Py_VISIT(one->get());
  return 0;
}

int clear(PyObject* self) {
  delete std::exchange(reinterpret_cast<Differentiated*>(self)->graph, nullptr);
  return 0;
}

void deallocate(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear(self);
  PyObject_GC_Del(self);
}

PyObject* wrappedOf(PyObject* self, void*) { return newRef(as(self).compiled.get()).release(); }

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Differentiated, vectorcall), READONLY, nullptr},
    {nullptr}};
// What looks through the callables around a backend's code.
PyGetSetDef properties[] = {{"__wrapped__", wrappedOf, nullptr, nullptr, nullptr}, {nullptr}};

PyTypeObject makeType() {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "stator._core.DifferentiatedGraph";
  type.tp_basicsize = sizeof(Differentiated);
  type.tp_dealloc = deallocate;
  type.tp_vectorcall_offset = offsetof(Differentiated, vectorcall);
  type.tp_call = PyVectorcall_Call;
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                  Py_TPFLAGS_DISALLOW_INSTANTIATION;
  type.tp_doc = "A compiled graph whose gradients may be differentiated again.";
  type.tp_traverse = traverse;
  type.tp_clear = clear;
  type.tp_members = members;
  type.tp_getset = properties;
  return type;
}

PyTypeObject differentiated_type = makeType();

// Whether the graph computes the same when it is computed again: no random numbers, and what it writes to are numbers
// that it only keeps, the statistics of normalisations.
bool computesTheSame(const graph::Graph& graph) {
  for (const graph::Node& node : graph.nodes()) {
    if (node.random || node.op == graph::Op::kAttribute || node.wrapper) return false;
  }
  return regions::writesStatisticsOnly(graph);
}

bool mayBeDifferentiated(const graph::Graph& graph) {
  auto differentiable = [](const graph::Node* node) {
    return node->meta != nullptr && node->meta->requires_grad;
  };
  return std::any_of(graph.inputs().begin(), graph.inputs().end(), differentiable) &&
         std::any_of(graph.outputs().begin(), graph.outputs().end(), differentiable);
}

}  // namespace

bool initDifferentiatedTypes() {
  return PyType_Ready(&run_type) == 0 && PyType_Ready(&differentiated_type) == 0;
}

Ref<> differentiated(const std::shared_ptr<graph::Graph>& graph, Ref<> compiled, GraphName name) {
  if (!mayBeDifferentiated(*graph) || graph::executorOf(compiled.get()) != nullptr) return compiled;
  Ref<> written = orThrow(PyList_New(0));
  for (size_t i = 0; i < graph->inputs().size(); ++i) {
    if (!graph->inputs()[i]->written) continue;
    Ref<> position = orThrow(PyLong_FromSize_t(i));
    if (PyList_Append(written.get(), position.get()) < 0) throw PythonError();
  }
  Ref<> positions = orThrow(PyList_AsTuple(written.get()));
  Ref<> runner = computesTheSame(*graph) ? graph::makeRunner(graph) : Ref<>();
  auto* self = PyObject_GC_New(Differentiated, &differentiated_type);
  if (self == nullptr) throw PythonError();
  self->vectorcall = call;
  self->graph = new Watched{.compiled = std::move(compiled),
                            .runner = std::move(runner),
                            .written = std::move(positions),
                            .name = std::move(name)};
  auto* object = reinterpret_cast<PyObject*>(self);
  PyObject_GC_Track(object);
  return Ref<>::steal(object);
}

}  // namespace stator::runtime
