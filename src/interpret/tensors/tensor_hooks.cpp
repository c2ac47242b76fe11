// Hooks on tensors: of those from outside and of graphs that run as captured an effect, of others a part of the
// backward graph.
#include "interpret/core/apparent_types.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/tensors/rows.h"
#include "interpret/tensors/tensor_attributes.h"
#include "interpret/tensors/tensor_call.h"
#include "interpret/tensors/torch_calls.h"
#include "interpret/tensors/torch_function.h"

#include <memory>
#include <unordered_map>
#include <vector>

namespace stator::interpret {

namespace {

// Belongs to no graph, so that a plan cannot build what it stands for.
graph::Node* lostNode() {
  static graph::Graph* const nowhere = new graph::Graph();
  static graph::Node* const node = nowhere->addInput(nullptr, Ref<>(), nullptr);
  return node;
}

graph::Node* handleNode() {
  static graph::Graph* const nowhere = new graph::Graph();
  static graph::Node* const node = nowhere->addInput(nullptr, Ref<>(), nullptr);
  return node;
}

}  // namespace

bool isHookHandle(PyObject* object) {
  return graph::isStandIn(object) && graph::asStandIn(object)->node == handleNode();
}

namespace {

// The handle of a hook that is registered when the graph has run: made empty by the plan, and filled then.
Ref<> handleOfLateHook(Tracer& t) {
  Ref<> handle =
      graph::makeStandIn(handleNode(), nullptr, torchObject("torch.utils.hooks.RemovableHandle"));
  t.values.addMade(handle.get(), t.frames.instruction());
  return handle;
}

Out removeHook(Tracer& t, const Args& args) {
  if (args.values.size() != 1 || !isHookHandle(args.values[0]))
    return t.breakWith(Reason::kRaises, "RemovableHandle.remove");
  t.effects.note();
  t.effects.callLate(
      {torchObject("torch.utils.hooks.RemovableHandle.remove"), {newRef(args.values[0])}});
  return newRef(Py_None);
}

// The handle of a hook in the graph: a program that uses it gets a break at the registration.
Ref<> unusableHandle(Tracer& t) {
  Ref<> handle =
      graph::makeStandIn(lostNode(), nullptr, torchObject("torch.utils.hooks.RemovableHandle"));
  t.values.addMade(handle.get(), t.frames.instruction());
  return handle;
}

// No operation so far has it as an argument.
bool isUnused(Tracer& t, PyObject* stand_in) {
  for (const graph::Node& node : t.graphs.current().nodes()) {
    std::vector<PyObject*> used;
    if (node.args) collectTensors(node.args.get(), used);
    if (node.kwargs) collectTensors(node.kwargs.get(), used);
    for (PyObject* one : used) {
      if (graph::asStandIn(one)->node == graph::asStandIn(stand_in)->node) return false;
    }
  }
  return true;
}

// Values of the graph under way that have hooks in it: what they were before, and the hooks in the order in which
// autograd asks them.
struct HookedValues {
  struct Hooked {  // kept by the trace
    PyObject* before = nullptr;
    std::vector<PyObject*> hooks;
  };
  std::weak_ptr<const graph::Graph> graph;
  std::unordered_map<const graph::Node*, Hooked> by_node;
};

HookedValues& hookedValues(Tracer& t) {
  thread_local HookedValues values;
  if (values.graph.lock() != t.graphs.shared()) {
    values.by_node.clear();
    values.graph = t.graphs.shared();
  }
  return values;
}

// A hook on a tensor that the graph makes and a backend differentiates: from here on the tensor is one with the hooks
// behind it in the backward graph. Operations that had it before would not ask the hook.
Out hookInGraph(Tracer& t, PyObject* tensor, PyObject* hook) {
  graph::StandIn* original = graph::asStandIn(tensor);
  HookedValues::Hooked hooked;
  if (auto it = hookedValues(t).by_node.find(original->node); it != hookedValues(t).by_node.end()) {
    hooked = it->second;
  } else {
    Ref<> before = graph::makeStandIn(original->node, original->meta, original->apparent_type);
    t.values.addMade(before.get(), t.frames.instruction());
    hooked.before = t.world.keep(std::move(before));
  }
  hooked.hooks.push_back(t.world.keep(newRef(hook)));
  Ref<> hooks = stealRef(PyTuple_New(static_cast<Py_ssize_t>(hooked.hooks.size())));
  for (size_t i = 0; i < hooked.hooks.size(); ++i)
    PyTuple_SET_ITEM(hooks.get(), static_cast<Py_ssize_t>(i), Py_NewRef(hooked.hooks[i]));
  t.made(hooks);
  STATOR_VALUE(after, t.above.callNested(torchObject("stator.polyfills.autograd.hooked"),
                                         {hooked.before, hooks.get()}));
  if (!graph::isStandIn(after.get())) return t.breakWith(Reason::kCallsOutside, "register_hook");
  original->node = graph::asStandIn(after.get())->node;
  original->meta = graph::asStandIn(after.get())->meta;
  hookedValues(t).by_node[original->node] = std::move(hooked);
  return unusableHandle(t);
}

// torch._dynamo.compiled_autograd makes graphs of whole backward passes. Whoever asks finds "no" where nobody has
// loaded it.
bool backwardIsCompiled() {
  PyObject* module =
      PyDict_GetItemString(PyImport_GetModuleDict(), "torch._dynamo.compiled_autograd");
  Ref<> on = module == nullptr
                 ? Ref<>()
                 : stealRef(PyObject_GetAttrString(module, "compiled_autograd_enabled"));
  PyErr_Clear();
  return on && on.get() == Py_True;
}

// Then the hook is asked by that graph, and may do whatever Python can: the graph that is captured registers a call of
// what the state has under a name, and the plan writes the hook there when the graph has run. The state is an input, a
// new one for each call.
Out hookInState(Tracer& t, PyObject* tensor, PyObject* hook) {
  STATOR_VALUE(on, t.above.callNested(torchObject("stator.polyfills.backward_state.is_on"), {}));
  if (on.get() != Py_True) return t.breakWith(Reason::kCallsOutside, "register_hook");
  PyObject* states = torchObject("stator.polyfills.backward_state.states");
  static const bool registered_call = [] {  // now that its module is loaded
    registerPolyfill("torch._dynamo._trace_wrapped_higher_order_op.TraceWrapped.__call__",
                     "higher_order.trace_wrapped");
    return true;
  }();
  static_cast<void>(registered_call);
  static PyObject* const fresh = PyUnicode_InternFromString("fresh");
  static PyObject* const registers = torchObject("stator.polyfills.backward_state.register");
  const Source* source =
      t.world.child(SourceKind::kGenericAttr, t.world.sources().pinned(states), fresh);
  graph::Node* input = nullptr;
  size_t registered = 0;
  for (graph::Node* node : t.graphs.root().inputs()) {
    if (node->source == source) input = node;
  }
  for (const graph::Node& node : std::as_const(t.graphs.root()).nodes())
    registered += node.target.get() == registers;
  if (input == nullptr) {
    Ref<> example = stealRef(PyObject_GetAttr(states, fresh));
    if (!example) return t.breakWith(Reason::kCallsOutside, "register_hook");
    input = t.graphs.root().addInput(source, std::move(example), nullptr);
    input->location = t.location();
  }
  Ref<> state =
      graph::makeStandIn(input, nullptr, torchObject("stator.polyfills.backward_state.State"));
  t.values.addMade(state.get(), t.frames.instruction());
  Ref<> name = stealRef(PyUnicode_FromFormat("hook%zu", registered));
  graph::Node* node =
      t.graphs.root().addCall(graph::Op::kCallFunction, newRef(registers),
                              stealRef(PyTuple_Pack(3, tensor, state.get(), name.get())), Ref<>());
  node->location = t.location();
  node->scope = t.frames.innermost().scope;
  node->mutates = node->repeatable = true;
  t.effects.note();
  t.effects.callLate({torchObject("stator.polyfills.backward_state.fill"), {name, newRef(hook)}});
  return unusableHandle(t);
}

// A hook on a tensor that comes from outside is an effect: it is registered when the graph has run, before anybody can
// ask for gradients.
Out registerHook(Tracer& t, const Args& args, const char* path, bool leaf) {
  if (args.values.size() != 2 || args.keywordCount() != 0 || !graph::isStandIn(args.values[0]))
    return t.breakWith(Reason::kRaises, "register_hook");
  graph::StandIn* tensor = graph::asStandIn(args.values[0]);
  // One of a tensor that the graph makes, too, where the graph runs as it was captured: it gives that tensor out, with
  // autograd's own node.
  bool outside = (tensor->node->source != nullptr || (t.options.runs_as_captured && !leaf)) &&
                 tensor->node->home == &t.graphs.current() && !isCast(args.values[0]);
  t.torch.noteGradsMatter();
  if (!leaf && !t.options.runs_as_captured && tensor->node->source == nullptr &&
      tensor->node->home == &t.graphs.root() && &t.graphs.root() == &t.graphs.current() &&
      tensor->meta != nullptr && tensor->meta->requires_grad && !isCast(args.values[0]) &&
      !tensor->node->wrapper && !graph::isStandIn(args.values[1]) && backwardIsCompiled())
    return hookInState(t, args.values[0], args.values[1]);
  if (!outside && !leaf && !t.options.runs_as_captured && tensor->node->source == nullptr &&
      tensor->node->home == &t.graphs.current() && !isCast(args.values[0]) &&
      tensor->meta != nullptr && tensor->meta->requires_grad && !tensor->node->wrapper &&
      !graph::isStandIn(args.values[1])) {
    if (isUnused(t, args.values[0])) return hookInGraph(t, args.values[0], args.values[1]);
    // A graph that gives the tensor out beside what it made of it would keep that part of the gradient to itself.
    constexpr const char* kWhy = "register_hook of a tensor that operations of the graph have had";
    t.ending.restartAt(tensor->node->instruction + 1, Reason::kCallsOutside, kWhy);
    return t.breakWith(Reason::kCallsOutside, kWhy);
  }
  if (!outside || tensor->meta == nullptr || !tensor->meta->requires_grad ||
      (leaf && !tensor->meta->is_leaf) || tensor->node->written ||
      typeOf(t, args.values[0]) == nullptr || graph::isStandIn(args.values[1])) {
    return t.breakWith(Reason::kCallsOutside,
                       "register_hook of a tensor that is made in the graph");
  }
  t.effects.note();
  // A leaf has no function that a write would replace.
  if (tensor->node->source == nullptr || !tensor->meta->is_leaf)
    t.storages.hook(tensor->meta->storage_id);
  Ref<> handle = handleOfLateHook(t);
  t.effects.callLate({torchObject(path), {newRef(args.values[0]), newRef(args.values[1]), handle}});
  return handle;
}

Out tensorHook(Tracer& t, const Args& args) {
  return registerHook(t, args, "stator._contexts.register_hook", false);
}
Out accumulatedHook(Tracer& t, const Args& args) {
  return registerHook(t, args, "stator._contexts.register_accumulated_hook", true);
}

}  // namespace

void registerTensorHooks() {
  registerHandler("torch.Tensor.register_hook", tensorHook);
  registerHandler("stator._contexts.remove_hook", removeHook);
  registerHandler("torch.Tensor.register_post_accumulate_grad_hook", accumulatedHook);
}

}  // namespace stator::interpret
