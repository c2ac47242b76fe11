// A graph under examination: the plain C++ graph, and beside it what is known of each value. Made from an FX graph (a
// captured one, or one that AOTAutograd made), so that both stages are reduced by the same code. Values are known by
// name; names survive every edit.
#pragma once

#include "base/python.h"
#include "base/ref.h"
#include "graph/graph.h"

#include <memory>
#include <string>
#include <vector>

namespace stator::debug {

enum class Kind : char { kTensor = 't', kSeveral = 'm', kScalar = 's', kOther = 'o' };

struct ValueFacts {
  Kind kind = Kind::kTensor;
  std::string text;  // f32[2, 3]
  std::string line;  // the user's line that made it
};

struct Specimen {
  std::shared_ptr<graph::Graph> graph = std::make_shared<graph::Graph>();
  std::vector<ValueFacts> facts;  // by node index

  // The nodes that are not inputs, in order.
  std::vector<int> calls() const;
  const std::string& name(int index) const {
    return graph->nodes()[static_cast<size_t>(index)].name_hint;
  }
  int find(const std::string& name) const;  // -1: there is none
  // Which inputs and calls a call reads, each once, in order.
  std::vector<int> reads(int index) const;
};

// `describe(fx_node)` gives (kind, facts, line, mutates). `function_at(fx_node)` gives the function that an attribute
// is, or None for a tensor: functions are constants among arguments, tensors are inputs. Raises (PythonError) for nodes
// that a specimen cannot hold. A function that another graph calls (`is_body`) keeps the structure of what it returns.
Specimen fromFx(PyObject* fx_graph, PyObject* describe, PyObject* function_at, bool is_body);

// Equal for equal programs, whatever their values are called.
uint64_t hashOf(const Specimen& specimen);

// A copy of an argument with `swap(Node*) -> Ref<>` in the places of stand-ins and `constant(PyObject*) -> Ref<>` in
// those of constants.
template <class Swap, class Constant>
Ref<> rewritten(PyObject* value, Swap& swap, Constant& constant);

}  // namespace stator::debug

#include "debug/rewrite.h"
