#include "debug/specimen.h"

#include "base/check.h"
#include "base/imports.h"
#include "base/parts.h"
#include "base/stack_room.h"
#include "base/text.h"

#include <algorithm>
#include <unordered_map>

namespace stator::debug {

namespace {

using graph::Node;
using graph::Op;

std::string text(PyObject* value) {
  const char* data = utf8OrError(value);
  if (data == nullptr) throw PythonError();
  return data;
}

Ref<> attribute(PyObject* object, const char* name) {
  return orThrow(PyObject_GetAttrString(object, name));
}

class FxReader {
 public:
  FxReader(PyObject* fx_graph, PyObject* describe, PyObject* function_at, bool is_body)
      : fx_graph_(fx_graph), describe_(describe), function_at_(function_at), is_body_(is_body) {
    Ref<> module = orThrow(importModule("torch.fx.node"));
    node_type_ = attribute(module.get(), "Node");
  }

  Specimen read() {
    Ref<> nodes = orThrow(PySequence_List(attribute(fx_graph_, "nodes").get()));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(nodes.get()); ++i)
      add(PyList_GET_ITEM(nodes.get(), i));
    return std::move(made_);
  }

 private:
  void add(PyObject* fx) {
    std::string op = text(attribute(fx, "op").get());
    if (op == "output") return addOutputs(fx);
    Node* node = nullptr;
    if (op == "get_attr" && function_at_ != nullptr) {
      Ref<> function = orThrow(PyObject_CallOneArg(function_at_, fx));
      if (function.get() != Py_None) {
        functions_[fx] = std::move(function);
        return;
      }
      node = made_.graph->addInput(nullptr, nullptr, nullptr);
    } else if (op == "placeholder") {
      node = made_.graph->addInput(nullptr, nullptr, nullptr);
    } else if (op == "call_function" || op == "call_method") {
      Ref<> args = convert(attribute(fx, "args").get());
      Ref<> kwargs = convert(attribute(fx, "kwargs").get());
      if (PyDict_GET_SIZE(kwargs.get()) == 0) kwargs.reset();
      node = made_.graph->addCall(op == "call_method" ? Op::kCallMethod : Op::kCallFunction,
                                  attribute(fx, "target"), std::move(args), std::move(kwargs));
    } else {
      PyErr_Format(PyExc_NotImplementedError,
                   "a graph with a node %s (%R) cannot be written as a script", op.c_str(), fx);
      throw PythonError();
    }
    node->name_hint = text(attribute(fx, "name").get());
    Ref<> told = orThrow(PyObject_CallOneArg(describe_, fx));
    ValueFacts facts;
    facts.kind = static_cast<Kind>(text(PyTuple_GET_ITEM(told.get(), 0))[0]);
    facts.text = text(PyTuple_GET_ITEM(told.get(), 1));
    facts.line = text(PyTuple_GET_ITEM(told.get(), 2));
    node->mutates = PyTuple_GET_ITEM(told.get(), 3) == Py_True;
    made_.facts.push_back(std::move(facts));
    nodes_[fx] = node;
  }

  void addOutputs(PyObject* fx) {
    Ref<> args = attribute(fx, "args");
    PyObject* values = PyTuple_GET_ITEM(args.get(), 0);
    if (is_body_) {
      made_.graph->result = convert(values);
      return;
    }
    if (PyObject_TypeCheck(values, reinterpret_cast<PyTypeObject*>(node_type_.get()))) {
      made_.graph->addOutput(nodes_.at(values));
      return;
    }
    if (!PyTuple_Check(values) && !PyList_Check(values)) return;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(values); ++i) {
      auto found = nodes_.find(PySequence_Fast_GET_ITEM(values, i));
      // None and constants among the outputs (a backward graph has them) do not matter to a failure.
      if (found != nodes_.end()) made_.graph->addOutput(found->second);
    }
  }

  Ref<> convert(PyObject* value) {
    auto* node_type = reinterpret_cast<PyTypeObject*>(node_type_.get());
    // FX nodes are constants to the walk, since they are no stand-ins.
    auto none = [](Node*) -> Ref<> { throw InternalError("a stand-in in an FX graph"); };
    auto constant = [&](PyObject* leaf) -> Ref<> {
      if (!PyObject_TypeCheck(leaf, node_type)) return newRef(leaf);
      if (auto function = functions_.find(leaf); function != functions_.end())
        return function->second;
      auto found = nodes_.find(leaf);
      if (found == nodes_.end()) {
        PyErr_Format(PyExc_ValueError, "%R is used before it is made", leaf);
        throw PythonError();
      }
      return orThrow(graph::makeStandIn(found->second, nullptr,
                                        reinterpret_cast<PyObject*>(&PyBaseObject_Type))
                         .release());
    };
    return rewritten(value, none, constant);
  }

  PyObject* fx_graph_;
  PyObject* describe_;
  PyObject* function_at_;
  bool is_body_;
  Ref<> node_type_;
  Specimen made_;
  std::unordered_map<PyObject*, Node*> nodes_;
  std::unordered_map<PyObject*, Ref<>> functions_;
};

class Hash {
 public:
  void add(uint64_t value) { state_ = (state_ ^ value) * 0x100000001b3ULL; }
  void add(const std::string& text) {
    for (char c : text) add(static_cast<unsigned char>(c));
    add(text.size());
  }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0xcbf29ce484222325ULL;
};

void hashArgument(Hash& hash, PyObject* value) {
  needStack();
  if (value == nullptr) return hash.add(0);
  if (graph::isStandIn(value)) {
    hash.add('%');
    return hash.add(static_cast<uint64_t>(graph::asStandIn(value)->node->index));
  }
  auto each = [&](PyObject* part) {
    hashArgument(hash, part);
    return true;
  };
  hash.add(std::string(Py_TYPE(value)->tp_name));
  if (PyTuple_Check(value) || PyList_Check(value)) {
    hash.add(static_cast<uint64_t>(PySequence_Fast_GET_SIZE(value)));
    everyItem(value, each);
  } else if (PyDict_Check(value)) {
    everyEntry(value, [&](PyObject* key, PyObject* item) { return each(key) && each(item); });
  } else if (PySlice_Check(value)) {
    everyBound(value, each);
  } else if (Ref<> own = Ref<>::steal(PyObject_GetAttrString(value, "_stator_hash")); own) {
    hash.add(PyLong_AsUnsignedLongLongMask(own.get()));  // a function that the graph calls
  } else {
    PyErr_Clear();
    Ref<> shown = orThrow(PyObject_Repr(value));
    hash.add(text(shown.get()));
  }
}

}  // namespace

std::vector<int> Specimen::calls() const {
  std::vector<int> made;
  for (const Node& node : graph->nodes()) {
    if (node.op != Op::kInput) made.push_back(node.index);
  }
  return made;
}

int Specimen::find(const std::string& wanted) const {
  for (const Node& node : graph->nodes()) {
    if (node.name_hint == wanted) return node.index;
  }
  return -1;
}

std::vector<int> Specimen::reads(int index) const {
  std::vector<int> made;
  auto use = [&](graph::StandIn* used) {
    if (std::find(made.begin(), made.end(), used->node->index) == made.end())
      made.push_back(used->node->index);
  };
  const Node& node = graph->nodes()[static_cast<size_t>(index)];
  graph::forEachUsed(node, use);
  return made;
}

Specimen fromFx(PyObject* fx_graph, PyObject* describe, PyObject* function_at, bool is_body) {
  return FxReader(fx_graph, describe, function_at, is_body).read();
}

uint64_t hashOf(const Specimen& specimen) {
  Hash hash;
  for (const Node& node : specimen.graph->nodes()) {
    hash.add(static_cast<uint64_t>(node.op));
    if (node.op == Op::kInput) {
      hash.add(specimen.facts[static_cast<size_t>(node.index)].text);
      continue;
    }
    hashArgument(hash, node.target.get());
    hashArgument(hash, node.args.get());
    hashArgument(hash, node.kwargs.get());
  }
  for (const Node* node : specimen.graph->outputs()) hash.add(static_cast<uint64_t>(node->index));
  if (specimen.graph->result) hashArgument(hash, specimen.graph->result.get());
  return hash.value();
}

}  // namespace stator::debug
