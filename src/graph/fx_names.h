// Names in the FX graph: of values (unique, as torch.fx would give them) and of placeholders (from where the input is
// read, as TorchDynamo writes it: L['self']._modules['linear']._parameters['weight'] becomes
// l_self_modules_linear_parameters_weight_).
#pragma once

#include "base/python.h"
#include "base/ref.h"
#include "sources/source.h"

#include <string>
#include <unordered_map>
#include <unordered_set>

namespace stator::graph {

// The input's place as an expression over L (locals) and G (globals), with every step spelled out.
std::string sourceExpression(const sources::Source& source, PyCodeObject* code);
// The same for many sources of one capture: what they have in common is spelled once.
class SourceExpressions {
 public:
  explicit SourceExpressions(PyCodeObject* code) : code_(code) {}
  const std::string& of(const sources::Source& source);

 private:
  PyCodeObject* code_;
  std::unordered_map<const sources::Source*, std::string> known_;
};
// Whether the text of a call can say `name=value`.
bool isKeywordName(PyObject* name);

// Runs of anything but letters and digits become one underscore.
std::string placeholderTarget(const std::string& expression);
// camelCase to snake_case, as torch.fx derives names from targets.
std::string snakeCase(const std::string& text);

// Hands out names under torch.fx's rules: `add`, `add_1`; never a keyword, a builtin or one of FX's own globals.
class Names {
 public:
  using Reserved = std::unordered_set<std::string>;
  static Reserved keysOf(PyObject* dict);  // torch.fx's _illegal_names
  // `reserved`: names that a value may not have; outlives this.
  explicit Names(const Reserved& reserved) : reserved_(reserved) {}
  std::string unique(const std::string& candidate);
  // Takes a name as it is.
  void take(const std::string& name) {
    used_.insert(name);
    counts_[name] = 0;
  }
  // What torch.fx's namespace keeps: the names in use, and the last number for each base name.
  const std::unordered_set<std::string>& used() const { return used_; }
  const std::unordered_map<std::string, int64_t>& counts() const { return counts_; }

 private:
  const Reserved& reserved_;
  std::unordered_set<std::string> used_;
  std::unordered_map<std::string, int64_t> counts_;
};

}  // namespace stator::graph
