// Which rules a callable has: the families' tables resolved against torch's modules, by the identity of the callable.
#pragma once

#include "shapes/call.h"

#include <string>
#include <vector>

namespace stator::shapes {

struct ResolvedRule {
  const OpRow* row;
  const Signature* signature;
  Mode mode;
  bool keywords_allowed;  // not by the functions of `operator`
};

bool initRegistry();  // false with a Python error set
const std::vector<ResolvedRule>* rulesOf(PyObject* target);
// For a str: the attribute of torch.Tensor with that name (borrowed, kept); otherwise the target itself. Null: there is
// none.
PyObject* resolveTarget(PyObject* target);
// Names in the tables that this torch does not have. Empty unless torch and the tables have drifted apart.
const std::vector<std::string>& unresolvedNames();
PyObject* returnType(const char* name);  // torch.return_types.<name>, borrowed

}  // namespace stator::shapes
