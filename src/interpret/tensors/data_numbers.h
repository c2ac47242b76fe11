// Sizes and conditions that only the run of a graph tells.
#pragma once

#include "interpret/core/tracer.h"

#include <vector>

namespace stator::interpret {

// Sizes of results that depend on data, symbols from `first` on: the graph reads each off a result that has it.
void readNewSizes(Tracer& tracer, size_t first, PyObject* result);
// The argument with some float in the place of each that the graph computes (the one it is now, where that is known):
// facts of what a function gives do not depend on it.
Ref<> withSomeNumbers(PyObject* argument);
// Whether that is so for all floats of the graph's among the arguments of a call, as the operator's schema tells.
bool floatsAreData(PyObject* target, const Args& args);

// Two sizes that an operation needs to be equal, of which the graph alone knows one: taken for granted, and checked
// behind the operation, which raises by itself in nearly every case where they are not.
struct AssumedEqual {
  Ref<> left, right;  // arguments of the graph
};
bool mayAssume(Tracer& tracer, const symbolic::Expr* condition);
void assume(Tracer& tracer, const symbolic::Expr* condition, std::vector<AssumedEqual>& assumed);
void check(Tracer& tracer, const AssumedEqual& assumed);

}  // namespace stator::interpret
