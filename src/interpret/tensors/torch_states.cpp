// States of the process that a program sets for a while: which attention kernels may be used, whether saved-tensor
// hooks are allowed, the default dtype. A setter becomes a node, so that what follows it in the graph runs under the
// new state; the trace remembers what it set, and where it ends in another state than it began, the plan sets that
// state (a backend may have traced the node away). A graph that ends at a break, or fails half way, leaves the states
// as it found them.
#include "interpret/tensors/torch_states.h"

#include "base/check.h"
#include "base/error_aside.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/contents.h"
#include "interpret/tensors/rows.h"
#include "shapes/arg.h"
#include "shapes/dtypes.h"

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
    {"stator._contexts.set_deterministic", "stator._contexts.get_deterministic"},
    {"torch.set_default_dtype", "torch.get_default_dtype"},
    {"torch._C._autograd._saved_tensors_hooks_disable",
     "torch._C._autograd._saved_tensors_hooks_get_disabled_error_message",
     "torch._C._autograd._saved_tensors_hooks_enable"},
};
constexpr size_t kStateCount = std::size(kStates);
constexpr size_t kHooksState = kStateCount - 1;
constexpr size_t kDtypeState = kStateCount - 2;
constexpr const char* kDisabling = "torch.autograd.graph.disable_saved_tensors_hooks";

Out current(Tracer& t, size_t index) {
  auto it = t.torch.settings().find(index);
  if (it != t.torch.settings().end()) return it->second.now;
  return t.fromNative(stealRef(PyObject_CallNoArgs(torchObject(kStates[index].getter))));
}

// What sets the state back if the graph fails behind the node.
Ref<> restore(size_t index, PyObject* before) {
  StateCall call = stateCall(index, before);
  Ref<> args = stealRef(call.takes_value ? PyTuple_Pack(1, before) : PyTuple_New(0));
  Ref<> made = stealRef(PyObject_CallFunctionObjArgs(torchObject("stator._contexts.Restore"),
                                                     call.function, args.get(), nullptr));
  if (!made) throw PythonError();
  return made;
}

// A mark is a node that nobody needs: it goes with the dead ones, unless it is made to set the state.
graph::Node* addMark(Tracer& t, PyObject* function, PyObject* value) {
  graph::Node* node = t.graphs.current().addCall(graph::Op::kCallFunction, newRef(function),
                                                 stealRef(PyTuple_Pack(1, value)), Ref<>());
  node->location = t.location();
  node->scope = t.frames.empty() ? nullptr : t.frames.innermost().scope;
  return node;
}

void setAt(graph::Node* mark, size_t index) {
  mark->target = newRef(torchObject(kStates[index].setter));
  mark->mutates = mark->sets_mode = true;
}

// Operations of torch's own, implemented in C, do not look at the states (but for those that save tensors with hooks,
// which are no such functions): a node that sets one may as well stand before them.
bool looksAtStates(const graph::Node& node) {
  if (node.op == graph::Op::kInput || node.op == graph::Op::kAttribute) return false;
  if (node.op == graph::Op::kCallMethod) return node.mutates;
  return node.mutates || !PyCFunction_Check(node.target.get());
}

// The mark that a context manager has left where it was made. TorchDynamo's graphs have the node there.
graph::Node* findMark(Tracer& t, PyObject* value) {
  graph::NodeRange<graph::Node> nodes = t.graphs.current().nodes();
  for (size_t i = nodes.size(); i-- > 0;) {
    graph::Node& node = nodes[i];
    if (node.op == graph::Op::kCallFunction && node.target.get() == torchObject(kDisabling)) {
      if (PyTuple_GET_ITEM(node.args.get(), 0) == value) return &node;
    } else if (looksAtStates(node)) {
      return nullptr;
    }
  }
  return nullptr;
}

Out change(Tracer& t, size_t index, Ref<> value) {
  STATOR_VALUE(before, current(t, index));
  if (index == kDtypeState) {
    const shapes::DType dtype = shapes::dtypeOf(value.get());
    // A backend that traces the graph drops the setter, and notes factories without the dtype that they had then.
    if (!shapes::isFloating(dtype) || !t.options.runs_as_captured)
      return t.breakWith(Reason::kCallsOutside, "set_default_dtype");
    t.torch.now().default_dtype = dtype;
  }
  graph::Node* node = nullptr;
  if (index == kHooksState && value.get() != Py_None) node = findMark(t, value.get());
  if (node != nullptr)
    setAt(node, index);
  else
    node = addStateNode(t, index, value.get());
  if (t.torch.settings().count(index) == 0) {
    t.torch.settings()[index] = {before, before};
    // of a frame that goes on in the middle, see noteStates
    graph::Node& first = t.graphs.current().nodes()[0];
    if (&first != node && first.target &&
        first.target.get() == torchObject(kStates[index].setter) && !first.mutates) {
      setAt(&first, index);
      first.leave = restore(index, before.get());
    }
    node->leave = restore(index, before.get());
  }
  t.torch.settings()[index].now = std::move(value);
  t.frames.commit();
  return newRef(Py_None);
}

// Called by our disable_saved_tensors_hooks when it is made.
Out markHooks(Tracer& t, const Args& args) {
  if (args.values.size() == 1 && PyUnicode_Check(args.values[0]))
    addMark(t, torchObject(kDisabling), args.values[0]);
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
  STATOR_VALUE(value, plain(t, args.values[0]));
  if (!isNativeSafe(t, value.get()))
    return t.breakWith(Reason::kCallsOutside, kStates[index].setter);
  if (PyList_Check(value.get()))
    value = stealRef(PyList_GetSlice(value.get(), 0, PyList_GET_SIZE(value.get())));
  return change(t, index, value);
}

template <size_t index>
Out unset(Tracer& t, const Args& args) {
  // registered where there is such a function
  static constexpr const char* kName = kStates[index].unsetter ? kStates[index].unsetter : "";
  if (!args.values.empty()) return t.breakWith(Reason::kCallsOutside, kName);
  return change(t, index, newRef(Py_None));
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
  ErrorKept kept;
  for (auto& [index, state] : tracer_.torch.settings()) {
    PyObject* wanted = now ? state.now.get() : state.before.get();
    StateCall call = stateCall(index, wanted);
    Ref<> done = stealRef(call.takes_value ? PyObject_CallOneArg(call.function, wanted)
                                           : PyObject_CallNoArgs(call.function));
    if (!done) PyErr_Clear();
  }
}

graph::Node* addStateNode(Tracer& t, size_t index, PyObject* value) {
  StateCall call = stateCall(index, value);
  Ref<> args = stealRef(call.takes_value ? PyTuple_Pack(1, value) : PyTuple_New(0));
  graph::Node* node = t.graphs.current().addCall(graph::Op::kCallFunction, newRef(call.function),
                                                 std::move(args), Ref<>());
  node->mutates = node->sets_mode = true;
  node->location = t.location();
  node->scope = t.frames.empty() ? nullptr : t.frames.innermost().scope;
  return node;
}

// Such a graph says under which state it begins, if it sets the state: it means the same when it is run by itself.
void noteStates(Tracer& t) {
  Ref<> message = stealRef(PyObject_CallNoArgs(torchObject(kStates[kHooksState].getter)));
  if (!message) throw PythonError();
  if (message.get() != Py_None) addMark(t, torchObject(kStates[kHooksState].setter), message.get());
}

void registerTorchStates() {
  registerState<0>();
  registerHandler("stator._contexts.mark_hooks", markHooks);
  registerPolyfill("torch.use_deterministic_algorithms", "contexts.use_deterministic_algorithms");
  registerPolyfill("torch._C._set_deterministic_algorithms",
                   "contexts.use_deterministic_algorithms");
  registerPolyfill("torch.are_deterministic_algorithms_enabled",
                   "contexts.deterministic_algorithms_enabled");
  registerPolyfill("torch._C._get_deterministic_algorithms",
                   "contexts.deterministic_algorithms_enabled");
  registerPolyfill("torch.is_deterministic_algorithms_warn_only_enabled",
                   "contexts.deterministic_warn_only_enabled");
  registerPolyfill("torch._C._get_deterministic_algorithms_warn_only",
                   "contexts.deterministic_warn_only_enabled");
}

}  // namespace stator::interpret
