// From the set of guards to the flat program: builds the tree of what has to be read, orders it (cheap and likely to
// fail first), and lays it out so that each object is entered once.
#include "base/check.h"
#include "base/stack_room.h"
#include "guards/facts.h"
#include "guards/program.h"
#include "guards/replay.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

namespace stator::guards {

namespace {

using sources::Source;
using sources::SourceKind;

// ops; arguments such as tensors and numbers, checked before anything else
constexpr int kSmallRoot = 8;
constexpr int kTreeOps = 24;  // ops; a subtree from which on remembering its memory pays

struct Node {
  const Source* source = nullptr;  // null for the dicts of modules, which no source names
  Node* parent = nullptr;
  SourceKind kind;
  PyObject* key = nullptr;
  Py_hash_t hash = -1;
  int64_t index = 0;
  std::vector<Node*> children;
  std::vector<uint32_t> tests;  // guards, in order
  uint32_t reg = kNoRegister;
  bool loaded = false;
  // its value is needed in a register: compared with another, or wanted
  bool compared = false;
  int weight = 0;
  PyTypeObject* exact_type = nullptr;  // a guard tests it
  PyTypeObject* seen_type = nullptr;   // type at capture, from any guard that knows it
};

// The same from call to call, whatever the arguments are.
bool isProcessRoot(SourceKind kind) {
  return kind == SourceKind::kGlobals || kind == SourceKind::kBuiltins ||
         kind == SourceKind::kPinned;
}

class Compiler {
 public:
  Compiler(GuardProgram::Impl& program, size_t sources) : program_(program), by_source_(sources) {}

  void compile() {
    for (uint32_t i = 0; i < program_.guards.size(); ++i) place(i);
    // What is handed out lies together.
    for (const Source* source : program_.wanted) {
      node(*source)->compared = true;
      registerOf(*node(*source));
    }
    for (Node* root : roots_) weigh(*root);
    std::stable_sort(roots_.begin(), roots_.end(), [](const Node* left, const Node* right) {
      return left->weight < right->weight;
    });
    auto process_root = std::stable_partition(
        roots_.begin(), roots_.end(), [](const Node* root) { return !isProcessRoot(root->kind); });
    auto next = roots_.begin();
    for (; next != process_root && (*next)->weight <= kSmallRoot; ++next) emitRoot(**next);
    for (uint32_t guard : process_) emitProcess(guard);
    emitProcessTree(process_root);
    for (; next != process_root; ++next) emitRoot(**next);
    for (uint32_t guard : comparisons_) emitComparison(guard);
    for (const Source* source : program_.wanted) {
      const Node* wanted = node(*source);
      STATOR_CHECK(wanted->loaded, "wanted, and guarded to be absent");
      if (Tree* tree = treeOf(*wanted)) tree->exported().push_back(wanted->reg);
      std::vector<uint32_t>& registers = program_.wanted_registers;
      if (!registers.empty() && registers.size() < program_.asked &&
          wanted->reg != registers.back() + 1)
        program_.wanted_in_a_row = false;
      registers.push_back(wanted->reg);
    }
    program_.ops.shrink_to_fit();
  }

 private:
  const Guard& guard(uint32_t index) const { return program_.guards[index]; }

  // --- the tree
  // -------------------------------------------------------------------------------------------------------------------

  void place(uint32_t index) {
    const Guard& fact = guard(index);
    switch (rowOf(fact.kind).about) {
      case About::kProcess:
        process_.push_back(index);
        return;
      case About::kClass:
        type_versions_.push_back(index);
        return;
      case About::kTwoValues:
        node(*fact.source)->compared = true;
        node(*fact.other)->compared = true;
        comparisons_.push_back(index);
        return;
      case About::kReading:
      case About::kValue:
        break;
    }
    Node* at = node(*fact.source);
    at->tests.push_back(index);
    if (fact.kind == GuardKind::kType)
      at->exact_type = at->seen_type = reinterpret_cast<PyTypeObject*>(fact.expected.get());
    if (fact.kind == GuardKind::kIs || fact.kind == GuardKind::kIsWeak) {
      if (at->seen_type == nullptr) at->seen_type = Py_TYPE(fact.expected.get());
    }
  }

  Node* node(const Source& source) {
    needStack();
    if (Node* known = by_source_[source.id]) return known;
    Node* result = nullptr;
    switch (source.kind) {
      case SourceKind::kParameter:
        result = moduleEntry(source, "_parameters");
        break;
      case SourceKind::kBuffer:
        result = moduleEntry(source, "_buffers");
        break;
      case SourceKind::kSubmodule:
        result = moduleEntry(source, "_modules");
        break;
      default:
        result = child(source.base != nullptr ? node(*source.base) : nullptr, source.kind,
                       source.key.get(), source.hash, source.index);
    }
    if (result->source == nullptr) result->source = &source;
    by_source_[source.id] = result;
    return result;
  }

  Node* moduleEntry(const Source& source, const char* dict) {
    PyObject*& name = dict_names_[dict[1]];  // the letter behind the underscore tells them apart
    if (name == nullptr) {
      program_.names.push_back(stealRef(PyUnicode_InternFromString(dict)));
      name = program_.names.back().get();
    }
    Node* entries = child(node(*source.base), SourceKind::kAttr, name, PyObject_Hash(name), 0);
    return child(entries, SourceKind::kDictItem, source.key.get(), source.hash, 0);
  }

  Node* child(Node* parent, SourceKind kind, PyObject* key, Py_hash_t hash, int64_t index) {
    if (kind == SourceKind::kTensorAttr) kind = SourceKind::kAttr;
    // Two sources may lead to one place only through the dicts of modules, which have two spellings.
    const bool two_ways = kind == SourceKind::kAttr || kind == SourceKind::kDictItem;
    Node** known = two_ways ? &by_place_[Place{parent, kind, key}] : nullptr;
    if (known != nullptr && *known != nullptr) return *known;
    nodes_.push_back(Node{nullptr, parent, kind, key, hash, index});
    Node* made = &nodes_.back();
    if (known != nullptr) *known = made;
    (parent != nullptr ? parent->children : roots_).push_back(made);
    return made;
  }

  int weigh(Node& node) {
    needStack();
    node.weight = 1 + static_cast<int>(node.tests.size());
    for (Node* below : node.children) node.weight += weigh(*below);
    return node.weight;
  }

  // --- emission
  // -------------------------------------------------------------------------------------------------------------------

  Op& emit(Code code, const Node* node, uint32_t guard_index = kNoGuard) {
    program_.ops.push_back(Op{code});
    program_.origins.push_back({node != nullptr ? sourceNear(*node) : nullptr, guard_index});
    return program_.ops.back();
  }

  // For explanations of the dicts of modules, which have no source: the first entry read from them.
  static const Source* sourceNear(const Node& node) {
    const Node* at = &node;
    while (at->source == nullptr && !at->children.empty()) at = at->children.front();
    return at->source;
  }

  static bool isAbsent(const GuardProgram::Impl& program, const Node& node) {
    return std::any_of(node.tests.begin(), node.tests.end(), [&](uint32_t test) {
      return program.guards[test].kind == GuardKind::kAbsent;
    });
  }

  uint32_t registerOf(Node& node) {
    if (node.reg == kNoRegister) node.reg = program_.registers++;
    return node.reg;
  }
  uint32_t load(Node& node) {
    node.loaded = true;
    return registerOf(node);
  }

  // Globals, builtins, classes and their functions, and the versions of types, remembered as one.
  void emitProcessTree(std::vector<Node*>::iterator first) {
    int weight = static_cast<int>(type_versions_.size());
    for (auto root = first; root != roots_.end(); ++root) weight += (*root)->weight;
    if (weight >= kSmallRoot) {
      emit(Code::kTree, nullptr).hint = static_cast<uint32_t>(program_.trees.size());
      program_.trees.push_back(std::make_unique<Tree>(kNoRegister, program_.ops.size()));
      process_tree_ = program_.trees.back().get();
      in_tree_ = true;
    }
    for (uint32_t guard : type_versions_) emitProcess(guard);
    for (auto root = first; root != roots_.end(); ++root) emitRoot(**root);
    if (process_tree_ != nullptr) {
      process_tree_->end = program_.ops.size();
      in_tree_ = false;
    }
  }

  void emitProcess(uint32_t index) {
    const Guard& fact = guard(index);
    switch (fact.kind) {
      case GuardKind::kGlobalState:
        emit(Code::kGlobalState, nullptr, index).a = fact.state.get();
        break;
      case GuardKind::kAbcToken:
        emit(Code::kAbcToken, nullptr, index).a = fact.expected.get();
        break;
      default: {
        STATOR_CHECK(PyType_Check(fact.expected.get()), "a type's version needs a type");
        TypeVersion version;
        version.type =
            Ref<PyTypeObject>::create(reinterpret_cast<PyTypeObject*>(fact.expected.get()));
        version.names = fact.names;
        version.strict = fact.names.empty();
        if (version.strict) {
          // A look-up gives the type a version, if it has none.
          static PyObject* any_name = PyUnicode_InternFromString("__init__");
          stator_type_lookup(version.type.get(), any_name);
          version.version = stator_type_version(version.type.get());
        } else if (!version.lookUpAgain()) {
          version.version = 0;  // changed since the capture read it: the check will say so
        }
        emit(Code::kTypeVersion, nullptr, index).hint =
            static_cast<uint32_t>(program_.versions.size());
        program_.versions.push_back(std::move(version));
      }
    }
  }

  void emitRoot(Node& node) {
    if (isAbsent(program_, node)) {
      emitAbsent(node, Code::kStepAbsent);
      return;
    }
    if (node.kind == SourceKind::kLocal) {
      Op& op = emit(Code::kLocal, &node);
      op.hint = static_cast<uint32_t>(node.index);
      op.dst = load(node);
    } else {
      Op& op = emit(Code::kRoot, &node);
      op.a = node.source;
      op.dst = load(node);
    }
    emitTests(node, node.tests.begin());
    emitBelow(node);
  }

  void emitAbsent(Node& node, Code code) {
    bool emitted = false, wanted = false;
    for (uint32_t test : node.tests) {
      wanted |= guard(test).kind != GuardKind::kAbsent;
      if (guard(test).kind != GuardKind::kAbsent || emitted) continue;
      // two sources that lead to one place (a module's parameter, an entry of its dict) may both be said to be absent
      emitted = true;
      Op& op = emit(code, &node, test);
      if (node.parent != nullptr) op.base = node.parent->reg;
      op.a = code == Code::kKeyAbsent || code == Code::kAttrAbsent
                 ? static_cast<const void*>(node.key)
                 : node.source;
      if (code == Code::kSlotAbsent)
        op.hint = static_cast<uint32_t>(stator_slot_offset(node.parent->exact_type, node.key));
      if (code == Code::kKeyAbsent) addHash(op, node);
    }
    const bool contradicts = !node.children.empty() || node.compared || wanted;
    if (contradicts) program_.contradiction = true;  // others want it to be there: no call can pass
  }

  void addHash(Op& op, const Node& node) {
    op.extra = static_cast<uint32_t>(program_.hashes.size());
    program_.hashes.push_back(node.hash);
  }

  template <class Iterator>
  void emitTests(Node& node, Iterator first) {
    for (; first != node.tests.end(); ++first) emitTest(node, *first);
  }

  void emitTest(Node& node, uint32_t index) {
    const Guard& fact = guard(index);
    auto test = [&](Code code) -> Op& {
      Op& op = emit(code, &node, index);
      op.base = load(node);
      op.b = fact.expected.get();
      op.a = reinterpret_cast<const void*>(static_cast<intptr_t>(fact.number));
      return op;
    };
    switch (fact.kind) {
      case GuardKind::kIsWeak: {
        Ref<> reference = stealRef(PyWeakref_NewRef(fact.expected.get(), nullptr));
        if (!reference) {
          PyErr_Clear();  // nothing can refer to it weakly: held after all
          test(Code::kIs);
          break;
        }
        test(Code::kIsWeak).b = reference.get();
        program_.weakrefs.push_back(std::move(reference));
        break;
      }
      case GuardKind::kEquals:
        test(comparesByValue(fact.expected.get()) ? Code::kEquals : Code::kIs);
        break;
      case GuardKind::kTensor:
        test(Code::kTensor).b = program_.facts.add(*fact.tensor);
        break;
      default:  // reading it was the test, or its op is
        if (rowOf(fact.kind).about == About::kValue) test(testOf(fact.kind));
    }
  }

  void emitComparison(uint32_t index) {
    const Guard& fact = guard(index);
    Node* left = node(*fact.source);
    Node* right = node(*fact.other);
    // guarded to be absent: a contradiction
    if (!left->loaded || !right->loaded) return;
    Op& op = emit(fact.kind == GuardKind::kSameAs ? Code::kSame : Code::kNotSame, left, index);
    op.base = left->reg;
    op.dst = right->reg;
    for (Node* compared : {left, right}) {
      if (Tree* tree = treeOf(*compared)) tree->exported().push_back(compared->reg);
    }
  }

  Tree* treeOf(const Node& node) {
    for (const Node* at = node.parent; at != nullptr; at = at->parent) {
      auto found = trees_.find(at);
      if (found != trees_.end()) return found->second;
    }
    const Node* root = &node;
    while (root->parent != nullptr) root = root->parent;
    return isProcessRoot(root->kind) ? process_tree_ : nullptr;
  }

  // How a child is read from its parent.
  enum class Access { kObjectKey, kDictKey, kTypeKey, kSlot, kStep };

  static Access accessOf(const Node& node) {
    const Node& parent = *node.parent;
    if (node.kind == SourceKind::kDictItem && node.hash != -1) return Access::kDictKey;
    if (node.kind == SourceKind::kClassDict && node.hash != -1) return Access::kTypeKey;
    if (isNamedAttribute(node) && parent.seen_type != nullptr) {
      if (stator_slot_offset(parent.seen_type, node.key) == 0) return Access::kObjectKey;
      return parent.exact_type != nullptr ? Access::kSlot : Access::kStep;
    }
    return Access::kStep;
  }

  void emitBelow(Node& node) {
    needStack();
    if (node.children.empty() || isAbsent(program_, node)) return;
    const bool starts_tree = !in_tree_ && node.weight >= kTreeOps;
    Tree* tree = nullptr;
    if (starts_tree) {
      emit(Code::kTree, &node).hint = static_cast<uint32_t>(program_.trees.size());
      program_.trees.push_back(std::make_unique<Tree>(load(node), program_.ops.size()));
      tree = program_.trees.back().get();
      trees_.emplace(&node, tree);
      in_tree_ = true;
    }
    emitKeys(node, Access::kObjectKey);
    emitKeys(node, Access::kDictKey);
    emitKeys(node, Access::kTypeKey);
    for (Node* below : node.children) {
      const Access access = accessOf(*below);
      if (access == Access::kStep || access == Access::kSlot) emitStep(*below, access);
    }
    std::vector<Node*> order = node.children;
    std::stable_sort(order.begin(), order.end(), [](const Node* left, const Node* right) {
      return left->weight < right->weight;
    });
    for (Node* below : order) emitBelow(*below);
    if (starts_tree) {
      tree->end = program_.ops.size();
      in_tree_ = false;
    }
  }

  void emitStep(Node& node, Access access) {
    if (isAbsent(program_, node)) {
      emitAbsent(node, access == Access::kSlot  ? Code::kSlotAbsent
                       : isNamedAttribute(node) ? Code::kAttrAbsent
                                                : Code::kStepAbsent);
      return;
    }
    Op& op = emit(access == Access::kSlot ? Code::kSlot : stepCode(node), &node);
    op.a = op.code == Code::kAttr ? static_cast<const void*>(node.key) : node.source;
    op.base = node.parent->reg;
    op.hint = access == Access::kSlot
                  ? static_cast<uint32_t>(stator_slot_offset(node.parent->exact_type, node.key))
                  : static_cast<uint32_t>(node.index);
    op.dst = load(node);
    emitTests(node, node.tests.begin());
  }

  static bool isNamedAttribute(const Node& node) {
    return node.kind == SourceKind::kAttr && PyUnicode_CheckExact(node.key);
  }

  static Code stepCode(const Node& node) {
    if (isNamedAttribute(node)) return Code::kAttr;
    const bool small = node.index >= 0 && node.index < INT32_MAX;
    switch (node.kind) {
      case SourceKind::kListItem:
        return small ? Code::kListItem : Code::kStep;
      case SourceKind::kTupleItem:
        return small ? Code::kTupleItem : Code::kStep;
      case SourceKind::kDictKey:
        return small ? Code::kKeyAt : Code::kStep;
      case SourceKind::kCell:
        return Code::kCell;
      case SourceKind::kCode:
        return Code::kFunctionCode;
      case SourceKind::kDefault:
        return small ? Code::kDefault : Code::kStep;
      case SourceKind::kKwDefault:
        return Code::kKwDefault;
      case SourceKind::kClosure:
        return small ? Code::kClosure : Code::kStep;
      case SourceKind::kFuncGlobals:
        return Code::kFuncGlobals;
      case SourceKind::kObjectDict:
        return Code::kInstanceDict;
      default:
        return Code::kStep;
    }
  }

  void emitKeys(Node& node, Access access) {
    bool entered = false;
    for (Node* below : node.children) {
      if (accessOf(*below) != access) continue;
      if (!entered) emitEnter(node, access);
      entered = true;
      emitKey(*below);
    }
  }

  void emitEnter(Node& node, Access access) {
    if (access == Access::kDictKey) {
      Op& op = emit(Code::kEnterDict, &node);
      op.base = node.reg;
      if (node.exact_type != nullptr && PyType_IsSubtype(node.exact_type, &PyDict_Type))
        op.flags |= kKnownDict;
      return;
    }
    if (access == Access::kTypeKey) {
      emit(Code::kEnterType, &node).base = node.reg;
      return;
    }
    // A type cannot lose its managed dict by an assignment to __class__, so the type seen at capture tells as well.
    Op& op = emit(
        stator_has_managed_dict(node.seen_type) ? Code::kEnterManaged : Code::kEnterObject, &node);
    op.base = node.reg;
    if (node.exact_type != nullptr) op.flags |= kTypeTested;
  }

  // Reading a key, and the first test that can be done along with it.
  void emitKey(Node& node) {
    if (isAbsent(program_, node)) {
      emitAbsent(node, Code::kKeyAbsent);
      return;
    }
    std::vector<uint32_t> tests = node.tests;
    Code code = Code::kKeyLoad;
    const void* operand = nullptr;
    uint32_t fused = kNoGuard;
    auto take = [&](GuardKind kind) {
      for (size_t i = 0; i < tests.size(); ++i) {
        if (guard(tests[i]).kind != kind) continue;
        fused = tests[i];
        tests.erase(tests.begin() + static_cast<std::ptrdiff_t>(i));
        return true;
      }
      return false;
    };
    if (take(GuardKind::kTensor)) {
      code = Code::kKeyTensor;
      operand = program_.facts.add(*guard(fused).tensor);
    } else if (take(GuardKind::kIs)) {
      code = Code::kKeyIs;
      operand = guard(fused).expected.get();
    } else if (take(GuardKind::kEquals)) {
      operand = guard(fused).expected.get();
      code = comparesByValue(guard(fused).expected.get()) ? Code::kKeyEquals : Code::kKeyIs;
    } else if (take(GuardKind::kDictEmpty)) {
      const uint32_t empty = fused;
      code = Code::kKeyEmpty;
      if (take(GuardKind::kType)) operand = guard(fused).expected.get();
      fused = empty;
    } else if (take(GuardKind::kType)) {
      code = Code::kKeyType;
      operand = guard(fused).expected.get();
    }
    std::erase_if(tests, [&](uint32_t test) { return guard(test).kind == GuardKind::kPresent; });
    Op& op = emit(code, &node, fused);
    op.a = node.key;
    op.b = operand;
    op.base = node.parent->reg;
    addHash(op, node);
    if (!tests.empty() || !node.children.empty() || node.compared) op.dst = load(node);
    for (uint32_t test : tests) emitTest(node, test);  // leaves the dict entered
  }

  struct Place {
    Node* parent;
    SourceKind kind;
    PyObject* key;
    bool operator==(const Place&) const = default;
  };
  struct PlaceHash {
    size_t operator()(const Place& place) const {
      size_t hash = reinterpret_cast<size_t>(place.parent) * 31 + static_cast<size_t>(place.kind);
      hash = (hash ^ reinterpret_cast<size_t>(place.key)) * 0x9E3779B97F4A7C15ull;
      return hash ^ (hash >> 31);
    }
  };

  GuardProgram::Impl& program_;
  std::deque<Node> nodes_;
  std::vector<Node*> roots_;
  std::vector<uint32_t> process_;
  std::vector<uint32_t> type_versions_;
  Tree* process_tree_ = nullptr;
  std::vector<uint32_t> comparisons_;
  std::vector<Node*> by_source_;  // by the source's id
  std::unordered_map<Place, Node*, PlaceHash> by_place_;
  std::unordered_map<const Node*, Tree*> trees_;
  std::unordered_map<char, PyObject*> dict_names_;
  bool in_tree_ = false;
};

}  // namespace

void compile(GuardProgram::Impl& program, size_t sources) { Compiler(program, sources).compile(); }

}  // namespace stator::guards
