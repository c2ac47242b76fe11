// DESCRIBE subgraphs
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// of the graph under way, or of one around it
bool isReachable(Tracer& tracer, const graph::Node* node);

}  // namespace stator::interpret
