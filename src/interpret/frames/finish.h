// The end of a trace.
#pragma once

#include "breaks/plan.h"
#include "interpret/core/tracer.h"

namespace stator::interpret {

// Turns the state of the trace into a plan. False: something cannot be rebuilt, and Ending says where to break.
bool buildPlan(Tracer& tracer, bool returns, breaks::Plan& plan);

}  // namespace stator::interpret
