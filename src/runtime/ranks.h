// Captures under torch.distributed: what a rank saw becomes a record (dist/record.h), stator/_ranks.py carries the
// bytes, and all ranks do what dist/agreement.h decides. On when config.enable_compiler_collectives is set and the
// process group has several ranks.
#pragma once

#include "base/ref.h"
#include "dist/agreement.h"
#include "interpret/core/captured.h"
#include "interpret/core/trace_options.h"
#include "python/frame.h"

#include <functional>
#include <optional>
#include <string>

namespace stator::runtime {

class Cache;

// Whether captures are agreed upon: asked for, and there is more than one rank. Throws PythonError.
bool ranksAgree();

// Traces until all ranks have traced one program: sizes and ints that differ between them become dynamic in
// `options.history`. Empty: the ranks run different programs and the call goes on eagerly on all of them
// (config.on_divergence). Throws PythonError: they do, and that is an error; or a rank was lost; or the trace itself
// failed.
using Trace = std::function<interpret::Captured(interpret::TraceOptions)>;
std::optional<interpret::Captured> traceTogether(Cache& cache, StatorFrame* frame,
                                                 const interpret::TraceOptions& options,
                                                 const Trace& trace);

// After the backend has run. `failed`: a Python error is set, and stays set. False: another rank's backend failed, go
// on eagerly. Throws PythonError: the same, as an error.
bool backendsDone(Cache& cache, StatorFrame* frame, bool failed);

// set_enable_guard_collectives: true where every rank has found an entry. Throws PythonError.
bool hitOnAll(Cache& cache, StatorFrame* frame, bool hit);

// The compiled call under way, whatever frames it consists of, ends natively.
void endCallEagerly(Cache& cache);
bool callEndsEagerly();
// This root's calls have diverged so often that they are not tried any more.
bool gaveUpAgreeing(const Cache& cache);

// Where a capture begins, in a form that is the same on every machine.
std::string siteName(StatorFrame* frame);

extern PyMethodDef ranks_methods[];

}  // namespace stator::runtime
