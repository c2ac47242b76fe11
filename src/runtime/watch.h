// What stator.explain and reports see: each capture as it ends, and the tensor calls that ran outside of graphs, by the
// break that put them there. A watch is a thread's, and watches nest; one recorder gets the captures of all threads.
// Off unless somebody watches; the check costs one load.
#pragma once

#include "breaks/plan.h"
#include "graph/graph.h"
#include "guards/guard.h"
#include "python/frame.h"

#include <string>

namespace stator::runtime {

struct CaptureReport {
  StatorFrame* frame;
  const breaks::Plan* plan;
  size_t ops;
  std::string graph, guards;
  double capture_seconds, backend_seconds;
  std::string regions = "";  // of the graph, one line each
  Ref<> stack = nullptr;     // of a break: [(file, line, function)], outermost first
  Ref<> lines = nullptr;     // linesOf the graph
};

bool watching();
// A recorder is there: it also gets what the guards of each new entry cost.
bool recording();
void recordGuards(StatorFrame* frame, const guards::GuardProgram::Costs& costs);
// Somebody watches, or captures are logged (config.log_captures, config.trace_dir): each goes to reportCapture, as
// text.
bool wantsTexts();
void reportCapture(const CaptureReport& report);
// The program's lines that put calls into a graph: ([(file, line, function, calls)], [for each node the position of its
// outermost line, or
// -1]). A line has the calls of all that it calls.
Ref<> linesOf(const graph::Graph& graph);
// Tensor calls from here on are those of this break; empty: of none.
void ranUntil(const std::string& break_place);
// While it lives a compiled function runs; behind the outermost, tensor calls are nobody's. To be made where somebody
// watches.
class WatchedCall {
 public:
  WatchedCall();
  ~WatchedCall();
  WatchedCall(const WatchedCall&) = delete;
  WatchedCall& operator=(const WatchedCall&) = delete;

 private:
  std::string outer_;
};

extern PyMethodDef watch_methods[];

}  // namespace stator::runtime
