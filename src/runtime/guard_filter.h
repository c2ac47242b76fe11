// Which guards an entry gets where the user has a say: options={"guard_filter_fn": ...}, config.guard_nn_modules,
// guard_export_fn.
#pragma once

#include "interpret/core/captured.h"
#include "runtime/cache.h"

namespace stator::runtime {

// Leaves out of the captured guards what the user does not want checked. Throws PythonError where a function of the
// user's raises.
void filterGuards(const Cache& cache, StatorFrame* frame, interpret::Captured& captured);

}  // namespace stator::runtime
