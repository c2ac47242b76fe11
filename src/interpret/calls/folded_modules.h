// Calls of torch's own layers of a specialised module, as one node each.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

void startFold(Tracer& tracer, PyObject* module, const Args& args, SymbolicFrame& entered,
               bool by_name = false);
// `callable` is called, and `entered` is its frame: where that is the forward of a layer, called by its name, the call
// becomes one node too
void startNamedFold(Tracer& tracer, PyObject* callable, const Args& args, SymbolicFrame& entered);
// replaces what was traced of the call by one node, if it had no other effect
void finishFold(Tracer& tracer, SymbolicFrame& frame);

}  // namespace stator::interpret
