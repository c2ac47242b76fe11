#include "graph/graph_runner.h"

#include "base/check.h"
#include "graph/executor.h"

#include <structmember.h>

namespace stator::graph {

namespace {

struct Runner {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  std::shared_ptr<const Graph>* graph;  // until the executor is there
  Executor* executor;
  // the graph's address, which may be another one's later: a name, checked further by those who use it
  const void* graph_id;
};

// Looked at in each call of a graph: one load.
__attribute__((tls_model("initial-exec"))) thread_local int keeping_failures = 0;
__attribute__((tls_model("initial-exec"))) thread_local std::unique_ptr<FailedRun> last_failure;

Runner* as(PyObject* self) { return reinterpret_cast<Runner*>(self); }

const Executor* prepare(Runner* runner) {
  if (runner->executor == nullptr) {
    runner->executor = new Executor(**runner->graph);
    delete std::exchange(runner->graph, nullptr);
  }
  return runner->executor;
}

PyObject* call(PyObject* self, PyObject* const* args, size_t flags, PyObject* keywords) {
  if (keywords != nullptr && PyTuple_GET_SIZE(keywords) > 0) {
    PyErr_SetString(PyExc_TypeError, "a graph takes no keyword arguments");
    return nullptr;
  }
  try {
    FailedRun failed;
    Ref<> outputs =
        prepare(as(self))->run(args, static_cast<size_t>(PyVectorcall_NARGS(flags)), &failed);
    if (outputs) return outputs.release();
    addUserFrames(failed.location, true);
    if (keeping_failures > 0 && failed.executor != nullptr) {
      failed.executor = as(self)->graph_id;
      last_failure = std::make_unique<FailedRun>(std::move(failed));
    }
    return nullptr;
  } catch (const PythonError&) {
    return nullptr;
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  return as(self)->executor != nullptr ? as(self)->executor->traverse(visit, arg) : 0;
}

int clear(PyObject* self) {
  delete std::exchange(as(self)->graph, nullptr);
  delete std::exchange(as(self)->executor, nullptr);
  return 0;
}

void deallocate(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear(self);
  PyObject_GC_Del(self);
}

// A runner does not change: copies are the runner itself.
PyObject* same(PyObject* self, PyObject*) { return newRef(self).release(); }

PyMethodDef methods[] = {
    {"__copy__", same, METH_NOARGS, nullptr}, {"__deepcopy__", same, METH_O, nullptr}, {nullptr}};
PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Runner, vectorcall), READONLY, nullptr},
    {nullptr}};

PyTypeObject makeType() {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "stator._core.GraphRunner";
  type.tp_basicsize = sizeof(Runner);
  type.tp_dealloc = deallocate;
  type.tp_vectorcall_offset = offsetof(Runner, vectorcall);
  type.tp_call = PyVectorcall_Call;
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                  Py_TPFLAGS_DISALLOW_INSTANTIATION;
  type.tp_doc = "Runs a captured graph.";
  type.tp_traverse = traverse;
  type.tp_clear = clear;
  type.tp_methods = methods;
  type.tp_members = members;
  return type;
}

PyTypeObject runner_type = makeType();

}  // namespace

const Executor* executorOf(PyObject* callable) {
  return Py_TYPE(callable) == &runner_type ? prepare(as(callable)) : nullptr;
}

FailureScope::FailureScope() { keeping_failures++; }
FailureScope::~FailureScope() { keeping_failures--; }
std::unique_ptr<FailedRun> FailureScope::take() { return std::move(last_failure); }

bool initRunnerType() { return PyType_Ready(&runner_type) == 0; }

Ref<> makeRunner(std::shared_ptr<const Graph> graph) {
  auto* self = PyObject_GC_New(Runner, &runner_type);
  if (self == nullptr) return nullptr;
  self->vectorcall = call;
  self->graph_id = graph.get();
  self->graph = new std::shared_ptr<const Graph>(std::move(graph));
  self->executor = nullptr;
  auto* object = reinterpret_cast<PyObject*>(self);
  PyObject_GC_Track(object);
  return Ref<>::steal(object);
}

}  // namespace stator::graph
