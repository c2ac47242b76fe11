// Functions that a graph calls: the bodies of higher-order operators.
#pragma once

#include "graph/graph.h"

#include <cstddef>

namespace stator::regions {

// What the bodies among a call's arguments do, at any depth.
struct Deeds {
  bool has_body = false;
  size_t calls = 0;     // in them
  bool writes = false;  // in place, or something that is not known
  bool draws = false;   // random numbers
};
Deeds deedsOf(const graph::Node& node);

}  // namespace stator::regions
