// A plan in words, for text cases: what it makes, what it changes, and the state in which frames go on.
#pragma once

#include "breaks/continuation.h"
#include "breaks/plan.h"

#include <string>
#include <vector>

namespace stator::breaks {

// What the words are about.
struct PlanTerms {
  sources::Roots roots;              // of the driven frame, as it stood at the capture
  std::vector<std::string> outputs;  // of the graph, as its own text calls them
  std::string (*show)(PyObject*);    // an object that the plan holds; runs no user code
};

struct FrameText {
  Ref<PyCodeObject> code;  // null: the plan makes the function in a way that does not show its code
  int offset = 0;
  Continuation continuation = Continuation::kPush;
  std::string written;  // a slot a line, then the stack
};

struct PlanText {
  std::string makes;    // a step a line, before the commit point
  std::string changes;  // likewise, from it on
  std::string returned;
  std::vector<FrameText> frames;
};

PlanText describe(const Plan& plan, const PlanTerms& terms);

}  // namespace stator::breaks
