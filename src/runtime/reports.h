// What the user is told: breaks, limits, errors. Their file and line first, then what happened, then what to do.
#pragma once

#include "breaks/plan.h"
#include "interpret/core/captured.h"
#include "python/frame.h"

#include <string>

namespace stator::runtime {

// Where the frame is: the head of the function, or the line at which it goes on behind a break.
std::string placeNow(StatorFrame* frame);

class Cache;

// Sets stator.exc.Unsupported for a break under fullgraph=True, or where error_on_graph_break is set.
void raiseUnsupported(const interpret::Captured& captured, bool fullgraph);
// Of a break: [(file, line, function)] of the program's frames, outermost first.
Ref<> stackOf(const interpret::Captured& captured);
// Records a break for stats and, when asked, logs it.
void reportBreak(const interpret::Captured& captured);
// What happens at a place that has as many entries as it may have.
enum class AtLimit : uint8_t { kEager, kError, kBreaks };
// Warns of it once; of kError an error is set instead.
void reportLimit(StatorFrame* frame, const std::string& failed_guard, long long limit,
                 AtLimit then);
// A compiled graph has failed which runs as it was captured: the error gets a note, or, where it is not raised, there
// is a warning (an error is set if the user made warnings errors).
void reportFailedGraph(const Cache& cache, StatorFrame* frame, long number, PyObject* error,
                       bool raises);
// The backend failed and config.suppress_errors is set: takes the error that is set and warns. Throws PythonError if
// warnings are errors.
void reportSuppressed(StatorFrame* frame);
// Calls the user's guard_fail_fn.
void reportGuardFailure(const Cache& cache, StatorFrame* frame, const std::string& failed_guards);
// Stator is wrong: true if an error was set (strict), false if a warning was given and the program goes on eagerly.
bool reportInternal(StatorFrame* frame, const std::string& what);

// The frame in which the error that is set was found, as it is now, becomes a record (config.replay_record_enabled).
void recordFailure(const Cache& cache, StatorFrame* frame);

// Which of these somebody listens to: TORCH_LOGS words.
enum LogWord : int {
  kLogRecompiles = 1,
  kLogGuards = 2,
  kLogDynamic = 4,
  kLogGraphs = 8,
  kLogTrace = 16,  // and 32, 64: interpret::TraceLog
  kLogPlans = 128,
  kLogEachFailure = 256,
  kLogSymbols = 512,
  kLogCallbacks = 1024,  // torch._dynamo.on_compile_start and its like, compile_times()
  kLogRegions = 4096,
  // hooks that want code for what was captured (_bytecode_hooks of stator/_report.py)
  kLogCode = 2048
};
// A capture of this frame is about to begin: it gets its compile id.
int wantedLogs(StatorFrame* frame);
// While it lives, a compilation is under way for those who asked to be called at its start and end. Throws PythonError
// if one of them raises.
class CompileCallbacks {
 public:
  explicit CompileCallbacks(int logs);
  ~CompileCallbacks();
  CompileCallbacks(const CompileCallbacks&) = delete;
  CompileCallbacks& operator=(const CompileCallbacks&) = delete;
  // There is an entry, with so many guards.
  void end(size_t guards);

 private:
  bool open_ = false;
};
// Why a graph ends where it does, as TorchDynamo's GraphCompileReason has it: (reason, ((file, line, function), ...),
// whether it is a break).
Ref<> compileReason(StatorFrame* frame, const interpret::Captured& captured);
// "COMPILING GRAPH due to ..."
void reportGraph(PyObject* reason);
// A place was captured once more. `symbols`: what the new entry leaves open, as text.
void reportRecompiled(StatorFrame* frame, const std::string& failed_guards,
                      const std::string& symbols, double seconds, size_t entries, long long limit);
// All guards of older entries that fail, by entry.
void reportEachFailure(StatorFrame* frame, const std::string& failed_guards);
// What was captured stands for these instructions, and does this in their place.
void reportPlan(StatorFrame* frame, const interpret::Captured& captured);
// Parts of the graph that are compiled once; empty: there are none.
void reportRegions(StatorFrame* frame, const std::string& regions);
// Sizes and numbers that a capture leaves open, and what has to hold between them.
void reportSymbols(StatorFrame* frame, const interpret::Captured& captured,
                   const std::vector<const sources::Source*>& symbols);
void reportGuards(StatorFrame* frame, const std::string& guards);
// A whole function was captured. Throws PythonError if a hook raises.
void reportCode(const Cache& cache, StatorFrame* frame);

// A new capture is needed where none is allowed: sets the error. `failed_guards`: of each entry, most recent first.
// `why`: the stance, the config, or aot_compile.
void reportRecompile(StatorFrame* frame, const std::string& failed_guards, const char* why);
// Settings changed in torch._dynamo.config, where somebody has loaded it, hold here too.
void followTorchConfig();

}  // namespace stator::runtime
