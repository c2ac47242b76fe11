// Calls of modules, their hooks, and where in the module tree an operation belongs.
#pragma once

#include "interpret/core/captured.h"
#include "interpret/core/tracer.h"

namespace stator::interpret {

Out callModule(Tracer& tracer, PyObject* module, const Args& args, Continuation then);
// registered for all modules; guarded
bool noGlobalHooks(Tracer& tracer);
const graph::ModuleScope* moduleScope(Tracer& tracer, PyObject* module);
bool isFsdpManaged(PyObject* module);
void noteFsdpModules(Tracer& tracer, Captured& captured);
// where the driven frame is a module's forward
void setRootScope(Tracer& tracer);

}  // namespace stator::interpret
