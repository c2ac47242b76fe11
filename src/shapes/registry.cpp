#include "shapes/registry.h"

#include "base/check.h"
#include "base/fields.h"
#include "base/imports.h"

#include <deque>
#include <unordered_map>

namespace stator::shapes {

namespace {

struct Registry {
  // owns one reference to each key, for good
  std::unordered_map<PyObject*, Rules> rules;
  std::deque<Signature> signatures;
  std::unordered_map<std::string, PyObject*> owners;
  std::unordered_map<std::string, PyObject*> return_types;
  std::vector<std::string> unresolved;
  PyObject* tensor_type = nullptr;
  PyObject* methods = nullptr;  // dict: name -> attribute of torch.Tensor
};

// Never destroyed: its references outlive the interpreter's own shutdown order.
Registry& registry() {
  static auto* instance = new Registry();
  return *instance;
}

bool addOwner(const char* name, const char* module, const char* attribute = nullptr) {
  Ref<> owner = stealRef(importModule(module));
  if (owner && attribute != nullptr)
    owner = stealRef(PyObject_GetAttrString(owner.get(), attribute));
  if (!owner) return false;
  registry().owners[name] = owner.release();
  return true;
}

bool addOwners() {
  return addOwner("torch", "torch") && addOwner("Tensor", "torch", "Tensor") &&
         addOwner("F", "torch.nn.functional") && addOwner("nn", "torch._C", "_nn") &&
         addOwner("operator", "operator") && addOwner("special", "torch.special") &&
         addOwner("linalg", "torch.linalg") && addOwner("fft", "torch.fft") &&
         addOwner("return_types", "torch.return_types");
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  size_t start = 0;
  while (start <= text.size()) {
    const size_t end = std::min(text.find(separator, start), text.size());
    if (end > start) parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

void addTarget(const std::string& owner, const std::string& name, ResolvedRule rule) {
  Registry& all = registry();
  const auto found = all.owners.find(owner);
  STATOR_CHECK(found != all.owners.end(), owner);
  Ref<> target = stealRef(PyObject_GetAttrString(found->second, name.c_str()));
  if (!target) {
    PyErr_Clear();
    all.unresolved.push_back(owner + "." + name);
    return;
  }
  auto [position, is_new] = all.rules.try_emplace(target.get());
  if (is_new) keepForever(target.get());
  Rules& rules = position->second;
  rules.is_method |= owner == "Tensor";
  if (owner == "operator") rules.declaration.emplace();  // Python's own, of any operands
  for (const ResolvedRule& known : rules.rows) {
    if (known.row == rule.row && known.mode == rule.mode) return;  // one object under two names
  }
  rules.rows.push_back(rule);
}

void addRow(const OpRow& row) {
  Registry& all = registry();
  all.signatures.push_back(parseSignature(row.signature));
  for (std::string_view token : split(row.targets, ' ')) {
    Mode mode = Mode::kPlain;
    if (token.front() == '~') mode = Mode::kSwapped;
    if (token.front() == '!') mode = Mode::kInplace;
    if (mode != Mode::kPlain) token.remove_prefix(1);
    const size_t dot = token.find('.');
    STATOR_CHECK(dot != std::string_view::npos, std::string(token));
    for (std::string_view owner : split(token.substr(0, dot), '|')) {
      for (std::string_view name : split(token.substr(dot + 1), '|')) {
        addTarget(std::string(owner), std::string(name),
                  {&row, &all.signatures.back(), mode, owner != "operator"});
      }
    }
  }
}

}  // namespace

bool initRegistry() {
  Registry& all = registry();
  if (all.methods != nullptr) return true;
  if (!addOwners()) return false;
  all.tensor_type = all.owners["Tensor"];
  for (std::span<const OpRow> rows :
       {elementwiseRows(), viewRows(), pieceRows(), castRows(), reductionRows(), matmulRows(),
        einsumRows(), normRows(), functionalRows(), lossRows(), poolingRows(), indexingRows(),
        linearAlgebraRows(), factoryRows(), queryRows(), recurrentRows()}) {
    for (const OpRow& row : rows) addRow(row);
  }
  all.methods = PyDict_New();
  return all.methods != nullptr;
}

Rules* rulesOf(PyObject* target) {
  const auto found = registry().rules.find(target);
  return found == registry().rules.end() ? nullptr : &found->second;
}

bool takesCall(PyObject* target, Rules& rules, const Workspace& workspace) {
  if (rules.is_method && (workspace.positional().empty() || !workspace.positional()[0].isTensor()))
    return false;
  if (!rules.declaration) rules.declaration = declarationOf(target);
  return accepts(*rules.declaration, workspace);
}

PyObject* resolveTarget(PyObject* target) {
  if (!PyUnicode_CheckExact(target)) return target;
  Registry& all = registry();
  if (PyObject* known = PyDict_GetItemWithError(all.methods, target)) return known;
  Ref<> attribute = stealRef(PyObject_GetAttr(all.tensor_type, target));
  if (!attribute || PyDict_SetItem(all.methods, target, attribute.get()) != 0) {
    PyErr_Clear();
    return nullptr;
  }
  return PyDict_GetItemWithError(all.methods, target);
}

const std::vector<std::string>& unresolvedNames() { return registry().unresolved; }

PyObject* returnType(const char* name) {
  Registry& all = registry();
  PyObject*& slot = all.return_types[name];
  if (slot == nullptr) {
    slot = PyObject_GetAttrString(all.owners["return_types"], name);
    if (slot == nullptr) throw PythonError();
  }
  return slot;
}

void Call::named(const char* type_name) {
  out.structure = Structure::kNamed;
  out.type = newRef(returnType(type_name));
}

}  // namespace stator::shapes
