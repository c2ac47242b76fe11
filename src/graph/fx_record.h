// What the lazy parts of one FX graph share: the captured graph and the values made so far. Lives as long as a node's
// meta does. Python sees it as an object with `fake_mode` and `sources`; stator/_node_meta.py makes the fakes.
#pragma once

#include "base/python.h"
#include "base/ref.h"
#include "graph/graph.h"

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace stator::graph {

// Entries of node.meta that are made when they are read.
enum class MetaKey : uint8_t {
  kExampleValue,
  kStackTrace,
  kModuleStack,
  kSourceFn,
  kGraphArg,
  kTensorDict
};
constexpr int kMetaKeys = 6;
PyObject* metaKeyName(MetaKey key);  // interned, borrowed

struct FxRecord {
  std::shared_ptr<Graph> graph;
  std::vector<Ref<>> names;              // FX name of each node, by index
  std::vector<std::string> expressions;  // of each input: where it is read
  // of each input: its memory stays where it is (parameters and buffers of modules)
  std::vector<bool> is_static;
  std::vector<Ref<>> types;  // of each input: the class of what was passed; null for numbers
  Ref<> fake_mode;           // null until the first fake or until compile
  // list of the inputs' source objects, made by stator/_fx.py
  Ref<> sources;
  // of a function that graphs call: [(name, target), ...] of the calls around it, outermost first; null: none
  Ref<> outer_calls;
  std::vector<Ref<>> fakes;  // by index
  std::unordered_map<const Location*, Ref<>> traces;
  std::map<std::pair<const PyCodeObject*, int>, Ref<>> lines;  // text of a frame, by code and line
  std::unordered_map<const ModuleScope*, Ref<>> stacks;
};

bool initRecordType();
// With all that is needed of the inputs' sources, which may be gone when the FX graph is made. `code` names the locals.
Ref<> makeRecord(std::shared_ptr<Graph> graph, PyCodeObject* code);
FxRecord* recordOf(PyObject* object);  // borrowed; the object has to be a record
// Of a function that graphs call, the body of a higher-order operator: its graph. Null: `value` is none.
std::shared_ptr<Graph> bodyOf(PyObject* value);

// Which keys node `index` has; one bit each.
uint8_t metaKeysOf(const Node& node);
// The value of one; null with a Python error set.
Ref<> makeMeta(PyObject* record, int index, MetaKey key);

}  // namespace stator::graph
