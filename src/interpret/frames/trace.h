// One capture, from the frame's offset on.
#pragma once

#include "interpret/core/captured.h"
#include "interpret/core/trace_options.h"
#include "python/frame.h"

namespace stator::interpret {

// Interprets until the frame returns or the trace has to end. What cannot be undone makes it start over with a break
// before (and leaves that break in `options`), or as it is. Throws InternalError if stator is wrong, PythonError if
// Ctrl-C arrived.
Captured trace(StatorFrame* frame, TraceOptions& options);

}  // namespace stator::interpret
