// Every capture, as text, for text cases: where it began, graph, guards, what its plan makes and changes, how it left.
// Writing them takes as long as capturing: only while somebody has asked for them (keep_captures).
#pragma once

#include "base/python.h"
#include "breaks/plan.h"
#include "python/frame.h"

#include <string>

namespace stator::graph {
class Graph;
}

namespace stator::runtime {

bool keepsCaptures();
// The frame stands where the capture began. `graph` and `guards` are texts, empty where there is nothing to say.
void keepCapture(StatorFrame* frame, const graph::Graph& captured, const breaks::Plan& plan,
                 const std::string& graph, const std::string& guards);

extern PyMethodDef kept_methods[];

}  // namespace stator::runtime
