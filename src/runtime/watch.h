// What stator.explain sees: each capture as it ends, and the tensor calls that ran outside of graphs, by the break that put them there.
// Off unless somebody watches; the check costs one load.
#pragma once

#include "breaks/plan.h"
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
};

bool watching();
// Somebody watches, or captures are logged (config.log_captures, config.trace_dir): each goes to reportCapture, as text.
bool wantsTexts();
void reportCapture(const CaptureReport& report);
// Tensor calls from here on are those of this break; empty: of none.
void ranUntil(const std::string& break_place);

extern PyMethodDef watch_methods[];

}  // namespace stator::runtime
