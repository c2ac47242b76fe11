#include "regions/piece.h"

#include "base/boundary.h"
#include "base/parts.h"
#include "base/rebuilt.h"
#include "base/stack_room.h"
#include "base/text.h"
#include "graph/fx_record.h"
#include "symbolic/expr.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace stator::regions {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::StandIn;

namespace {

// Fills a Piece from its stretch.
class Collector {
 public:
  Collector(const Calls& calls, Piece& piece) : calls_(calls), piece_(piece) {}

  void add(const Node& node) {
    graph::forEachUsed(node, [&](StandIn* used) { need(*used->node); });
    known_.insert(&node);
    piece_.calls.push_back(&node);
  }

 private:
  void need(const Node& value) {
    if (known_.count(&value) != 0) return;
    if (value.op != Op::kInput && calls_.isComputedAgain(value)) return add(value);
    known_.insert(&value);
    piece_.inputs.push_back(&value);
  }

  const Calls& calls_;
  Piece& piece_;
  std::unordered_set<const Node*> known_;
};

}  // namespace

Piece pieceOf(const Graph& graph, const Calls& calls, size_t begin, size_t end) {
  Piece piece;
  piece.begin = begin;
  piece.end = end;
  Collector collector(calls, piece);
  for (size_t at = begin; at < end; ++at) collector.add(*calls.nodes()[at]);
  for (size_t at = begin; at < end; ++at) {
    Node* node = calls.nodes()[at];
    const bool used_later = calls.lastUse(*node) >= end && !calls.isComputedAgain(*node);
    if (used_later || graph.outputIndex(node) >= 0) piece.outputs.push_back(node);
  }
  return piece;
}

namespace {

// Bytes that are equal for equal things, within one process and capture.
class Writer {
 public:
  std::string text;

  void number(int64_t value) { text.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void pointer(const void* value) { number(reinterpret_cast<intptr_t>(value)); }
  void bytes(const char* data, size_t size) {
    number(static_cast<int64_t>(size));
    text.append(data, size);
  }
  void dims(const shapes::Dims& dims) {
    number(static_cast<int64_t>(dims.size()));
    for (symbolic::Dim dim : dims) number(dim.bits());
  }

  // All that decides what comes of a call: not the storage's number and size, and not whether the tensor is a leaf.
  void facts(const shapes::TensorMeta* meta) {
    if (meta == nullptr) return tag('0');
    tag('m');
    dims(meta->sizes);
    dims(meta->strides);
    number(meta->storage_offset.bits());
    number(static_cast<int64_t>(meta->dtype));
    number(static_cast<int64_t>(meta->device) * 65536 + meta->device_index);
    for (bool flag : {meta->requires_grad, meta->is_wrapped_number, meta->is_conj, meta->is_neg,
                      meta->is_inference, meta->is_parameter})
      tag(flag ? '+' : '-');
    number(meta->layout);
  }

  void tag(char value) { text += value; }

  // `use(StandIn*)` writes a value of the graph.
  template <class Use>
  void argument(PyObject* value, Use& use) {
    needStack();
    if (value == nullptr) return tag('0');
    if (graph::isStandIn(value)) return use(graph::asStandIn(value));
    auto each = [&](PyObject* part) {
      argument(part, use);
      return true;
    };
    if (PyTuple_Check(value) || PyList_Check(value)) {
      tag('(');
      pointer(Py_TYPE(value));
      everyItem(value, each);
      return tag(')');
    }
    if (PyDict_Check(value)) {
      tag('{');
      pointer(Py_TYPE(value));
      everyEntry(value, [&](PyObject* key, PyObject* item) {
        constant(key);
        return each(item);
      });
      return tag('}');
    }
    if (PySlice_Check(value)) {
      tag('[');
      everyBound(value, each);
      return tag(']');
    }
    constant(value);
  }

  // What has a value by its value and its class, everything else by what it is.
  void constant(PyObject* value) {
    // The module of each body has a class of its own.
    if (std::shared_ptr<Graph> graph = graph::bodyOf(value)) {
      meta(value);
      return body(*graph);
    }
    PyTypeObject* type = Py_TYPE(value);
    pointer(type);
    if (PyFloat_CheckExact(value)) {
      const double number = PyFloat_AS_DOUBLE(value);
      return bytes(reinterpret_cast<const char*>(&number), sizeof number);
    }
    if (PyUnicode_CheckExact(value)) {
      if (const auto characters = utf8View(value))
        return bytes(characters->data(), characters->size());
    }
    const bool by_text = (PyLong_CheckExact(value)) || PyComplex_CheckExact(value) ||
                         PyBytes_CheckExact(value) ||
                         std::string_view(type->tp_name) == "torch.device";
    if (by_text) {
      Ref<> shown = orThrow(PyObject_Repr(value));
      if (utf8OrError(shown.get()) == nullptr) throw PythonError();
      const std::string_view shown_text = *utf8View(shown.get());
      return bytes(shown_text.data(), shown_text.size());
    }
    pointer(value);
  }

  // What is noted on a body's module: a checkpoint's context_fn.
  void meta(PyObject* module) {
    Ref<> notes = orThrow(PyObject_GetAttrString(module, "meta"));
    if (!PyDict_Check(notes.get())) return;
    PyObject *key = nullptr, *note = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(notes.get(), &at, &key, &note);) {
      constant(key);
      constant(note);
    }
  }

  // Two bodies that do the same.
  void body(const Graph& graph) {
    needStack();
    std::unordered_map<const Node*, int64_t> numbers;
    auto use = [&](StandIn* used) {
      auto found = numbers.find(used->node);
      tag('%');
      // of another graph: by itself
      if (found == numbers.end()) return pointer(used->node);
      number(found->second);
      pointer(used->apparent_type);
    };
    // Inputs may have been added behind the calls that use them.
    for (const Node* input : graph.inputs()) {
      tag('i');
      facts(input->meta);
      pointer(input->scalar_type.get());
      number(input->size.bits());
      pointer(input->wrapper.get());
      numbers.emplace(input, static_cast<int64_t>(numbers.size()));
    }
    for (const Node& node : graph.nodes()) {
      if (node.op == Op::kInput) continue;
      call(node, use);
      if (node.op == Op::kAttribute) pointer(node.example.get());
      numbers.emplace(&node, static_cast<int64_t>(numbers.size()));
    }
    tag('>');
    argument(graph.result.get(), use);
    for (const Node* output : graph.outputs()) number(numbers.at(output));
  }

  template <class Use>
  void call(const Node& node, Use& use) {
    number(static_cast<int64_t>(node.op));
    if (node.target) constant(node.target.get());
    argument(node.args.get(), use);
    const bool keywords = node.kwargs && PyDict_GET_SIZE(node.kwargs.get()) > 0;
    argument(keywords ? node.kwargs.get() : nullptr, use);
    for (bool flag : {node.mutates, node.repeatable, node.random, node.check, node.called,
                      node.sets_mode, static_cast<bool>(node.leave)})
      tag(flag ? '+' : '-');
    facts(node.meta);
    pointer(node.scalar_type.get());
    number(node.size.bits());
  }
};

// What a module of a graph says of an input beyond its facts, and a backend may look at.
void writeInput(Writer& writer, const Node& input) {
  writer.pointer(input.scalar_type.get());
  writer.number(input.size.bits());
  writer.facts(input.meta);
  using sources::SourceKind;
  PyObject* example = input.op == Op::kInput ? input.example.get() : nullptr;
  const bool registered =
      input.source != nullptr &&
      (input.source->kind == SourceKind::kParameter || input.source->kind == SourceKind::kBuffer);
  for (bool flag : {input.of_module, registered, input.written}) writer.tag(flag ? '+' : '-');
  // A tensor from outside without marks is as good as one that another region has made.
  if (example == nullptr || input.scalar_type) return;
  if (std::string_view(Py_TYPE(example)->tp_name) != "Tensor") writer.pointer(Py_TYPE(example));
  for (const char* mark : {"_dynamo_static_input_type", "tag"}) {
    Ref<> found = stealRef(PyObject_GetAttrString(example, mark));
    if (!found) PyErr_Clear();
    if (found) writer.constant(found.get());
  }
  if (!input.written) return;
  Ref<> view = orThrow(PyObject_CallMethod(example, "_is_view", nullptr));
  writer.constant(view.get());
  writer.tag(input.meta->is_leaf ? '+' : '-');
}

}  // namespace

std::string signatureOf(const Piece& piece) {
  Writer writer;
  std::unordered_map<const Node*, int64_t> numbers;
  std::unordered_map<uint32_t, int64_t> storages;
  auto storage = [&](const shapes::TensorMeta* meta) {
    if (meta == nullptr) return;
    writer.number(storages.try_emplace(meta->storage_id, static_cast<int64_t>(storages.size()))
                      .first->second);
  };
  for (const Node* input : piece.inputs) {
    numbers.emplace(input, static_cast<int64_t>(numbers.size()));
    writeInput(writer, *input);
    storage(input->meta);
  }
  auto use = [&](StandIn* used) {
    writer.tag('%');
    writer.number(numbers.at(used->node));
    writer.pointer(used->apparent_type);
  };
  for (const Node* node : piece.calls) {
    writer.call(*node, use);
    storage(node->meta);
    numbers.emplace(node, static_cast<int64_t>(numbers.size()));
  }
  writer.tag('>');
  for (const Node* output : piece.outputs) writer.number(numbers.at(output));
  return std::move(writer.text);
}

std::string outlineOf(const Node& node) {
  Writer writer;
  auto use = [&](StandIn* used) {
    writer.tag('%');
    writer.facts(used->meta);
    writer.pointer(used->apparent_type);
  };
  writer.call(node, use);
  return std::move(writer.text);
}

bool bindsSymbols(const Piece& piece) {
  std::unordered_set<int64_t> needed, bound;
  auto need = [&](symbolic::Dim dim) {
    if (dim.isStatic()) return;
    for (int64_t symbol : symbolic::symbolsIn(dim.expr())) needed.insert(symbol);
  };
  auto bind = [&](symbolic::Dim dim) {
    if (!dim.isStatic() && dim.expr()->kind == symbolic::Kind::kSymbol)
      bound.insert(dim.expr()->number);
  };
  auto look = [&](const Node& node) {
    need(node.size);
    if (node.meta == nullptr) return;
    for (symbolic::Dim size : node.meta->sizes) need(size);
    for (symbolic::Dim stride : node.meta->strides) need(stride);
    need(node.meta->storage_offset);
  };
  for (const Node* node : piece.calls) look(*node);
  for (const Node* input : piece.inputs) {
    // What comes from outside is there whatever its strides are made of.
    if (input->op != Op::kInput) look(*input);
    if (input->scalar_type) bind(input->size);
    if (input->meta == nullptr) continue;
    for (symbolic::Dim size : input->meta->sizes) bind(size);
    for (symbolic::Dim stride : input->meta->strides) bind(stride);
  }
  return std::all_of(needed.begin(), needed.end(),
                     [&](int64_t symbol) { return bound.count(symbol) != 0; });
}

namespace {

// The nodes of a piece in a graph of their own.
class Copier {
 public:
  Copier(const Piece& piece, Graph& to) : piece_(piece), to_(to) {}

  void copy() {
    for (const Node* input : piece_.inputs) addInput(*input);
    for (const Node* node : piece_.calls) addCall(*node);
    // What a call with several results gives names nodes that come after it.
    for (const Node* node : piece_.calls) {
      if (node->structure) made_.at(node)->structure = rewritten(node->structure.get(), true);
    }
    for (const Node* output : piece_.outputs) to_.addOutput(made_.at(output));
  }

 private:
  void addInput(const Node& old) {
    const bool outside = old.op == Op::kInput;
    Node* node = to_.addInput(outside ? old.source : nullptr, old.example, old.meta);
    node->of_module = outside && old.of_module;
    node->written = outside && old.written;
    node->name_hint = old.name_hint;
    if (!outside && node->name_hint.empty()) node->name_hint = "value";
    finish(old, node);
  }

  void addCall(const Node& old) {
    Ref<> kwargs = old.kwargs ? rewritten(old.kwargs.get(), false) : Ref<>();
    Node* node =
        to_.addCall(old.op, old.target, rewritten(old.args.get(), false), std::move(kwargs));
    node->mutates = old.mutates;
    node->repeatable = old.repeatable;
    node->random = old.random;
    node->check = old.check;
    node->called = old.called;
    node->sets_mode = old.sets_mode;
    node->leave = old.leave;
    node->name_hint = old.name_hint;
    node->serial = old.serial;
    node->instruction = old.instruction;
    finish(old, node);
  }

  void finish(const Node& old, Node* node) {
    node->meta = old.meta;
    node->wrapper = old.wrapper;
    node->scalar_type = old.scalar_type;
    node->size = old.size;
    node->location = old.location;
    node->scope = old.scope;
    made_[&old] = node;
  }

  // With stand-ins of the new nodes in the places of the old ones. `lenient`: some are of results that nobody uses, and
  // stay.
  Ref<> rewritten(PyObject* value, bool lenient) {
    needStack();
    if (graph::isStandIn(value)) {
      const StandIn* old = graph::asStandIn(value);
      auto found = made_.find(old->node);
      if (found == made_.end() && lenient) return newRef(old->node->index < 0 ? value : Py_None);
      STATOR_CHECK(found != made_.end(), "a region uses a value that it does not have");
      return orThrow(graph::makeStandIn(found->second, old->meta, old->apparent_type).release());
    }
    bool holds = false;
    graph::forEachStandIn(value, [&](StandIn*) { holds = true; });
    if (!holds) return newRef(value);
    auto part = [&](PyObject* item) { return rewritten(item, lenient); };
    return orThrow(rebuilt(value, part).release());
  }

  const Piece& piece_;
  Graph& to_;
  std::unordered_map<const Node*, Node*> made_;
};

bool hasSymbols(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (!node.size.isStatic() || (node.meta != nullptr && node.meta->isSymbolic())) return true;
  }
  return false;
}

}  // namespace

std::shared_ptr<Graph> graphOf(const std::shared_ptr<Graph>& whole, const Piece& piece) {
  auto made = std::make_shared<Graph>();
  Copier(piece, *made).copy();
  // Nodes point at facts of the whole graph, and results that nobody uses are its nodes.
  made->outer_places = whole->outer_places;
  made->outer_places.emplace_back(whole, whole->places.get());
  if (whole->symbols != nullptr && hasSymbols(*made))
    made->symbols = std::make_unique<graph::Symbols>(*whole->symbols);
  return made;
}

}  // namespace stator::regions
