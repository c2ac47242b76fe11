// torch's optimizers in a trace. Their first step makes the state of each parameter, and its graph would serve that
// step alone: so the state is made before, by the optimizer itself, as the call under way would do next. And those that
// ask for the number of steps take the form that asks in tensors (capturable).
#include "interpret/calls/inlining.h"
#include "interpret/calls/rows.h"
#include "interpret/core/known.h"
#include "interpret/core/tables.h"
#include "python/objects.h"

#include <algorithm>

namespace stator::interpret {

namespace {

// Something that a state is made of (groups, gradients) may not be what the trace takes it for.
bool hasWritten(Tracer& t, PyObject* optimizer) {
  for (const char* name : {"state", "param_groups"}) {
    values::Info* info = t.values.find(optimizer);
    if (info->overlay && PyDict_GetItemString(info->overlay.get(), name) != nullptr) return true;
  }
  for (const values::Info* info : t.values.all()) {
    if (info->dirty || info->appended) return true;
    if (info->attribute_part && info->attribute_part->overlay) return true;
    if (info->overlay && info->object.get() != optimizer) return true;
  }
  for (const graph::Node& node : t.graphs.current().nodes()) {
    if (node.mutates && !node.sets_mode) return true;
  }
  return t.torch_function.relevant() || !t.torch.settings().empty();
}

// Null: it is not a plain attribute. Borrowed.
PyObject* attributeOf(PyObject* optimizer, const char* name) {
  Ref<> text = stealRef(PyUnicode_InternFromString(name));
  PyObject* found = nullptr;
  return stator_object_lookup(optimizer, text.get(), &found) == STATOR_FOUND ? found : nullptr;
}

void makeStates(Tracer& t, PyObject* function, PyObject* optimizer) {
  if (!t.values.isOutside(optimizer)) return;
  PyObject* state = attributeOf(optimizer, "state");
  PyObject* groups = attributeOf(optimizer, "param_groups");
  // What the trace has seen of the state has to stay as it was.
  if (state == nullptr || groups == nullptr || !PyList_CheckExact(groups) ||
      t.values.find(state) != nullptr || hasWritten(t, optimizer))
    return;
  shapes::State now = t.torch.now();
  now.grad_enabled = t.torch.initial().grad_enabled;
  if (!(now == t.torch.initial())) return;
  const int count = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function))->co_argcount;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(groups); ++i) {
    std::vector<Ref<>> lists;
    std::vector<PyObject*> args = {optimizer, PyList_GET_ITEM(groups, i)};
    for (int k = 2; k < count; ++k)
      args.push_back(lists.emplace_back(stealRef(PyList_New(0))).get());
    Ref<> done = stealRef(PyObject_Vectorcall(function, args.data(), args.size(), nullptr));
    if (!done) PyErr_Clear();  // the trace comes to the same error
  }
}

Out initGroup(Tracer& t, PyObject* function, const Args& args) {
  if (args.positional > 0) makeStates(t, function, args.values[0]);
  return enterFunction(t, function, args, Continuation::kPush);
}

const shapes::TensorMeta* metaAt(PyObject* list, Py_ssize_t i) {
  PyObject* item = PyList_GET_ITEM(list, i);
  return graph::isStandIn(item) ? graph::asStandIn(item)->meta : nullptr;
}

// Whether the counters of steps (one of the lists, of tensors without sizes) are where the parameters are.
bool countsBeside(const Args& args) {
  PyObject* parameters = args.positional > 0 ? args.values[0] : nullptr;
  if (parameters == nullptr || !PyList_CheckExact(parameters)) return false;
  for (PyObject* list : args.values) {
    if (!PyList_CheckExact(list) || PyList_GET_SIZE(list) != PyList_GET_SIZE(parameters)) continue;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
      const shapes::TensorMeta *own = metaAt(list, i), *of = metaAt(parameters, i);
      if (own == nullptr || of == nullptr || own->device != of->device ||
          own->device_index != of->device_index)
        return false;
    }
  }
  return true;
}

Out asCapturable(Tracer& t, PyObject* function, const Args& args) {
  Args changed = args;
  for (size_t i = args.positional; i < args.values.size(); ++i) {
    if (PyUnicode_CompareWithASCIIString(args.name(i - args.positional), "capturable") == 0 &&
        args.values[i] == Py_False && countsBeside(args))
      changed.values[i] = Py_True;
  }
  return enterFunction(t, function, changed, Continuation::kPush);
}

void registerFunction(const char* path, FunctionHandler handler) {
  PyObject* function = torchObject(path);
  static PyObject* const original = PyUnicode_InternFromString("_torchdynamo_orig_callable");
  if (function == nullptr || !PyFunction_Check(function)) return;
  // TorchDynamo puts its own wrappers there.
  PyObject* dict = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  PyObject* behind = dict != nullptr ? PyDict_GetItemWithError(dict, original) : nullptr;
  if (behind != nullptr && PyFunction_Check(behind)) function = behind;
  registerCode(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function)), handler);
}

}  // namespace

void registerOptimizerStates() {
  for (const char* path : {"torch.optim.ASGD._init_group", "torch.optim.Adadelta._init_group",
                           "torch.optim.Adafactor._init_group", "torch.optim.Adagrad._init_group",
                           "torch.optim.Adam._init_group", "torch.optim.Adamax._init_group",
                           "torch.optim.Muon._init_group", "torch.optim.NAdam._init_group",
                           "torch.optim.RAdam._init_group", "torch.optim.RMSprop._init_group",
                           "torch.optim.Rprop._init_group", "torch.optim.SGD._init_group"})
    registerFunction(path, initGroup);
  for (const char* path :
       {"torch.optim.radam._single_tensor_radam", "torch.optim.radam._multi_tensor_radam",
        "torch.optim.asgd._single_tensor_asgd", "torch.optim.asgd._multi_tensor_asgd"})
    registerFunction(path, asCapturable);
}

}  // namespace stator::interpret
