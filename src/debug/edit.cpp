#include "debug/edit.h"

#include "base/parts.h"

#include <algorithm>

namespace stator::debug {

namespace {

using graph::Node;
using graph::Op;

// Copies nodes one by one into a new specimen; values are found again by the old index.
class Copier {
 public:
  explicit Copier(const Specimen& from) : from_(from), made_(from.graph->nodes().size(), nullptr) {}

  Node* input(int old) {
    Node* node = to_.graph->addInput(nullptr, nullptr, nullptr);
    finish(node, old);
    return node;
  }

  template <class Constant>
  Node* call(int old, Constant& constant) {
    const Node& source = from_.graph->nodes()[static_cast<size_t>(old)];
    Ref<> args = rewritten(source.args.get(), swap_, constant);
    Ref<> kwargs = source.kwargs ? rewritten(source.kwargs.get(), swap_, constant) : Ref<>();
    Node* node = to_.graph->addCall(source.op, source.target, std::move(args), std::move(kwargs));
    node->mutates = source.mutates;
    finish(node, old);
    return node;
  }
  Node* call(int old) {
    auto same = [](PyObject* value) { return newRef(value); };
    return call(old, same);
  }

  Node* at(int old) const { return made_[static_cast<size_t>(old)]; }
  void alias(int old, Node* node) { made_[static_cast<size_t>(old)] = node; }
  Specimen& to() { return to_; }

 private:
  void finish(Node* node, int old) {
    node->name_hint = from_.name(old);
    to_.facts.push_back(from_.facts[static_cast<size_t>(old)]);
    made_[static_cast<size_t>(old)] = node;
  }

  Ref<> standIn(Node* old) {
    Node* node = made_[static_cast<size_t>(old->index)];
    STATOR_CHECK(node != nullptr, "an edit lost " + from_.name(old->index));
    return orThrow(
        graph::makeStandIn(node, nullptr, reinterpret_cast<PyObject*>(&PyBaseObject_Type))
            .release());
  }

  struct Swap {
    Copier* copier;
    Ref<> operator()(Node* old) { return copier->standIn(old); }
  };

  const Specimen& from_;
  Specimen to_;
  std::vector<Node*> made_;
  Swap swap_{this};
};

bool picks(const Specimen& from, int index) {
  const Node& node = from.graph->nodes()[static_cast<size_t>(index)];
  if (node.op != Op::kCallFunction || PyTuple_GET_SIZE(node.args.get()) != 2) return false;
  PyObject* base = PyTuple_GET_ITEM(node.args.get(), 0);
  return graph::isStandIn(base) &&
         from.facts[static_cast<size_t>(graph::asStandIn(base)->node->index)].kind ==
             Kind::kSeveral;
}

// A new specimen without the calls and inputs that nothing needs.
Edited pruned(Specimen&& specimen, const std::vector<int>& cut_names_of, const Specimen& from) {
  size_t before = specimen.graph->nodes().size();
  std::vector<const Node*> order;
  for (const Node& node : specimen.graph->nodes()) order.push_back(&node);
  specimen.graph->dropDead();
  std::vector<ValueFacts> facts;
  for (size_t i = 0; i < before; ++i) {
    if (order[i]->index >= 0 && (order[i]->uses > 0 || order[i]->mutates))
      facts.push_back(std::move(specimen.facts[i]));
  }
  specimen.facts = std::move(facts);
  STATOR_CHECK(specimen.facts.size() == specimen.graph->nodes().size());
  Edited edited{std::move(specimen), {}};
  for (int old : cut_names_of) {
    if (edited.specimen.find(from.name(old)) >= 0) edited.cut.push_back(old);
  }
  return edited;
}

}  // namespace

std::optional<Edited> keepCalls(const Specimen& from, std::vector<bool> keep) {
  const auto nodes = from.graph->nodes();
  for (int index : from.calls()) {
    if (picks(from, index))
      keep[static_cast<size_t>(index)] = keep[static_cast<size_t>(from.reads(index).front())];
  }
  Copier copier(from);
  std::vector<bool> needed(nodes.size(), false);
  std::vector<bool> read(nodes.size(), false);
  for (int index : from.calls()) {
    if (!keep[static_cast<size_t>(index)]) continue;
    for (int used : from.reads(index))
      needed[static_cast<size_t>(used)] = read[static_cast<size_t>(used)] = true;
  }
  std::vector<int> cut;
  for (size_t i = 0; i < nodes.size(); ++i) {
    bool is_input = nodes[i].op == Op::kInput;
    if (!needed[i] || (!is_input && keep[i])) continue;
    if (!is_input) {
      if (from.facts[i].kind == Kind::kSeveral) return std::nullopt;
      cut.push_back(static_cast<int>(i));
    }
    copier.input(static_cast<int>(i));
  }
  for (int index : from.calls()) {
    if (keep[static_cast<size_t>(index)]) copier.call(index);
  }
  bool any_tensor = false;
  for (int index : from.calls()) {
    size_t at = static_cast<size_t>(index);
    if (!keep[at]) continue;
    bool was_output = from.graph->outputIndex(&from.graph->nodes()[at]) >= 0;
    if (from.facts[at].kind != Kind::kTensor || (read[at] && !was_output)) continue;
    copier.to().graph->addOutput(copier.at(index));
    any_tensor = true;
  }
  if (!any_tensor) return std::nullopt;
  return pruned(std::move(copier.to()), cut, from);
}

std::optional<Edited> keepOutputs(const Specimen& from, const std::vector<int>& outputs) {
  Copier copier(from);
  for (const Node& node : from.graph->nodes()) {
    if (node.op == Op::kInput) {
      copier.input(node.index);
    } else {
      copier.call(node.index);
    }
  }
  for (int index : outputs) copier.to().graph->addOutput(copier.at(index));
  if (outputs.empty()) return std::nullopt;
  return pruned(std::move(copier.to()), {}, from);
}

std::optional<Edited> substitute(const Specimen& from, int gone, int instead) {
  if (gone <= instead) return std::nullopt;
  Copier copier(from);
  for (const Node& node : from.graph->nodes()) {
    if (node.index == gone) {
      copier.alias(gone, copier.at(instead));
    } else if (node.op == Op::kInput) {
      copier.input(node.index);
    } else {
      copier.call(node.index);
    }
  }
  bool any = false;
  for (const Node* output : from.graph->outputs()) {
    Node* made = copier.at(output->index);
    if (made->op == Op::kInput) continue;
    copier.to().graph->addOutput(made);
    any = true;
  }
  if (!any) return std::nullopt;
  return pruned(std::move(copier.to()), {}, from);
}

namespace {

// Operands behind the last function among a call's arguments, at any depth.
struct Operands {
  std::vector<PyObject*> values;
  void collect(PyObject* argument) {
    if (PyTuple_Check(argument) || PyList_Check(argument)) {
      everyItem(argument, [&](PyObject* item) {
        collect(item);
        return true;
      });
    } else if (isFunction(argument)) {
      values.clear();
    } else {
      values.push_back(argument);
    }
  }
};

}  // namespace

bool isFunction(PyObject* argument) {
  return !graph::isStandIn(argument) && PyObject_HasAttrString(argument, "_stator_hash") != 0;
}

std::optional<Edited> inlined(const Specimen& from, int index, const Specimen& body) {
  const Node& call = from.graph->nodes()[static_cast<size_t>(index)];
  Operands operands;
  operands.collect(call.args.get());
  PyObject* result = body.graph->result.get();
  if (operands.values.size() != body.graph->inputs().size() || result == nullptr)
    return std::nullopt;
  Copier copier(from);
  std::vector<Ref<>> inside(body.graph->nodes().size());  // what the body's values are here
  auto same = [](PyObject* value) { return newRef(value); };
  auto swap = [&](Node* node) { return inside[static_cast<size_t>(node->index)]; };
  auto result_at = [&](PyObject* position) -> Node* {
    PyObject* item = result;
    if (position != nullptr) {
      Py_ssize_t at = PyLong_Check(position) ? PyLong_AsSsize_t(position) : -1;
      if (!PyTuple_Check(result) || at < 0 || at >= PyTuple_GET_SIZE(result)) return nullptr;
      item = PyTuple_GET_ITEM(result, at);
    }
    if (!graph::isStandIn(item)) return nullptr;
    PyObject* made = inside[static_cast<size_t>(graph::asStandIn(item)->node->index)].get();
    return made != nullptr && graph::isStandIn(made) ? graph::asStandIn(made)->node : nullptr;
  };
  auto add_body = [&] {
    for (size_t i = 0; i < operands.values.size(); ++i) {
      auto moved = [&](Node* node) {
        return orThrow(graph::makeStandIn(copier.at(node->index), nullptr,
                                          reinterpret_cast<PyObject*>(&PyBaseObject_Type))
                           .release());
      };
      inside[static_cast<size_t>(body.graph->inputs()[i]->index)] =
          rewritten(operands.values[i], moved, same);
    }
    for (int at : body.calls()) {
      const Node& inner = body.graph->nodes()[static_cast<size_t>(at)];
      Ref<> args = rewritten(inner.args.get(), swap, same);
      Ref<> kwargs = inner.kwargs ? rewritten(inner.kwargs.get(), swap, same) : Ref<>();
      Node* made = copier.to().graph->addCall(inner.op, inner.target, std::move(args), kwargs);
      made->mutates = inner.mutates;
      made->name_hint = from.name(index) + "_" + inner.name_hint;
      copier.to().facts.push_back(body.facts[static_cast<size_t>(at)]);
      inside[static_cast<size_t>(at)] =
          orThrow(graph::makeStandIn(made, nullptr, reinterpret_cast<PyObject*>(&PyBaseObject_Type))
                      .release());
    }
  };
  for (const Node& node : from.graph->nodes()) {
    if (node.op == Op::kInput) {
      copier.input(node.index);
      continue;
    }
    if (node.index == index) {
      add_body();
      if (Node* whole = result_at(nullptr)) copier.alias(index, whole);
      continue;
    }
    std::vector<int> reads = from.reads(node.index);
    if (std::find(reads.begin(), reads.end(), index) != reads.end() &&
        copier.at(index) == nullptr) {
      if (!picks(from, node.index)) return std::nullopt;
      Node* picked = result_at(PyTuple_GET_ITEM(node.args.get(), 1));
      if (picked == nullptr) return std::nullopt;
      copier.alias(node.index, picked);
      continue;
    }
    copier.call(node.index);
  }
  bool any = false;
  for (const Node* output : from.graph->outputs()) {
    Node* made = copier.at(output->index);
    if (made == nullptr || made->op == Op::kInput) continue;
    copier.to().graph->addOutput(made);
    any = true;
  }
  if (!any) return std::nullopt;
  return pruned(std::move(copier.to()), {}, from);
}

namespace {

bool isScalar(PyObject* value) {
  return PyBool_Check(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value);
}

template <class Constant>
Specimen copied(const Specimen& from, Constant&& constant) {
  Copier copier(from);
  for (const Node& node : from.graph->nodes()) {
    if (node.op == Op::kInput) {
      copier.input(node.index);
    } else {
      auto replace = [&](PyObject* value) { return constant(node.index, value); };
      copier.call(node.index, replace);
    }
  }
  for (const Node* output : from.graph->outputs())
    copier.to().graph->addOutput(copier.at(output->index));
  return std::move(copier.to());
}

}  // namespace

std::vector<std::pair<int, Ref<>>> constants(const Specimen& from) {
  std::vector<std::pair<int, Ref<>>> found;
  copied(from, [&](int index, PyObject* value) {
    if (isScalar(value)) found.emplace_back(index, newRef(value));
    return newRef(value);
  });
  return found;
}

Specimen withConstant(const Specimen& from, size_t position, PyObject* value) {
  size_t at = 0;
  return copied(from, [&](int, PyObject* old) {
    return newRef(isScalar(old) && at++ == position ? value : old);
  });
}

Specimen withInts(const Specimen& from, int64_t was, int64_t is) {
  Ref<> number = orThrow(PyLong_FromLongLong(is));
  return copied(from, [&](int, PyObject* old) {
    bool hit = PyLong_CheckExact(old) && PyLong_AsLongLong(old) == was;
    if (!hit) PyErr_Clear();  // too large for a long long is no error here
    return newRef(hit ? number.get() : old);
  });
}

Specimen withoutKeyword(const Specimen& from, int index, PyObject* keyword) {
  Specimen made = copied(from, [](int, PyObject* old) { return newRef(old); });
  Node& node = made.graph->nodes()[static_cast<size_t>(index)];
  STATOR_CHECK(node.name_hint == from.name(index));
  if (node.kwargs && PyDict_DelItem(node.kwargs.get(), keyword) < 0) throw PythonError();
  return made;
}

Specimen withSnapshots(const Specimen& from, const std::vector<int>& values, PyObject* snapshot) {
  Copier copier(from);
  Specimen& to = copier.to();
  auto* any_type = reinterpret_cast<PyObject*>(&PyBaseObject_Type);
  size_t left = values.size();
  for (const Node& node : from.graph->nodes()) {
    if (left == 0) break;
    Node* copy = node.op == Op::kInput ? copier.input(node.index) : copier.call(node.index);
    if (std::find(values.begin(), values.end(), node.index) == values.end()) continue;
    Ref<> stand_in = orThrow(graph::makeStandIn(copy, nullptr, any_type).release());
    Node* taken = to.graph->addCall(Op::kCallFunction, newRef(snapshot),
                                    orThrow(PyTuple_Pack(1, stand_in.get())), nullptr);
    taken->name_hint = node.name_hint + "_snapshot";
    to.facts.push_back(from.facts[static_cast<size_t>(node.index)]);
    to.graph->addOutput(taken);
    --left;
  }
  return std::move(to);
}

}  // namespace stator::debug
