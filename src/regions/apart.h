// Values of one graph that the program may differentiate one after the other. A backend that differentiates makes one
// function of autograd's of a graph, and what that keeps for its backward is gone when the first of its values has been
// differentiated: values that have no call in common would be differentiated for the second time then.
#pragma once

#include "regions/find.h"

#include <vector>

namespace stator::regions {

struct Parting {
  bool needed = false;
  // positions among the calls where pieces of only one such value begin; empty though needed: there are none
  std::vector<size_t> bounds;
};

Parting partingOf(graph::Graph& graph, bool grad_enabled);

// Of the inputs of these calls: which require grad, though nothing that the calls make is differentiated by them.
std::vector<bool> withoutGradients(const std::vector<const graph::Node*>& inputs,
                                   const std::vector<const graph::Node*>& calls);

}  // namespace stator::regions
