// What torch itself says that a callable takes: the schemas of an operator, the parameters of a Python function. A rule
// reads the arguments that it needs and has defaults for the others; whether eager takes the call at all is asked here,
// so that a rule is never believed about a call that raises.
#pragma once

#include "shapes/arg.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stator::shapes {

constexpr uint32_t bitOf(Arg::Kind kind) { return uint32_t{1} << static_cast<uint32_t>(kind); }
constexpr uint32_t kAnyKind = ~uint32_t{0};

struct Parameter {
  std::string name;
  uint32_t kinds = kAnyKind;  // of Arg::Kind, by bitOf
  uint32_t items = kAnyKind;  // those of the items of a sequence
  bool required = false;
  bool keyword_only = false;
};

struct Overload {
  std::vector<Parameter> parameters;
  bool spreads = false;  // its last positional parameter takes ints one by one: x.view(2, 3)
};

// Empty: not known, whatever is passed.
using Declaration = std::vector<Overload>;

Declaration declarationOf(PyObject* target);
bool accepts(const Declaration& declaration, const Workspace& workspace);

// Of aten::<name>; implemented in tensor/. `method`: the first parameter is the tensor whose method it is.
Declaration schemasOf(std::string_view name, bool method);

}  // namespace stator::shapes
