// States of the process that a program sets for a while: which attention kernels may be used, whether saved-tensor hooks are allowed. A
// setter becomes a node, so that what follows it in the graph runs under the new state; the trace remembers what it set, and where it ends
// in another state than it began, the plan sets that state too (a backend may have traced the node away).
#include "interpret/calls/tables.h"
#include "interpret/torch_names.h"
#include "interpret/tracer.h"

namespace stator::interpret {

namespace {

struct StateRow {
  const char* setter;
  const char* getter;
  const char* unsetter = nullptr;  // takes no arguments and means None
};

constexpr StateRow kStates[] = {
    {"torch._C._set_sdp_use_flash", "torch._C._get_flash_sdp_enabled"},
    {"torch._C._set_sdp_use_mem_efficient", "torch._C._get_mem_efficient_sdp_enabled"},
    {"torch._C._set_sdp_use_math", "torch._C._get_math_sdp_enabled"},
    {"torch._C._set_sdp_use_cudnn", "torch._C._get_cudnn_sdp_enabled"},
    {"torch._C._set_sdp_use_overrideable", "torch._C._get_overrideable_sdp_enabled"},
    {"torch._C._set_sdp_priority_order", "torch._C._get_sdp_priority_order"},
    {"torch._C._autograd._saved_tensors_hooks_disable",
     "torch._C._autograd._saved_tensors_hooks_get_disabled_error_message",
     "torch._C._autograd._saved_tensors_hooks_enable"},
};
constexpr size_t kStateCount = std::size(kStates);

Out current(Tracer& t, size_t index) {
  auto it = t.process_states.find(index);
  if (it != t.process_states.end()) return it->second.now;
  return t.fromNative(stealRef(PyObject_CallNoArgs(torchObject(kStates[index].getter))));
}

Out change(Tracer& t, size_t index, const char* function, Ref<> value, Ref<> args) {
  if (t.process_states.count(index) == 0) {
    STATOR_VALUE(before, current(t, index));
    t.process_states[index] = {before, before};
  }
  graph::Node* node = t.graph->addCall(graph::Op::kCallFunction, newRef(torchObject(function)),
                                       std::move(args), Ref<>());
  node->mutates = node->sets_mode = true;
  node->location = t.location();
  node->scope = t.frames.back()->scope;
  t.process_states[index].now = std::move(value);
  t.nested_ran = true;
  return newRef(Py_None);
}

template <size_t index>
Out get(Tracer& t, const Args&) {
  return current(t, index);
}

template <size_t index>
Out set(Tracer& t, const Args& args) {
  if (args.values.size() != 1 || args.keywordCount() != 0)
    return t.breakWith(Reason::kCallsOutside, kStates[index].setter);
  STATOR_VALUE(value, t.plain(args.values[0]));
  if (!t.isNativeSafe(value.get()))
    return t.breakWith(Reason::kCallsOutside, kStates[index].setter);
  if (PyList_Check(value.get()))
    value = stealRef(PyList_GetSlice(value.get(), 0, PyList_GET_SIZE(value.get())));
  return change(t, index, kStates[index].setter, value, stealRef(PyTuple_Pack(1, value.get())));
}

template <size_t index>
Out unset(Tracer& t, const Args& args) {
  // registered where there is such a function
  static constexpr const char* kName = kStates[index].unsetter ? kStates[index].unsetter : "";
  if (!args.values.empty()) return t.breakWith(Reason::kCallsOutside, kName);
  return change(t, index, kStates[index].unsetter, newRef(Py_None), stealRef(PyTuple_New(0)));
}

template <size_t index>
void registerState() {
  registerHandler(kStates[index].setter, set<index>);
  registerHandler(kStates[index].getter, get<index>);
  if (kStates[index].unsetter != nullptr) registerHandler(kStates[index].unsetter, unset<index>);
  if constexpr (index + 1 < kStateCount) registerState<index + 1>();
}

}  // namespace

StateCall stateCall(size_t index, PyObject* value) {
  const StateRow& row = kStates[index];
  if (row.unsetter != nullptr && value == Py_None) return {torchObject(row.unsetter), false};
  return {torchObject(row.setter), true};
}

// The states as the trace sees them, for real, while a function of the user's is run for its result's shape.
ProcessStateScope::ProcessStateScope(Tracer& tracer) : tracer_(tracer) { apply(true); }
ProcessStateScope::~ProcessStateScope() { apply(false); }

void ProcessStateScope::apply(bool now) {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  for (auto& [index, state] : tracer_.process_states) {
    PyObject* wanted = now ? state.now.get() : state.before.get();
    StateCall call = stateCall(index, wanted);
    Ref<> done = stealRef(call.takes_value ? PyObject_CallOneArg(call.function, wanted)
                                           : PyObject_CallNoArgs(call.function));
    if (!done) PyErr_Clear();
  }
  PyErr_Restore(type, value, traceback);
}

void registerTorchStates() { registerState<0>(); }

}  // namespace stator::interpret
