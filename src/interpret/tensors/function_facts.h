// What an autograd function of the graph gives: the trace of its forward has found that out, and nobody runs it again.
#pragma once

#include "interpret/core/arguments.h"
#include "interpret/core/tracer.h"
#include "shapes/infer.h"

#include <optional>
#include <vector>

namespace stator::interpret {

// `module`: the body that has been traced to these outputs. Nothing is noted of one that writes, draws random numbers,
// or gives what it was given.
void noteFunctionFacts(Tracer& tracer, PyObject* module, const graph::Graph& body,
                       const std::vector<PyObject*>& outputs);
// Nothing: the target is no such function, or a run has to tell.
std::optional<shapes::Inferred> factsOfFunction(Tracer& tracer, PyObject* target, const Args& args);

}  // namespace stator::interpret
