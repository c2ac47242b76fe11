// Which rules a callable has: the families' tables resolved against torch's modules, by the identity of the callable.
#pragma once

#include "shapes/call.h"
#include "shapes/declared.h"

#include <optional>
#include <string>
#include <vector>

namespace stator::shapes {

struct ResolvedRule {
  const OpRow* row;
  const Signature* signature;
  Mode mode;
  bool keywords_allowed;  // not by the functions of `operator`
};

// What a callable has.
struct Rules {
  std::vector<ResolvedRule> rows;
  bool is_method = false;  // of torch.Tensor: the first argument is one
  // of torch's own, made when it is first asked
  std::optional<Declaration> declaration;
};

bool initRegistry();  // false with a Python error set
Rules* rulesOf(PyObject* target);
// Whether eager takes a call with these arguments, as far as the declaration says.
bool takesCall(PyObject* target, Rules& rules, const Workspace& workspace);
// For a str: the attribute of torch.Tensor with that name (borrowed, kept); otherwise the target itself. Null: there is
// none.
PyObject* resolveTarget(PyObject* target);
// Names in the tables that this torch does not have. Empty unless torch and the tables have drifted apart.
const std::vector<std::string>& unresolvedNames();
PyObject* returnType(const char* name);  // torch.return_types.<name>, borrowed

}  // namespace stator::shapes
