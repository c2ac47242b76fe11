// The executor as a Python callable: `forward` of the FX module. Compiled at the first call.
#pragma once

#include "base/python.h"
#include "base/ref.h"
#include "graph/graph.h"

#include <memory>

namespace stator::graph {

class Executor;
struct FailedRun;

// While one lives on a thread, a runner that fails there leaves what it has computed; `executor` then names the graph
// (its address).
class FailureScope {
 public:
  FailureScope();
  ~FailureScope();
  std::unique_ptr<FailedRun> take();  // null: no runner has failed
};

bool initRunnerType();
Ref<> makeRunner(std::shared_ptr<const Graph> graph);
// The executor behind a runner, for callers that want to know which node failed; null if `callable` is no runner.
// Lives as long as the runner. Throws InternalError if the graph is not sound.
const Executor* executorOf(PyObject* callable);

}  // namespace stator::graph
