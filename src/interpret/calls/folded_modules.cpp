// Specialised modules: a call of one of torch's own layers is one node, a call of the very module.
// The layer is traced all the same: that gives the facts of its results, and guards on all that its forward reads. What the trace put into
// the graph is then dropped in favour of the node, unless the call did more than compute: then it stays as it is.
#include "interpret/known_types.h"
#include "interpret/names.h"
#include "interpret/tracer.h"

#include <string_view>
#include <unordered_set>

namespace stator::interpret {

// Layers of torch's own; containers are no layers. Recurrent layers keep their weights a second time, in a list that AOTAutograd, which puts
// fakes in the places of parameters while it traces, would leave changed.
bool isLayerClass(PyTypeObject* type) {
  static auto* known = new std::unordered_map<PyTypeObject*, bool>();
  auto found = known->find(type);
  if (found != known->end()) return found->second;
  static PyObject* module_name = PyUnicode_InternFromString("__module__");
  PyObject* home = type != moduleType() ? _PyType_Lookup(type, module_name) : nullptr;
  bool layer = false;
  if (home != nullptr && PyUnicode_Check(home) && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) {
    std::string_view text = PyUnicode_AsUTF8(home);
    layer = (text.rfind("torch.nn.modules.", 0) == 0 && text != "torch.nn.modules.container" &&
             text != "torch.nn.modules.lazy" && text != "torch.nn.modules.rnn") ||
            text.rfind("torch.ao.nn.", 0) == 0;
  }
  if (layer) Py_INCREF(type);  // the key must not be reused
  if (layer) (*known)[type] = true;
  return layer;
}

namespace {

// The result of the call with stand-ins of new nodes in the places of those inside; null: it is no plain structure of them.
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
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
      if (!fits(PySequence_Fast_GET_ITEM(value, i), depth + 1)) return false;
    }
    return true;
  }
  bool any() const { return !seen_.empty(); }

  Ref<> rebuild(PyObject* value, graph::Node* node) {
    if (graph::isStandIn(value)) {
      node->meta = graph::asStandIn(value)->meta;
      Ref<> made = graph::makeStandIn(node, node->meta, graph::asStandIn(value)->apparent_type);
      t_.values.addMade(made, t_.instruction_start);
      return made;
    }
    if (values::isScalar(value)) return newRef(value);
    Ref<> list = stealRef(PyList_New(0));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(value, i);
      Ref<> rebuilt =
          values::isScalar(item) ? newRef(item) : rebuild(item, t_.graph->addItem(node, i));
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

void Tracer::startFold(PyObject* module, const Args& args, SymbolicFrame& entered) {
  values::Info* info = values.find(module);
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
  fold->first_node = graph->nodes().size();
  fold->effects = effects;
  fold->state = state;
  fold_started = fold->instruction = instruction_start;
  entered.fold = std::move(fold);
  entered.folding = true;
}

void Tracer::finishFold(SymbolicFrame& frame) {
  FoldedCall& fold = *frame.fold;
  if (effects != fold.effects || !(state == fold.state)) return;
  Results results(*this, fold.first_node);
  if (!results.fits(returned.get()) || !results.any()) return;
  Ref<> args = stealRef(PyTuple_New(static_cast<Py_ssize_t>(fold.positional)));
  Ref<> kwargs;
  for (size_t i = 0; i < fold.values.size(); ++i) {
    Out argument = graphArgument(fold.values[i].get());
    if (!argument.ok()) {
      broke = Broke();
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
  size_t end = graph->nodes().size();
  for (size_t i = fold.first_node; i < end; ++i) {
    graph::Node& node = graph->nodes()[i];
    mutates |= node.mutates;
    node.mutates = node.called = false;  // nobody uses it: it goes with the dead nodes
  }
  graph::Node* node = graph->addCall(graph::Op::kCallModule, fold.module, args, kwargs);
  node->source = sourceOf(fold.module.get());
  node->mutates = mutates;
  node->instruction = fold.instruction;
  node->location = frame.call_site;
  node->scope = frame.scope;
  returned = results.rebuild(returned.get(), node);
}

}  // namespace stator::interpret
