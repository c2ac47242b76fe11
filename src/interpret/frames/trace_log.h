// What a trace tells on its way, where somebody listens (TORCH_LOGS: trace_source, trace_call, trace_bytecode).
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// TraceOptions::logs
enum TraceLog : int { kLogSource = 1, kLogCalls = 2, kLogBytecode = 4 };

// The instruction that the frame is about to run.
void logInstruction(Tracer& tracer, const SymbolicFrame& frame);

}  // namespace stator::interpret
