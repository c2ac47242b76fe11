// Specialised modules: a call of one of torch's own layers is one node, a call of the very module.
// The layer is traced all the same: that gives the facts of its results, and guards on all that its forward reads. What
// the trace put into the graph is then dropped in favour of the node, unless the call did more than compute: then it
// stays as it is.
#include "interpret/calls/folded_modules.h"

#include "base/parts.h"
#include "interpret/calls/modules.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/instance_attributes.h"
#include "interpret/tensors/torch_calls.h"

#include <string_view>
#include <unordered_set>

namespace stator::interpret {

namespace {

// The result of the call with stand-ins of new nodes in the places of those inside; null: it is no plain structure of
// them.
class Results {
 public:
  Results(Tracer& tracer, size_t first_node) : t_(tracer), first_(first_node) {}

  bool fits(PyObject* value, int depth = 0) {
    if (graph::isStandIn(value)) {
      graph::StandIn* inside = graph::asStandIn(value);
      bool made = inside->node->op != graph::Op::kInput &&
                  static_cast<size_t>(inside->node->index) >= first_;
      return made && inside->meta != nullptr && seen_.insert(value).second;
    }
    if (values::isScalar(value)) return depth > 0;
    if (depth > 4 || (!PyTuple_CheckExact(value) && !PyList_CheckExact(value))) return false;
    return everyItem(value, [&](PyObject* item) { return fits(item, depth + 1); });
  }
  bool any() const { return !seen_.empty(); }

  Ref<> rebuild(PyObject* value, graph::Node* node) {
    if (graph::isStandIn(value)) {
      node->meta = graph::asStandIn(value)->meta;
      Ref<> made = graph::makeStandIn(node, node->meta, graph::asStandIn(value)->apparent_type);
      t_.values.addMade(made.get(), t_.frames.instruction());
      return made;
    }
    if (values::isScalar(value)) return newRef(value);
    Ref<> list = stealRef(PyList_New(0));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(value, i);
      Ref<> rebuilt = values::isScalar(item) ? newRef(item)
                                             : rebuild(item, t_.graphs.current().addItem(node, i));
      PyList_Append(list.get(), rebuilt.get());
    }
    Ref<> whole = PyList_CheckExact(value) ? list : stealRef(PyList_AsTuple(list.get()));
    node->structure = whole;
    return whole;
  }

 private:
  Tracer& t_;
  size_t first_;
  std::unordered_set<PyObject*> seen_;
};

}  // namespace

void startFold(Tracer& tracer, PyObject* module, const Args& args, SymbolicFrame& entered,
               bool by_name) {
  values::Info* info = tracer.values.find(module);
  if (entered.folding || info == nullptr || info->origin != values::Origin::kOutside ||
      info->overlay || info->attributes != nullptr)
    return;
  if (!isLayerClass(Py_TYPE(module)) || isFsdpManaged(module) ||
      rawInstanceAttr(module, names().forward) != nullptr)
    return;
  auto fold = std::make_unique<FoldedCall>();
  fold->module = newRef(module);
  for (PyObject* value : args.values) fold->values.push_back(newRef(value));
  fold->positional = args.positional;
  if (args.names != nullptr) fold->keywords = newRef(args.names);
  fold->first_node = tracer.graphs.current().nodes().size();
  fold->effects = tracer.effects.count();
  fold->state = tracer.torch.now();
  fold->instruction = tracer.frames.instruction();
  tracer.modules.startFold(fold->instruction);
  fold->by_name = by_name;
  entered.fold = std::move(fold);
  entered.folding = true;
}

void startNamedFold(Tracer& tracer, PyObject* callable, const Args& args, SymbolicFrame& entered) {
  if (args.positional == 0) return;
  PyObject* module = args.values[0];
  // What calls a module with hooks gets to its forward this way too.
  if (!isModule(module) || _PyType_Lookup(Py_TYPE(module), names().forward) != callable ||
      runsModuleCall(tracer))
    return;
  specialise(tracer, module);
  startFold(tracer, module, args.withoutFirst(), entered, true);
}

namespace {

// The node that stands for the call: of the module, or of its method as an attribute of the graph has it.
graph::Node* addFolded(Tracer& tracer, const FoldedCall& fold, const Ref<>& args,
                       const Ref<>& kwargs) {
  graph::Graph& graph = tracer.graphs.current();
  const sources::Source* source = tracer.sourceOf(fold.module.get());
  if (!fold.by_name) {
    graph::Node* node = graph.addCall(graph::Op::kCallModule, fold.module, args, kwargs);
    node->source = source;
    return node;
  }
  graph::Node* owner = graph.addCall(graph::Op::kAttribute, newRef(names().forward),
                                     stealRef(PyTuple_New(0)), Ref<>());
  owner->target.reset();
  owner->example = fold.module;
  owner->source = source;
  Ref<> self =
      graph::makeStandIn(owner, nullptr, reinterpret_cast<PyObject*>(Py_TYPE(fold.module.get())));
  tracer.values.addMade(self.get(), tracer.frames.instruction());
  Ref<> all = stealRef(PyTuple_New(PyTuple_GET_SIZE(args.get()) + 1));
  PyTuple_SET_ITEM(all.get(), 0, self.release());
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args.get()); ++i)
    PyTuple_SET_ITEM(all.get(), i + 1, Py_NewRef(PyTuple_GET_ITEM(args.get(), i)));
  return graph.addCall(graph::Op::kCallMethod, newRef(names().forward), all, kwargs);
}

}  // namespace

void finishFold(Tracer& tracer, SymbolicFrame& frame) {
  FoldedCall& fold = *frame.fold;
  if (tracer.effects.count() != fold.effects || !(tracer.torch.now() == fold.state)) return;
  Results results(tracer, fold.first_node);
  if (!results.fits(tracer.frames.returned()) || !results.any()) return;
  Ref<> args = stealRef(PyTuple_New(static_cast<Py_ssize_t>(fold.positional)));
  Ref<> kwargs;
  for (size_t i = 0; i < fold.values.size(); ++i) {
    Out argument = graphArgument(tracer, fold.values[i].get());
    if (!argument.ok()) {
      tracer.ending.forgetBreak();
      return;
    }
    if (i < fold.positional) {
      PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i), argument.take().release());
    } else {
      if (!kwargs) kwargs = stealRef(PyDict_New());
      PyDict_SetItem(
          kwargs.get(),
          PyTuple_GET_ITEM(fold.keywords.get(), static_cast<Py_ssize_t>(i - fold.positional)),
          argument.get());
    }
  }
  bool mutates = false;
  size_t end = tracer.graphs.current().nodes().size();
  for (size_t i = fold.first_node; i < end; ++i) {
    graph::Node& node = tracer.graphs.current().nodes()[i];
    mutates |= node.mutates;
    node.mutates = node.called = false;  // nobody uses it: it goes with the dead nodes
  }
  graph::Node* node = addFolded(tracer, fold, args, kwargs);
  node->mutates = mutates;
  node->instruction = fold.instruction;
  node->location = frame.call_site;
  node->scope = frame.scope;
  tracer.frames.setReturned(results.rebuild(tracer.frames.returned(), node));
}

}  // namespace stator::interpret
