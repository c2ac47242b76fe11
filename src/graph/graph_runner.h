// The executor as a Python callable: `forward` of the FX module. Compiled at the first call.
#pragma once

#include "base/python.h"
#include "base/ref.h"
#include "graph/graph.h"

#include <memory>

namespace stator::graph {

bool initRunnerType();
Ref<> makeRunner(std::shared_ptr<const Graph> graph);

}  // namespace stator::graph
