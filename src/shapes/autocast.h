// What autocast does to the arguments of a call, as far as the rules may know it. torch has kernels of its own for some
// operators under autocast, which cast and call the operator again; every other operator takes its arguments as they
// are.
#pragma once

#include "shapes/call.h"

namespace stator::shapes {

enum class Cast : uint8_t {
  kUnknown,  // one run under the real state tells
  kNone,
  kLower,  // to autocast's own dtype
};

// `target`: a callable that has rules, the first of which is `row`.
Cast castOf(PyObject* target, const OpRow& row, const Workspace& workspace, const State& state);

}  // namespace stator::shapes
