// The captured graph while and after tracing: a list of nodes in program order. Small and plain: FX is built from it
// once, at the end, and the executor runs it directly when no backend is asked.
#pragma once

#include "base/python.h"
#include "base/parts.h"
#include "base/ref.h"
#include "base/stack_room.h"
#include "graph/stand_in.h"
#include "shapes/tensor_meta.h"
#include "sources/source.h"

#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace stator::graph {

enum class Op : uint8_t {
  kInput,
  kCallFunction,
  kCallMethod,
  // Specialised modules (config.specialize_modules):
  kAttribute,   // a parameter or buffer that belongs to the graph: `example` is the tensor
  kCallModule,  // `target` is the module
};

// Where a node came from: the user's frames, innermost first. Interned by the tracer, shared by the nodes of one line.
struct Location {
  const Location* caller = nullptr;
  Ref<PyCodeObject> code;
  int offset = 0;
};

// The modules whose forward was running, innermost first (FX's nn_module_stack).
struct ModuleScope {
  const ModuleScope* outer = nullptr;
  std::string path;  // L['self'].layers.0.linear
  Ref<> type;        // the class
  int call = 0;      // n-th call of the same module: `@n`
};

class Graph;

struct Node;
// An input that is a float of the program's as a tensor (SourceKind::kFloatTensor).
bool isFloatTensor(const Node& node);
// The float that it was at capture; null with an error set.
Ref<> floatAtCapture(const Node& node);

struct Node {
  Op op;
  const Graph* home = nullptr;  // the graph that it is a node of
  int index = 0;                // position in the graph
  Ref<> target;                 // callable, or the method's name (str)
  Ref<> args;            // tuple; nested containers hold stand-ins (graph/stand_in.h) and constants
  Ref<> kwargs;          // dict or null
  bool mutates = false;  // in-place, random, or otherwise not to be dropped when unused
  // mutates, but writes to nothing that was there before the graph (if no input is `written`) and draws no random
  // number: running it twice is as good as once
  bool repeatable = false;
  bool random = false;  // draws random numbers
  bool check = false;   // fails if the program would raise (interpret/tensors/checks.cpp)
  // by the program: eager runs it even if nobody looks at the result, and may raise there
  bool called = false;
  bool sets_mode = false;  // mutates, but only a mode of the thread: grad mode, autocast ...
  // of a node that enters a context: what leaves it, called with the node's value
  Ref<> leave;
  // Facts of the value. A node with several outputs has no meta of its own; its getitem nodes do, and `outputs` holds
  // them.
  const shapes::TensorMeta* meta = nullptr;
  // for several outputs: the Python structure of stand-ins that the tracer handed out (tuple, list, named tuple)
  Ref<> structure;
  // What the trace knows the value by where facts do not say all: of a tensor whose class has its own
  // __torch_dispatch__ a fake instance; of a plain tensor that such a one is made of the very FakeTensor in it; of a
  // nested tensor's ragged size the SymInt.
  Ref<> wrapper;
  Ref<> scalar_type;   // for symbolic scalars: int, float or bool; null for tensors
  symbolic::Dim size;  // of a symbolic int
  // kInput: where it comes from, and the value seen at capture (held until the backend has run, then dropped).
  const sources::Source* source = nullptr;
  Ref<> example;
  bool specialised = false;  // kInput: to become an attribute, unless the graph writes to it
  // kInput: some module has it as parameter, buffer or attribute: its memory stays in place
  bool of_module = false;
  bool written = false;  // kInput: a call writes to it, or to memory that it shares
  // of a call: the local variable that the value was first stored in; of an input without source: its name
  std::string name_hint;
  const Location* location = nullptr;
  const ModuleScope* scope = nullptr;
  // position among all nodes of the trace, those that were dropped included
  uint32_t serial = 0;
  uint64_t instruction = 0;  // count of the program's instruction that made it
  int uses = 0;              // arguments and outputs that are this node; counted by dropDead
  int output = -1;           // position among the outputs, see Graph::outputIndex
};

// The nodes in program order, as a range of `Node&`. (They are stored apart, so that pointers to them stay good when
// some are dropped.)
template <class N>
class NodeRange {
 public:
  class Iterator {
   public:
    explicit Iterator(Node* const* at) : at_(at) {}
    N& operator*() const { return **at_; }
    N* operator->() const { return *at_; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return at_ != other.at_; }

   private:
    Node* const* at_;
  };
  explicit NodeRange(const std::vector<Node*>& nodes) : nodes_(&nodes) {}
  Iterator begin() const { return Iterator(nodes_->data()); }
  Iterator end() const { return Iterator(nodes_->data() + nodes_->size()); }
  size_t size() const { return nodes_->size(); }
  bool empty() const { return nodes_->empty(); }
  N& operator[](size_t index) const { return *(*nodes_)[index]; }
  N& back() const { return *nodes_->back(); }

 private:
  const std::vector<Node*>* nodes_;
};

// What a graph's sizes are made of, when they are not all numbers. Symbol n is called s<n>.
struct Symbols {
  std::vector<int64_t> hints;     // by symbol
  std::vector<int64_t> unbacked;  // numbers of those on whose values nothing may rely
  // that the capture relies on, as Python expressions
  std::vector<std::string> conditions;
};

class Graph {
 public:
  Node* addInput(const sources::Source* source, Ref<> example, const shapes::TensorMeta* meta);
  Node* addCall(Op op, Ref<> target, Ref<> args, Ref<> kwargs);
  // The getitem node that takes one output of `of`.
  Node* addItem(Node* of, Py_ssize_t index);
  NodeRange<const Node> nodes() const { return NodeRange<const Node>(nodes_); }
  NodeRange<Node> nodes() { return NodeRange<Node>(nodes_); }
  // Undo: forgets the nodes behind the first `length`, as inputs and outputs too. Only before dropDead.
  void truncate(size_t length);
  const std::vector<Node*>& inputs() const { return inputs_; }
  std::vector<Node*>& outputs() { return outputs_; }
  const std::vector<Node*>& outputs() const { return outputs_; }
  size_t callCount() const;    // nodes that are not inputs
  void addOutput(Node* node);  // once for each node; the order is that of the first request
  int outputIndex(Node* node) const;
  // Drops what no output needs, nothing mutates and the program did not call, and inputs that nothing uses; renumbers.
  void dropDead();
  // A graph that only switches states of the process: nothing is left to do in it, the plan sets the last state.
  void dropSwitches();
  // Inputs marked `specialised` become attributes. After dropDead.
  void specialiseInputs();
  // Forgets the values seen at capture, so that the graph keeps no tensor alive.
  void dropExamples();
  // Readable text form for tests and logs: `%2 = add(%0, 1) : f32[2, 3]`.
  std::string text(PyCodeObject* code) const;
  // The calls and how they hang together, without numbers, strings, shapes and devices: equal for ranks that run one
  // program.
  std::string structure() const;

  uint64_t instruction = 0;  // under way in the trace: what new nodes are marked with

  bool transformed = false;  // of a function that one of torch.func's transforms calls
  // Of a function that another graph calls: its name, and what it gives: a structure of stand-ins and constants in
  // place of the plain list of outputs.
  std::string name;
  Ref<> result;
  std::unique_ptr<Symbols> symbols;  // null: there are none

  // What nodes point at plainly; those of a function that another graph calls, at that graph's too. The graph itself is
  // not kept by the function: its nodes keep the function.
  struct Places {
    std::deque<Location> locations;
    std::deque<ModuleScope> scopes;
    std::deque<shapes::TensorMeta> metas;
  };
  std::shared_ptr<Places> places = std::make_shared<Places>();
  std::vector<std::shared_ptr<const Places>> outer_places;
  std::deque<Location>& locations = places->locations;
  std::deque<ModuleScope>& scopes = places->scopes;
  std::deque<shapes::TensorMeta>& metas = places->metas;

 private:
  std::deque<Node> storage_;
  std::vector<Node*> nodes_;
  std::vector<Node*> inputs_;
  std::vector<Node*> outputs_;
};

// Calls `visit(PyObject*)` for each leaf of an argument: what is in it at any depth of tuples, lists, dicts and slices.
template <class Visit>
void forEachLeaf(PyObject* argument, Visit&& visit) {
  if (argument == nullptr) return;
  constexpr unsigned long kContainers =
      Py_TPFLAGS_TUPLE_SUBCLASS | Py_TPFLAGS_LIST_SUBCLASS | Py_TPFLAGS_DICT_SUBCLASS;
  if (!PyType_HasFeature(Py_TYPE(argument), kContainers) && !PySlice_Check(argument)) {
    visit(argument);
    return;
  }
  needStack();
  everyPart(argument, [&](PyObject* part) {
    forEachLeaf(part, visit);
    return true;
  });
}

// Calls `visit(StandIn*)` for each stand-in in an argument.
template <class Visit>
void forEachStandIn(PyObject* argument, Visit&& visit) {
  forEachLeaf(argument, [&](PyObject* leaf) {
    if (isStandIn(leaf)) visit(asStandIn(leaf));
  });
}
// The same of all that a call is given.
template <class Visit>
void forEachUsed(const Node& node, Visit&& visit) {
  forEachStandIn(node.args.get(), visit);
  forEachStandIn(node.kwargs.get(), visit);
}

}  // namespace stator::graph
