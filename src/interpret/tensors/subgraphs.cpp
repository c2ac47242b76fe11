// Functions that a graph calls: the bodies of higher-order operators (branches, loops, checkpoints, autograd functions)
// and of functorch's transforms. A body is traced into a graph of its own, with inputs in the places of its operands.
// What it uses of the graphs around it becomes further operands. The operators themselves are spelled out in
// stator/polyfills/, which call the functions registered here.

#include "base/check.h"
#include "base/rebuilt.h"
#include "base/stack_room.h"
#include "base/text.h"
#include "graph/fx.h"
#include "graph/fx_names.h"
#include "interpret/core/known.h"
#include "interpret/core/symbol_nodes.h"
#include "interpret/core/symbols.h"
#include "interpret/core/tables.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/tensors/function_facts.h"
#include "interpret/tensors/rows.h"
#include "interpret/tensors/tensor_call.h"
#include "interpret/tensors/torch_calls.h"
#include "python/objects.h"
#include "python/types.h"
#include "shapes/dtypes.h"
#include "symbolic/sym_int.h"
#include "tensor/tensor_guard.h"
#include "values/dicts.h"

#include <algorithm>
#include <string>
#include <unordered_map>

namespace stator::interpret {

namespace {

struct Body {
  std::string name;
  std::shared_ptr<graph::Graph> graph;
  Ref<> result;  // tuple of stand-ins and constants, nested
};

Ref<> addPlaceholder(Tracer& t, graph::Graph& graph, PyObject* sample, std::string name) {
  graph::StandIn* like = graph::asStandIn(sample);
  t.torch.noteGradsMatter();
  graph::Node* node = nullptr;
  if (like->meta != nullptr) {
    graph.metas.push_back(*like->meta);
    node = graph.addInput(nullptr, Ref<>(), &graph.metas.back());
    node->wrapper = like->node->wrapper;
  } else {
    node = graph.addInput(nullptr, Ref<>(), nullptr);
    node->scalar_type = like->node->scalar_type;
    node->size = like->node->size;
  }
  node->name_hint = std::move(name);
  node->mutates = true;  // stays an input even if nothing uses it
  Ref<> stand_in = graph::makeStandIn(node, node->meta, like->apparent_type);
  t.values.addMade(stand_in.get(), t.frames.instruction());
  return stand_in;
}

// What the value is called in the graph around, or might be.
std::string nameOutside(Tracer& t, PyObject* value) {
  const graph::Node* node = graph::asStandIn(value)->node;
  if (!node->name_hint.empty()) return node->name_hint;
  if (node->op == graph::Op::kInput) {
    return node->source == nullptr
               ? "arg"
               : graph::snakeCase(graph::placeholderTarget(
                     graph::sourceExpression(*node->source, t.frames.driven().code->code())));
  }
  if (PyUnicode_Check(node->target.get())) return utf8(node->target.get());
  Ref<> name = stealRef(PyObject_GetAttrString(node->target.get(), "__name__"));
  PyErr_Clear();
  return name && PyUnicode_Check(name.get()) ? utf8(name.get()) : "arg";
}

// The same with its own storage, as the program sees what autograd or functorch hands to it.
void ownStorage(Tracer& t, PyObject* stand_in) {
  const_cast<shapes::TensorMeta*>(graph::asStandIn(stand_in)->meta)->storage_id =
      t.storages.fresh();
}

// What the polyfills themselves keep while functions are captured.
bool isOfPolyfills(PyObject* object) {
  Ref<> home =
      stealRef(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__module__"));
  if (!home) PyErr_Clear();
  return home && PyUnicode_Check(home.get()) &&
         std::string_view(utf8(home.get())).starts_with("stator.");
}

// Changes to what existed before the trace, and to the first `made` objects that the trace knows; equal numbers: none
// in between.
uint64_t effectsSoFar(Tracer& t, size_t made) {
  uint64_t hash = t.effects.lruUses().size();
  auto mix = [&](uint64_t word) { hash = (hash ^ word) * 0x9E3779B97F4A7C15ull + (hash >> 29); };
  auto mix_object = [&](PyObject* object) { mix(reinterpret_cast<uint64_t>(object)); };
  auto mix_contents = [&](PyObject* container) {
    if (PyDict_Check(container) &&
        stator_dict_versioned(reinterpret_cast<PyDictObject*>(container))) {
      mix(stator_dict_version(container));
    } else if (PyDict_Check(container)) {
      PyObject *key = nullptr, *value = nullptr;
      for (Py_ssize_t at = 0; PyDict_Next(container, &at, &key, &value);) {
        mix(reinterpret_cast<uint64_t>(key));
        mix(reinterpret_cast<uint64_t>(value));
      }
    } else if (PyList_Check(container)) {
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(container); ++i)
        mix(reinterpret_cast<uint64_t>(PyList_GET_ITEM(container, i)));
    } else {
      mix(reinterpret_cast<uint64_t>(container));
    }
  };
  auto mix_made = [&](PyObject* object) {
    if (graph::isStandIn(object) || isTraceIterator(object)) return;
    if (PyCell_Check(object)) return mix_object(PyCell_GET(object));
    if (PyList_Check(object) || PyDict_Check(object)) mix_contents(object);
    if (PyAnySet_Check(object)) {
      PyObject* key = nullptr;
      Py_hash_t of_key = 0;
      for (Py_ssize_t at = 0; _PySet_NextEntry(object, &at, &key, &of_key);) mix_object(key);
    }
    StatorView view;
    if (!stator_is_user_class(Py_TYPE(object)) || !stator_view_object(&view, object) ||
        isOfPolyfills(object))
      return;
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; stator_view_next(&view, &at, &key, &value);) {
      mix_object(key);
      mix_object(value);
    }
  };
  for (size_t i = 0; i < made; ++i) {
    if (t.values.all()[i]->origin == values::Origin::kMade)
      mix_made(t.values.all()[i]->object.get());
  }
  for (values::Info* info : t.values.all()) {
    if (info->origin != values::Origin::kOutside) continue;
    if (info->overlay) mix_contents(info->overlay.get());
    if (info->appended) mix_contents(info->appended.get());
    if (info->dirty && info->shadow) mix_contents(info->shadow.get());
  }
  return hash;
}

Flow traceBody(Tracer& t, PyObject* function, const std::vector<Ref<>>& placeholders, Body& body) {
  size_t contexts = t.torch.contexts().size();
  shapes::State state = t.torch.now();
  Args args;
  for (const Ref<>& placeholder : placeholders) args.values.push_back(placeholder.get());
  args.positional = args.values.size();
  Out out = Flow::kOk;
  {
    Graphs::Inside inside(t.graphs, body.graph);
    out = t.above.callNested(function, args);
    if (out.ok()) out = graphArgument(t, out.get());
  }
  const Flow flow = out.flow();
  if (flow == Flow::kRaise) return t.breakWith(Reason::kRaises, "an exception leaves " + body.name);
  if (flow != Flow::kOk) return flow;
  if (t.torch.contexts().size() != contexts || !(t.torch.now() == state))
    return t.breakWith(Reason::kUnsupportedContext, body.name + " leaves a state of torch changed");
  body.result = out.take();
  return Flow::kOk;
}

// Values of other graphs that a body uses, in the order of their first use.
template <class Visit>
void forEachForeign(const Body& body, Visit&& visit) {
  auto look = [&](graph::StandIn* used) {
    if (used->node->home != body.graph.get()) visit(used);
  };
  for (const graph::Node& node : std::as_const(*body.graph).nodes()) {
    graph::forEachUsed(node, look);
  }
  graph::forEachStandIn(body.result.get(), look);
}

using Replacements = std::unordered_map<graph::Node*, Ref<>>;

Ref<> substitute(PyObject* value, const Replacements& replacements) {
  needStack();
  if (value == nullptr) return Ref<>();
  if (graph::isStandIn(value)) {
    auto found = replacements.find(graph::asStandIn(value)->node);
    return found != replacements.end() ? found->second : newRef(value);
  }
  if (isPlainContainer(value))
    return rebuilt(value, [&](PyObject* item) { return substitute(item, replacements); });
  return newRef(value);
}

void substituteAll(Body& body, const Replacements& replacements) {
  if (replacements.empty()) return;
  for (graph::Node& node : body.graph->nodes()) {
    if (node.args) node.args = substitute(node.args.get(), replacements);
    if (node.kwargs) node.kwargs = substitute(node.kwargs.get(), replacements);
  }
  body.result = substitute(body.result.get(), replacements);
}

// A name of its own in all of the capture: wrap_body_0, wrap_body_1 and so on, inner functions first.
Ref<> numberedName(Tracer& t, const std::string& name) {
  thread_local uint64_t trace = 0;
  thread_local std::unordered_map<std::string, int> counts;
  if (trace != t.sizes.environment().number()) counts.clear();
  trace = t.sizes.environment().number();
  return stealRef(PyUnicode_FromFormat("%s_%d", name.c_str(), counts[name]++));
}

Out finishBody(Tracer& t, Body& body) {
  graph::forEachStandIn(body.result.get(),
                        [&](graph::StandIn* used) { body.graph->addOutput(used->node); });
  body.graph->result = body.result;
  body.graph->name = body.name;
  body.graph->dropDead();
  Ref<> module = graph::toGraphModule(body.graph, t.frames.driven().code->code());
  if (!module ||
      PyObject_SetAttrString(module.get(), "_stator_name", numberedName(t, body.name).get()) < 0)
    return t.raiseCurrentError();
  return t.made(module);
}

std::vector<PyObject*> itemsOf(PyObject* tuple) {
  std::vector<PyObject*> items;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    items.push_back(PyTuple_GET_ITEM(tuple, i));
  return items;
}

bool allTensors(PyObject* tuple) {
  if (!PyTuple_Check(tuple)) return false;
  for (PyObject* item : itemsOf(tuple)) {
    if (!graph::isStandIn(item) || graph::asStandIn(item)->meta == nullptr) return false;
  }
  return true;
}

Ref<> tupleOf(const std::vector<Ref<>>& items) {
  Ref<> tuple = stealRef(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Ref<>(items[i]).release());
  return tuple;
}

// What can be an operand of a function: a tensor, or a symbolic number.
bool isOperand(const graph::StandIn* used) {
  return used->meta != nullptr || used->node->scalar_type;
}

// The operands as the program has them: numbers are values of the trace.
Ref<> operandValues(const std::vector<Ref<>>& operands) {
  std::vector<Ref<>> values;
  for (const Ref<>& operand : operands) {
    const graph::StandIn* one = graph::asStandIn(operand.get());
    if (one->meta != nullptr) {
      values.push_back(operand);
    } else if (!one->node->size.isStatic()) {
      values.push_back(symbolic::makeInt(one->node->size));
    } else {
      auto* type = reinterpret_cast<PyTypeObject*>(one->node->scalar_type.get());
      values.push_back(symbolic::makeScalar(type, operand));
    }
  }
  return tupleOf(values);
}

// What the bodies use of the graphs around them, once each. A break: something that cannot be an operand.
Flow collectExtras(Tracer& t, const std::vector<Body>& bodies, std::vector<Ref<>>& extras) {
  std::unordered_map<graph::Node*, bool> seen;
  bool usable = true;
  for (const Body& body : bodies) {
    forEachForeign(body, [&](graph::StandIn* used) {
      if (!seen.emplace(used->node, true).second) return;
      usable &= isOperand(used) && t.graphs.reachable(used->node);
      extras.push_back(newRef(reinterpret_cast<PyObject*>(used)));
    });
  }
  return usable ? Flow::kOk
                : t.breakWith(Reason::kUnsupportedTensorOp,
                              "a value that was made inside of another function of the graph");
}

// The symbols of the operands' sizes are operands too: backends find each symbol of a function among its inputs
// (exports read them).
void addSizes(Tracer& t, const std::vector<PyObject*>& operands, std::vector<Ref<>>& extras) {
  std::vector<const shapes::TensorMeta*> metas;
  for (PyObject* operand : operands) metas.push_back(graph::asStandIn(operand)->meta);
  for (const Ref<>& extra : extras) metas.push_back(graph::asStandIn(extra.get())->meta);
  for (Ref<>& number : symbolNodes(t, metas)) {
    const bool there = std::ranges::any_of(extras, [&](const Ref<>& extra) {
      return graph::asStandIn(extra.get())->node == graph::asStandIn(number.get())->node;
    });
    if (!there) extras.push_back(std::move(number));
  }
}

// How functions are captured.
struct Ways {
  bool with_sizes = false;
  PyObject* wrapped = nullptr;  // by a transform of torch.func: how, of each operand
};

// A transform hands out wrappers of its own: those that it differentiates by require grad (True), others do not
// (False); what it hands on as it is has None. Where it differentiates, grad mode is on.
bool wrap(Tracer& t, const std::vector<Ref<>>& placeholders, PyObject* wrapped) {
  for (size_t i = 0; i < placeholders.size(); ++i) {
    PyObject* how = PyTuple_GET_ITEM(wrapped, static_cast<Py_ssize_t>(i));
    if (how == Py_None) continue;
    auto* meta = const_cast<shapes::TensorMeta*>(graph::asStandIn(placeholders[i].get())->meta);
    const bool tracked = how == Py_True;
    if (tracked && !shapes::isDifferentiable(meta->dtype)) return false;
    meta->requires_grad = tracked;
    meta->is_leaf = true;
    if (tracked) t.torch.now().grad_enabled = true;
  }
  return true;
}

// Each function traced into a body of its own, whose inputs have the facts of `samples`.
Flow traceBodies(Tracer& t, const std::vector<PyObject*>& functions,
                 const std::vector<PyObject*>& samples, bool pure, PyObject* wrapped,
                 std::vector<Body>& bodies) {
  const size_t made = t.values.size();
  const uint64_t effects = pure ? effectsSoFar(t, made) : 0;
  for (size_t i = 0; i < functions.size(); ++i) {
    bodies[i].graph = t.graphs.addInner();
    std::vector<Ref<>> placeholders;
    for (PyObject* sample : samples)
      placeholders.push_back(addPlaceholder(t, *bodies[i].graph, sample, nameOutside(t, sample)));
    const shapes::State state = t.torch.now();
    bodies[i].graph->transformed = wrapped != nullptr;
    if (wrapped != nullptr && !wrap(t, placeholders, wrapped))
      return t.breakWith(Reason::kUnsupportedTensorOp, "a gradient with respect to whole numbers");
    const Flow flow = traceBody(t, functions[i], placeholders, bodies[i]);
    t.torch.now() = state;
    STATOR_FLOW(flow);
    if (pure && effectsSoFar(t, made) != effects)
      return t.breakWith(Reason::kUnsupportedMutation,
                         bodies[i].name + " changes objects, and may run never or often");
  }
  return Flow::kOk;
}

// capture(names, functions, operands, samples, pure): the functions as graph modules that all take the operands and
// then the extras; `samples` are tensors with the facts that the functions see. Gives (modules..., extras).
Out captureBodies(Tracer& t, const Args& args, Ways ways) {
  STATOR_CHECK(args.values.size() >= 5, "capture() of subgraphs");
  const std::vector<PyObject*> names = itemsOf(args.values[0]);
  const std::vector<PyObject*> functions = itemsOf(args.values[1]);
  if (!allTensors(args.values[2]) || !allTensors(args.values[3]))
    return t.breakWith(Reason::kUnsupportedTensorOp, "an operand is no tensor");
  const std::vector<PyObject*> samples = itemsOf(args.values[3]);
  std::vector<Body> bodies(functions.size());
  for (size_t i = 0; i < names.size(); ++i) bodies[i].name = utf8(names[i]);
  STATOR_FLOW(traceBodies(t, functions, samples, args.values[4] == Py_True, ways.wrapped, bodies));
  std::vector<Ref<>> extras;
  STATOR_FLOW(collectExtras(t, bodies, extras));
  if (ways.with_sizes && t.sizes.any() && !forExport()) addSizes(t, samples, extras);
  std::vector<Ref<>> out;
  for (Body& body : bodies) {
    Replacements replacements;
    for (size_t k = 0; k < extras.size(); ++k) {
      replacements[graph::asStandIn(extras[k].get())->node] =
          addPlaceholder(t, *body.graph, extras[k].get(), nameOutside(t, extras[k].get()));
    }
    substituteAll(body, replacements);
    STATOR_VALUE(module, finishBody(t, body));
    out.push_back(module);
  }
  out.push_back(t.made(operandValues(extras)));
  return t.made(tupleOf(out));
}

Out capture(Tracer& t, const Args& args) { return captureBodies(t, args, {}); }

// capture_with_sizes(...): the same, with the symbols of the sizes among the extras.
Out captureWithSizes(Tracer& t, const Args& args) {
  return captureBodies(t, args, {.with_sizes = true});
}

// capture_transformed(..., wrapped): a function that one of torch.func's transforms calls.
Out captureTransformed(Tracer& t, const Args& args) {
  STATOR_CHECK(args.values.size() == 6, "capture_transformed() of subgraphs");
  return captureBodies(t, args, {.wrapped = args.values[5]});
}

// under_transforms(): whether one of torch.func's transforms is under way, in the trace or around it.
Out underTransforms(Tracer& t, const Args&) {
  return newRef(t.graphs.underTransform() || tensor::transformsActive() ? Py_True : Py_False);
}

// look(name, function, operands): the function is traced and nothing of it kept; the capture ends if it does more than
// compute results from its operands.
Out look(Tracer& t, const Args& args) {
  STATOR_CHECK(args.values.size() == 3, "look() of subgraphs");
  if (!allTensors(args.values[2]))
    return t.breakWith(Reason::kUnsupportedTensorOp, "an operand is no tensor");
  std::vector<Body> bodies(1);
  bodies[0].name = utf8(args.values[0]);
  STATOR_FLOW(traceBodies(t, {args.values[1]}, itemsOf(args.values[2]), true, nullptr, bodies));
  std::vector<Ref<>> extras;
  STATOR_FLOW(collectExtras(t, bodies, extras));
  if (!extras.empty())
    return t.breakWith(Reason::kUnsupportedTensorOp,
                       bodies[0].name + " uses tensors that are no arguments");
  return newRef(Py_None);
}

// capture_pair(forward, backward, operands): `forward(*operands)` gives (outputs, saved), `backward(*grads)` as many
// gradients as there are operands. What the backward body uses of the forward one, or of the graphs around, the forward
// body hands over. Gives (forward module, backward module, extras, which of the values handed over are among `saved`).
Out capturePair(Tracer& t, const Args& args) {
  STATOR_CHECK(args.values.size() == 3, "capture_pair() of subgraphs");
  if (!allTensors(args.values[2]))
    return t.breakWith(Reason::kUnsupportedTensorOp, "an operand is no tensor");
  std::vector<PyObject*> operands = itemsOf(args.values[2]);
  std::vector<Body> bodies(2);
  Body &forward = bodies[0], &backward = bodies[1];
  forward.name = "fwd_body";
  forward.graph = t.graphs.addInner();
  std::vector<Ref<>> placeholders;
  for (size_t k = 0; k < operands.size(); ++k)
    placeholders.push_back(
        addPlaceholder(t, *forward.graph, operands[k], "arg" + std::to_string(k)));
  STATOR_FLOW(traceBody(t, args.values[0], placeholders, forward));
  Ref<> outputs = newRef(PyTuple_GET_ITEM(forward.result.get(), 0));
  std::vector<PyObject*> saved = itemsOf(PyTuple_GET_ITEM(forward.result.get(), 1));
  if (!allTensors(outputs.get()))
    return t.breakWith(Reason::kUnsupportedTensorOp, "an output is no tensor");
  backward.name = "bwd_body";
  backward.graph = t.graphs.addInner();
  std::vector<Ref<>> grads;
  for (PyObject* output : itemsOf(outputs.get())) {
    grads.push_back(
        addPlaceholder(t, *backward.graph, output, "grad" + std::to_string(grads.size())));
    auto* meta = const_cast<shapes::TensorMeta*>(graph::asStandIn(grads.back().get())->meta);
    meta->requires_grad = false;
    meta->is_leaf = true;
    ownStorage(t, grads.back().get());
  }
  const size_t made = t.values.size();
  const uint64_t effects = effectsSoFar(t, made);
  shapes::State state = t.torch.now();
  t.torch.now().grad_enabled = false;
  Flow flow = Flow::kOk;
  {
    Graphs::Inside inside(t.graphs, forward.graph);  // its values may be used, and are handed over
    flow = traceBody(t, args.values[1], grads, backward);
  }
  t.torch.now() = state;
  if (flow != Flow::kOk) return flow;
  if (effectsSoFar(t, made) != effects)
    return t.breakWith(Reason::kUnsupportedMutation, "backward() changes objects, and runs later");

  // 1. Handed over to the backward body.
  std::vector<Ref<>> handed, flags;
  std::unordered_map<graph::Node*, bool> seen;
  bool usable = true;
  Replacements inside;
  forEachForeign(backward, [&](graph::StandIn* used) {
    if (!seen.emplace(used->node, true).second) return;
    usable &= isOperand(used) &&
              (used->node->home == forward.graph.get() || t.graphs.reachable(used->node));
    handed.push_back(newRef(reinterpret_cast<PyObject*>(used)));
  });
  if (!usable)
    return t.breakWith(Reason::kUnsupportedTensorOp,
                       "a value that was made inside of another function of the graph");
  for (size_t k = 0; k < handed.size(); ++k) {
    graph::Node* node = graph::asStandIn(handed[k].get())->node;
    inside[node] = addPlaceholder(t, *backward.graph, handed[k].get(), "saved" + std::to_string(k));
    for (PyObject* one : saved) {
      if (graph::isStandIn(one) && graph::asStandIn(one)->node == node) {
        flags.push_back(stealRef(PyLong_FromSize_t(k)));
        break;
      }
    }
  }
  substituteAll(backward, inside);
  forward.result = stealRef(PyTuple_Pack(2, outputs.get(), tupleOf(handed).get()));

  // 2. What the forward body needs from around.
  std::vector<Ref<>> extras;
  std::vector<Body> first;
  first.push_back(std::move(forward));
  STATOR_FLOW(collectExtras(t, first, extras));
  Replacements around;
  for (size_t k = 0; k < extras.size(); ++k) {
    around[graph::asStandIn(extras[k].get())->node] =
        addPlaceholder(t, *first[0].graph, extras[k].get(), "free" + std::to_string(k));
  }
  substituteAll(first[0], around);
  if (!PyTuple_Check(backward.result.get()))
    return t.breakWith(Reason::kUnsupportedTensorOp, "backward() gives no tuple");
  std::vector<Ref<>> gradients;
  for (PyObject* gradient : itemsOf(backward.result.get())) gradients.push_back(newRef(gradient));
  for (size_t k = 0; k < extras.size(); ++k) gradients.push_back(newRef(Py_None));
  backward.result = tupleOf(gradients);
  STATOR_VALUE(forward_module, finishBody(t, first[0]));
  STATOR_VALUE(backward_module, finishBody(t, backward));
  noteFunctionFacts(t, forward_module.get(), *first[0].graph, itemsOf(outputs.get()));
  std::vector<Ref<>> out = {forward_module, backward_module, t.made(operandValues(extras)),
                            t.made(tupleOf(flags))};
  return t.made(tupleOf(out));
}

}  // namespace

void registerSubgraphs() {
  registerHandler("stator.polyfills.subgraphs.capture", capture);
  registerHandler("stator.polyfills.subgraphs.capture_with_sizes", captureWithSizes);
  registerHandler("stator.polyfills.subgraphs.capture_transformed", captureTransformed);
  registerHandler("stator.polyfills.subgraphs.look", look);
  registerHandler("stator.polyfills.subgraphs.capture_pair", capturePair);
  registerHandler("stator.polyfills.subgraphs.under_transforms", underTransforms);
  // Bound to the class by each access: the function underneath is what is called.
  registerWholePolyfill("torch.autograd.function.Function.apply.__func__", "autograd.apply");
  registerPolyfill("torch.autograd.function.Function.__init__", "autograd.init_instance");
  registerPolyfill("torch._shape_as_tensor", "tensors.shape_as_tensor");
  registerWholePolyfill("torch.utils.checkpoint.checkpoint", "higher_order.checkpoint");
  registerWholePolyfill("torch.cond", "higher_order.cond");
  registerWholePolyfill("torch._higher_order_ops.while_loop", "higher_order.while_loop");
  registerWholePolyfill("torch._higher_order_ops.scan", "higher_order.scan");
  registerWholePolyfill("torch._higher_order_ops.associative_scan",
                        "higher_order.associative_scan");
  registerWholePolyfill("torch._higher_order_ops.map", "higher_order.map_over");
  registerPolyfill("torch.utils._pytree._broadcast_to_and_flatten",
                   "transforms.broadcast_to_and_flatten");
  registerWholePolyfill("torch._functorch.vmap.vmap_impl", "transforms.vmap_impl");
  registerWholePolyfill("torch._functorch.eager_transforms.grad_impl", "transforms.grad_impl");
  registerWholePolyfill("torch._functorch.eager_transforms.grad_and_value_impl",
                        "transforms.grad_and_value_impl");
  registerWholePolyfill("torch._higher_order_ops.flex_attention.__class__.__call__",
                        "higher_order.flex_attention");
  registerWholePolyfill("torch._higher_order_ops.wrap.Wrap.__call__", "higher_order.wrap");
  for (const char* op :
       {"sym_size.int", "sym_stride.int", "sym_numel.default", "sym_storage_offset.default"}) {
    const std::string name = op;
    registerPolyfill(("torch.ops.aten." + name).c_str(),
                     ("tensors." + name.substr(0, name.find('.'))).c_str());
  }
  // The operators themselves, as torch's functions call them behind their checks, and graphs that are captured again.
  registerWholePolyfill("torch._higher_order_ops.utils._hop_compile_and_call",
                        "higher_order.call_now");
  registerWholePolyfill("torch._higher_order_ops.utils._maybe_compile_and_run_fn",
                        "higher_order.call_with");
  for (const char* op : {"cond", "while_loop", "scan", "associative_scan", "map_impl", "out_dtype"})
    registerWholePolyfill(
        (std::string("torch.ops.higher_order.") + op + ".__class__.__call__").c_str(),
        (std::string("higher_order.") + op + "_op").c_str());
  Ref<> flex = stealRef(PyUnicode_FromString("torch.nn.attention.flex_attention"));
  if (Ref<> loaded = stealRef(PyImport_GetModule(flex.get())))
    registerWholePolyfill("torch.nn.attention.flex_attention.flex_attention",
                          "flex.flex_attention");
  registerWholePolyfill("stator._transforms.jacobian", "transforms._jacobian");
  registerWholePolyfill("stator._transforms.product", "transforms._product");
  for (const char* name : {"jvp", "vjp", "jacrev", "jacfwd", "hessian"}) {
    registerWholePolyfill((std::string("torch._functorch.eager_transforms.") + name).c_str(),
                          (std::string("transforms.") + name).c_str());
  }
}

}  // namespace stator::interpret
