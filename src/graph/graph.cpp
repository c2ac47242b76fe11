#include "graph/graph.h"

#include "base/check.h"
#include "base/faults.h"
#include "base/imports.h"
#include "base/parts.h"
#include "base/stack_room.h"
#include "base/text.h"

#include <algorithm>
#include <unordered_map>

namespace stator::graph {

bool isFloatTensor(const Node& node) {
  return node.op == Op::kInput && node.source != nullptr &&
         node.source->kind == sources::SourceKind::kFloatTensor;
}

Ref<> floatAtCapture(const Node& node) {
  return stealRef(PyObject_CallMethod(node.example.get(), "item", nullptr));
}

Node* Graph::addInput(const sources::Source* source, Ref<> example,
                      const shapes::TensorMeta* meta) {
  Node& node = storage_.emplace_back();
  node.op = Op::kInput;
  node.home = this;
  node.index = static_cast<int>(nodes_.size());
  node.source = source;
  node.example = std::move(example);
  node.meta = meta;
  nodes_.push_back(&node);
  inputs_.push_back(&node);
  return &node;
}

Node* Graph::addCall(Op op, Ref<> target, Ref<> args, Ref<> kwargs) {
  faultPoint();
  STATOR_CHECK(op != Op::kInput && target && args && PyTuple_CheckExact(args.get()));
  STATOR_CHECK(op != Op::kCallMethod || PyUnicode_Check(target.get()));
  Node& node = storage_.emplace_back();
  node.op = op;
  node.home = this;
  node.index = static_cast<int>(nodes_.size());
  node.target = std::move(target);
  node.args = std::move(args);
  node.kwargs = std::move(kwargs);
  node.serial = static_cast<uint32_t>(storage_.size());
  node.instruction = instruction;
  nodes_.push_back(&node);
  return &node;
}

Node* Graph::addItem(Node* of, Py_ssize_t index) {
  static PyObject* getitem = [] {
    Ref<> module = Ref<>::steal(importModule("_operator"));
    return module ? PyObject_GetAttrString(module.get(), "getitem") : nullptr;
  }();
  Ref<> base = makeStandIn(of, nullptr, reinterpret_cast<PyObject*>(&PyTuple_Type));
  Ref<> number = Ref<>::steal(PyLong_FromSsize_t(index));
  if (getitem == nullptr || !base || !number) throw PythonError();
  Node* node = addCall(Op::kCallFunction, newRef(getitem),
                       stealRef(PyTuple_Pack(2, base.get(), number.get())), nullptr);
  node->location = of->location;
  node->scope = of->scope;
  return node;
}

void Graph::truncate(size_t length) {
  STATOR_CHECK(storage_.size() == nodes_.size() && length <= nodes_.size());
  auto behind = [&](const Node* node) { return static_cast<size_t>(node->index) >= length; };
  std::erase_if(inputs_, behind);
  std::erase_if(outputs_, behind);
  for (size_t i = 0; i < outputs_.size(); ++i) outputs_[i]->output = static_cast<int>(i);
  nodes_.resize(length);
  while (storage_.size() > length) storage_.pop_back();
}

size_t Graph::callCount() const {
  size_t attributes = 0;
  for (const Node* node : nodes_) attributes += node->op == Op::kAttribute ? 1 : 0;
  return nodes_.size() - inputs_.size() - attributes;
}

void Graph::specialiseInputs() {
  for (Node* node : inputs_) {
    if (!node->specialised || node->written || !node->example) continue;
    node->op = Op::kAttribute;
    node->args = stealRef(PyTuple_New(0));
  }
  std::erase_if(inputs_, [](const Node* node) { return node->op == Op::kAttribute; });
}

void Graph::addOutput(Node* node) {
  if (outputIndex(node) >= 0) return;
  node->output = static_cast<int>(outputs_.size());
  outputs_.push_back(node);
}

int Graph::outputIndex(Node* node) const {
  auto at = static_cast<size_t>(node->output);
  return node->output >= 0 && at < outputs_.size() && outputs_[at] == node ? node->output : -1;
}

void Graph::dropDead() {
  auto dead = [](const Node* node) { return node->uses == 0 && !node->mutates && !node->called; };
  for (Node* node : nodes_) node->uses = 0;
  for (Node* node : outputs_) ++node->uses;
  // Uses come after definitions, so one walk from the end sees every use of a node before the node itself.
  for (size_t i = nodes_.size(); i-- > 0;) {
    Node* node = nodes_[i];
    if (dead(node)) continue;
    auto count = [](StandIn* used) { ++used->node->uses; };
    forEachUsed(*node, count);
  }
  std::erase_if(inputs_, dead);
  std::erase_if(nodes_, dead);
  for (size_t i = 0; i < nodes_.size(); ++i) nodes_[i]->index = static_cast<int>(i);
  // What is dropped lives on in storage (stand-ins may point at it), but holds nothing of the user's.
  for (Node& node : storage_) {
    if (!dead(&node)) continue;
    node.index = -1;
    node.example.reset();
    node.args.reset();
    node.kwargs.reset();
    node.target.reset();
  }
}

// In other graphs those go that are switched again before anything sees them. After dropDead.
void Graph::dropSwitches() {
  // On or off, whatever it was before.
  auto switches = [](const Node* node) {
    return node->op == Op::kCallFunction && node->sets_mode && !node->leave && node->uses == 0 &&
           !node->kwargs && PyTuple_GET_SIZE(node->args.get()) == 1 &&
           PyBool_Check(PyTuple_GET_ITEM(node->args.get(), 0));
  };
  auto of_kind = [&](const Node* node, const Node* other) {
    return other != nullptr && switches(node) && switches(other) &&
           node->target.get() == other->target.get();
  };
  auto drop = [](Node* node) { node->mutates = node->called = false; };
  Node* last = nullptr;       // the last switch that stays
  Node* following = nullptr;  // a switch, with no other call behind it
  bool any = false, others = false;
  for (Node* node : nodes_) {
    if (node->op == Op::kInput) continue;
    others |= !node->sets_mode;
    if (!switches(node)) {
      if (following != nullptr) last = following;
      following = nullptr;
      // Whatever leaves a context may set the state back.
      if (node->sets_mode) last = nullptr;
      continue;
    }
    if (of_kind(node, following)) {
      // Nothing has seen the state that the one before set.
      drop(following);
      any = true;
      const bool back = of_kind(node, last) && PyTuple_GET_ITEM(node->args.get(), 0) ==
                                                   PyTuple_GET_ITEM(last->args.get(), 0);
      following = back ? nullptr : node;
      if (back) drop(node);
      continue;
    }
    if (following != nullptr) last = following;
    following = node;
  }
  if (!others) {
    for (Node* node : nodes_) node->mutates = false;
  }
  if (any || !others) dropDead();
}

void Graph::dropExamples() {
  for (Node* node : inputs_) node->example.reset();
}

namespace {

std::string textOf(PyObject* text) { return std::string(utf8View(text).value_or("?")); }

std::string label(const Node* node) {
  std::string text = "%";
  text += std::to_string(node->index);
  return text;
}

std::string nameOf(PyObject* callable) {
  Ref<> name = Ref<>::steal(PyObject_GetAttrString(callable, "__name__"));
  if (!name) {
    PyErr_Clear();
    return Py_TYPE(callable)->tp_name;
  }
  return textOf(name.get());
}

// repr of what has no user code in its repr; a name for the rest.
std::string constantText(PyObject* value) {
  std::string type = Py_TYPE(value)->tp_name;
  bool plain = value == Py_None || value == Py_Ellipsis || PyBool_Check(value) ||
               PyLong_CheckExact(value) || PyFloat_CheckExact(value) ||
               PyComplex_CheckExact(value) || PyUnicode_CheckExact(value) ||
               PyBytes_CheckExact(value) || type.starts_with("torch.");
  if (plain) {
    Ref<> text = Ref<>::steal(PyObject_Repr(value));
    // An address in it (a generator's, say) is another one in every process.
    if (text && textOf(text.get()).find(" at 0x") == std::string::npos) return textOf(text.get());
    PyErr_Clear();
  }
  if (PyType_Check(value) || PyFunction_Check(value) || PyCFunction_Check(value))
    return nameOf(value);
  return "<" + type + ">";
}

std::string argumentText(PyObject* value);

std::string itemsText(PyObject* sequence) {
  std::string text;
  Py_ssize_t size = PySequence_Fast_GET_SIZE(sequence);
  for (Py_ssize_t i = 0; i < size; ++i) {
    if (i > 0) text += ", ";
    text += argumentText(PySequence_Fast_GET_ITEM(sequence, i));
  }
  return text;
}

std::string argumentText(PyObject* value) {
  needStack();
  if (isStandIn(value)) return label(asStandIn(value)->node);
  if (PyTuple_Check(value))
    return "(" + itemsText(value) + (PyTuple_GET_SIZE(value) == 1 ? ",)" : ")");
  if (PyList_Check(value)) return "[" + itemsText(value) + "]";
  if (PyDict_Check(value)) {
    std::string text;
    PyObject* key = nullptr;
    PyObject* item = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(value, &at, &key, &item);) {
      if (!text.empty()) text += ", ";
      text += argumentText(key) + ": " + argumentText(item);
    }
    return "{" + text + "}";
  }
  if (PySlice_Check(value)) {
    const auto* slice = reinterpret_cast<PySliceObject*>(value);
    auto part = [](PyObject* bound) {
      return bound == Py_None ? std::string() : argumentText(bound);
    };
    std::string text = part(slice->start) + ":" + part(slice->stop);
    return slice->step == Py_None ? text : text + ":" + part(slice->step);
  }
  return constantText(value);
}

std::string callText(const Node& node) {
  std::string text;
  Py_ssize_t count = PyTuple_GET_SIZE(node.args.get());
  Py_ssize_t first = 0;
  if (node.op == Op::kCallMethod && count > 0) {
    text =
        argumentText(PyTuple_GET_ITEM(node.args.get(), 0)) + "." + textOf(node.target.get()) + "(";
    first = 1;
  } else {
    text = nameOf(node.target.get()) + "(";
  }
  const char* separator = "";
  for (Py_ssize_t i = first; i < count; ++i) {
    text += separator + argumentText(PyTuple_GET_ITEM(node.args.get(), i));
    separator = ", ";
  }
  if (node.kwargs) {
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(node.kwargs.get(), &at, &key, &value);) {
      text += separator + textOf(key) + "=" + argumentText(value);
      separator = ", ";
    }
  }
  return text + ")";
}

}  // namespace

std::string Graph::text(PyCodeObject* code) const {
  std::string text;
  for (const Node* node : nodes_) {
    text += label(node) + " = ";
    if (node->op == Op::kInput) {
      text += "input " +
              (node->source != nullptr ? sources::print(*node->source, code) : node->name_hint);
    } else if (node->op == Op::kAttribute) {
      text += "attribute " + sources::print(*node->source, code);
    } else {
      text += callText(*node);
    }
    if (node->meta != nullptr) {
      text += " : " + node->meta->text();
    } else if (node->scalar_type) {
      text += " : " + nameOf(node->scalar_type.get());
    }
    text += '\n';
  }
  text += "return";
  const char* separator = " ";
  for (const Node* node : outputs_) {
    text += separator + label(node);
    separator = ", ";
  }
  return text + "\n";
}

namespace {

// Nodes are numbered without those that compute sizes: a size may be computed on one rank and be a number on another.
using Numbers = std::unordered_map<const Node*, size_t>;

void addStructure(PyObject* argument, const Numbers& numbers, std::string& text) {
  needStack();
  if (argument == nullptr) return;
  if (isStandIn(argument)) {
    auto found = numbers.find(asStandIn(argument)->node);
    text += found == numbers.end() ? "." : "%" + std::to_string(found->second);
  } else if (PyTuple_Check(argument) || PyList_Check(argument)) {
    text += '[';
    everyItem(argument, [&](PyObject* item) {
      addStructure(item, numbers, text);
      return true;
    });
    text += ']';
  } else if (PyDict_Check(argument)) {
    text += '{';
    everyEntry(argument, [&](PyObject* key, PyObject* value) {
      if (PyUnicode_Check(key)) text += textOf(key) + "=";
      addStructure(value, numbers, text);
      return true;
    });
    text += '}';
  } else if (argument == Py_None || PyBool_Check(argument)) {
    text += argument == Py_None ? 'n' : argument == Py_True ? 't' : 'f';
  } else {
    text += '.';
  }
}

}  // namespace

std::string Graph::structure() const {
  std::string text;
  Numbers numbers;
  for (const Node* node : nodes_) {
    if (node->scalar_type) continue;
    const size_t number = numbers.size();
    numbers[node] = number;
    text += "%" + std::to_string(number) + "=";
    if (node->op == Op::kCallMethod) {
      text += "." + textOf(node->target.get());
    } else if (node->op == Op::kCallFunction) {
      text += nameOf(node->target.get());
    }
    addStructure(node->args.get(), numbers, text);
    addStructure(node->kwargs.get(), numbers, text);
    text += '\n';
  }
  for (const Node* node : outputs_) {
    if (auto found = numbers.find(node); found != numbers.end())
      text += "%" + std::to_string(found->second);
  }
  return text;
}

}  // namespace stator::graph
