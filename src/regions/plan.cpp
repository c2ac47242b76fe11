#include "regions/plan.h"

#include "base/boundary.h"
#include "tensor/profiler_region.h"
#include "tensor/torch_function.h"

#include <memory>
#include <structmember.h>

namespace stator::regions {

namespace {

struct PlanObject {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  Plan* plan;
};

Plan* as(PyObject* self) { return reinterpret_cast<PlanObject*>(self)->plan; }

// Null with a Python error set.
Ref<> callStep(const Step& step, PyObject* const* inputs, std::vector<Ref<>>& slots,
               std::vector<PyObject*>& window) {
  auto at = [&](const Place& place) {
    return place.is_input ? inputs[place.index] : slots[place.index].get();
  };
  if (!step.takes_list) {
    window.clear();
    std::vector<Ref<>> without_history;
    for (const Place& place : step.arguments) {
      window.push_back(at(place));
      if (!place.detached) continue;
      without_history.push_back(tensor::detached(window.back()));
      if (!without_history.back()) return nullptr;
      window.back() = without_history.back().get();
    }
    Ref<> given =
        stealRef(PyObject_Vectorcall(step.callable.get(), window.data(), window.size(), nullptr));
    for (const Place& place : step.arguments) {
      if (place.dies) slots[place.index].reset();
    }
    return given;
  }
  Ref<> list = stealRef(PyList_New(static_cast<Py_ssize_t>(step.arguments.size())));
  if (!list) return list;
  for (size_t i = 0; i < step.arguments.size(); ++i) {
    const Place& place = step.arguments[i];
    // Nobody else holds what is needed no more: the callee frees it as soon as it can.
    PyObject* value = place.dies ? slots[place.index].release() : newRef(at(place)).release();
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), value);
  }
  return stealRef(PyObject_CallOneArg(step.callable.get(), list.get()));
}

bool takeResults(const Step& step, PyObject* given, std::vector<Ref<>>& slots) {
  const bool fits = (PyTuple_Check(given) || PyList_Check(given)) &&
                    static_cast<size_t>(Py_SIZE(given)) >= step.results.size();
  if (!fits) {
    PyErr_Format(PyExc_TypeError,
                 "the backend's callable for a region returned a %.200s: it has to return a tuple "
                 "or list of the region's outputs (%zu)",
                 Py_TYPE(given)->tp_name, step.results.size());
    return false;
  }
  for (size_t i = 0; i < step.results.size(); ++i)
    slots[step.results[i]] = newRef(PySequence_Fast_GET_ITEM(given, static_cast<Py_ssize_t>(i)));
  return true;
}

PyObject* run(const Plan& plan, PyObject* const* inputs, size_t count) {
  if (count != plan.inputs) {
    PyErr_Format(PyExc_TypeError, "the graph takes %zu inputs, %zu were given", plan.inputs, count);
    return nullptr;
  }
  std::vector<Ref<>> slots(plan.slots);
  std::vector<PyObject*> window;
  const bool profiled = tensor::isProfiled();
  for (const Step& step : plan.steps) {
    tensor::ProfilerRegion shown;
    if (profiled) [[unlikely]]
      shown.begin(step.name);
    Ref<> given = callStep(step, inputs, slots, window);
    if (!given || !takeResults(step, given.get(), slots)) return nullptr;
  }
  Ref<> outputs = stealRef(PyTuple_New(static_cast<Py_ssize_t>(plan.outputs.size())));
  for (size_t i = 0; outputs && i < plan.outputs.size(); ++i) {
    const Place& place = plan.outputs[i];
    PyObject* value = place.is_input ? inputs[place.index] : slots[place.index].get();
    PyTuple_SET_ITEM(outputs.get(), static_cast<Py_ssize_t>(i), newRef(value).release());
  }
  return outputs.release();
}

PyObject* call(PyObject* self, PyObject* const* args, size_t flags, PyObject* keywords) {
  if (keywords != nullptr && PyTuple_GET_SIZE(keywords) > 0) {
    PyErr_SetString(PyExc_TypeError, "a graph takes no keyword arguments");
    return nullptr;
  }
  return guarded(
      [&] { return run(*as(self), args, static_cast<size_t>(PyVectorcall_NARGS(flags))); });
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  if (as(self) == nullptr) return 0;
  for (const Step& step : as(self)->steps) Py_VISIT(step.callable.get());
  return 0;
}

int clear(PyObject* self) {
  delete std::exchange(reinterpret_cast<PlanObject*>(self)->plan, nullptr);
  return 0;
}

void deallocate(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear(self);
  PyObject_GC_Del(self);
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(PlanObject, vectorcall), READONLY, nullptr},
    {nullptr}};

PyTypeObject makeType() {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "stator._core.RegionPlan";
  type.tp_basicsize = sizeof(PlanObject);
  type.tp_dealloc = deallocate;
  type.tp_vectorcall_offset = offsetof(PlanObject, vectorcall);
  type.tp_call = PyVectorcall_Call;
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                  Py_TPFLAGS_DISALLOW_INSTANTIATION;
  type.tp_doc = "Runs the compiled regions of a graph.";
  type.tp_traverse = traverse;
  type.tp_clear = clear;
  type.tp_members = members;
  return type;
}

PyTypeObject plan_type = makeType();

}  // namespace

Ref<> makePlan(Plan plan) {
  if (PyType_Ready(&plan_type) < 0) throw PythonError();
  auto* self = PyObject_GC_New(PlanObject, &plan_type);
  if (self == nullptr) throw PythonError();
  self->vectorcall = call;
  self->plan = new Plan(std::move(plan));
  auto* object = reinterpret_cast<PyObject*>(self);
  PyObject_GC_Track(object);
  return Ref<>::steal(object);
}

Ref<> stepsOf(PyObject* object) {
  if (Py_TYPE(object) != &plan_type || as(object) == nullptr) return nullptr;
  Ref<> names = orThrow(PyList_New(0));
  for (const Step& step : as(object)->steps) {
    Ref<> name = orThrow(PyUnicode_FromString(step.name.c_str()));
    if (PyList_Append(names.get(), name.get()) < 0) throw PythonError();
  }
  return names;
}

}  // namespace stator::regions
