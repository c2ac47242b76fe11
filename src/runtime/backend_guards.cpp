#include "runtime/backend_guards.h"

#include "base/check.h"
#include "symbolic/expr.h"

#include <charconv>
#include <optional>

namespace stator::runtime {
namespace {

// "input 3" or "input 3 >= 0.0": what stator/_symbols.py says of a float.
struct FloatCondition {
  size_t position = 0;
  std::optional<int> operation;  // Py_LT and its like
  double constant = 0;
};

FloatCondition parseFloatCondition(const std::string& text) {
  static const std::pair<std::string_view, int> operations[] = {{" < ", Py_LT},  {" <= ", Py_LE},
                                                                {" == ", Py_EQ}, {" != ", Py_NE},
                                                                {" > ", Py_GT},  {" >= ", Py_GE}};
  FloatCondition said;
  const char* end = text.data() + text.size();
  const char* at = std::from_chars(text.data() + 6, end, said.position).ptr;
  for (const auto& [name, number] : operations) {
    if (!std::string_view(at, end).starts_with(name)) continue;
    said.operation = number;
    at = std::from_chars(at + name.size(), end, said.constant).ptr;
  }
  STATOR_CHECK(at == end, "a condition of the backend: " + text);
  return said;
}

// False: the float has no value before the call.
bool addFloatCondition(const std::string& text, const Entry& entry,
                       const std::vector<Ref<>>& examples, guards::GuardSet& guards) {
  const FloatCondition said = parseFloatCondition(text);
  const sources::Source* source = entry.inputs[said.position];
  Ref<> value = examples[said.position];
  if (source->kind == sources::SourceKind::kFloatTensor) {
    source = source->base;
    value = stealRef(PyObject_CallMethod(value.get(), "item", nullptr));
  }
  if (source->kind == sources::SourceKind::kDrawn) return false;
  if (said.operation) {
    guards.relations.floats.push_back(
        guards::relationOf(source, *said.operation, said.constant, true));
  } else {
    guards.add(guards::Guard{guards::GuardKind::kEquals, source, nullptr, std::move(value)});
  }
  return true;
}

}  // namespace

bool addConditions(const std::vector<std::string>& conditions, const Entry& entry,
                   const std::vector<Ref<>>& examples, guards::GuardSet& guards) {
  for (const std::string& text : conditions) {
    if (text.rfind("input ", 0) == 0) {
      if (!addFloatCondition(text, entry, examples, guards)) return false;
      continue;
    }
    const symbolic::Expr* condition = symbolic::parse(text);
    STATOR_CHECK(condition != nullptr && condition->isTruth(),
                 "a condition of the backend: " + text);
    if (condition->kind != symbolic::Kind::kBool) guards.relations.conditions.push_back(condition);
  }
  return true;
}

void addBackendGuards(const std::vector<graph::BackendGuard>& asked, const Entry& entry,
                      guards::GuardSet& guards, std::vector<bool>& written) {
  for (const graph::BackendGuard& guard : asked) {
    if (guard.kind == graph::BackendGuard::Kind::kSameInput) {
      guards.add(guards::Guard{guards::GuardKind::kSameAs,
                               entry.inputs[static_cast<size_t>(guard.inputs[0])],
                               entry.inputs[static_cast<size_t>(guard.inputs[1])]});
    } else {
      for (int index : guard.inputs) written[static_cast<size_t>(index)] = true;
      for (int index : guard.others) written[static_cast<size_t>(index)] = true;
    }
  }
}

}  // namespace stator::runtime
