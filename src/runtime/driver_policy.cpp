#include "runtime/driver_policy.h"

#include "interpret/calls/switches.h"
#include "interpret/calls/tables.h"
#include "interpret/tracer.h"

namespace stator::runtime {

bool isMarkedNative(PyFunctionObject* function) {
  return interpret::markOf(reinterpret_cast<PyObject*>(function)) == interpret::Mark::kDisabled;
}

bool standsForNative(PyCodeObject* code) { return interpret::isPolyfill(code); }

uint64_t watchedUnits(const bytecode::Instr& instr) { return interpret::watchedUnits(instr); }

}  // namespace stator::runtime
