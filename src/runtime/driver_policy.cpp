#include "runtime/driver_policy.h"

#include "known/code_policy.h"
#include "known/marks.h"

namespace stator::runtime {

bool isMarkedNative(PyFunctionObject* function) {
  return known::markOf(reinterpret_cast<PyObject*>(function)) == known::Mark::kDisabled;
}

bool standsForNative(PyCodeObject* code) { return known::isPolyfill(code); }

}  // namespace stator::runtime
