// The captured side of the driver: finds the entry of a place whose guards hold, or captures one, and runs it. The one
// boundary at which stator's own failures end: the user's program goes on eagerly.

#include "runtime/entry.h"

#include "base/check.h"
#include "base/hot.h"
#include "base/stack_room.h"
#include "bytecode/code_info.h"
#include "known/code_policy.h"
#include "known/finalizers.h"
#include "known/marks.h"
#include "known/torch_names.h"
#include "python/fields.h"
#include "python/held_frames.h"
#include "python/recursion.h"
#include "runtime/active.h"
#include "runtime/ahead.h"
#include "runtime/driver_module.h"
#include "runtime/entry_guess.h"
#include "runtime/hook.h"
#include "runtime/learned.h"
#include "runtime/listing.h"
#include "runtime/ranks.h"
#include "runtime/reports.h"
#include "runtime/settings.h"
#include "runtime/watch.h"
#include "tensor/fake_modes.h"
#include "tensor/profiler_region.h"
#include "tensor/tensor_guard.h"

#include <algorithm>
#include <optional>

namespace stator::runtime {
namespace {

using known::CodePolicy;
using sources::Roots;

// What the entry overwrites in the frame was looked at when it was captured, but is not guarded: it may be anything
// that dies quietly.
bool dropsRunCode(const Entry& entry, const Roots& roots) {
  for (int slot : entry.plan.dropped_slots) {
    if (known::lastReferenceRunsCode(roots.slots[slot])) return true;
  }
  return false;
}

// Why an entry does not serve.
std::string explain(Entry& entry, const Roots& roots) {
  std::string why = entry.guards->explain(roots);
  GraphInputs inputs;
  if (why.empty() && entry.memory != nullptr && inputs.guardsHold(*entry.guards, roots))
    why = entry.memory->explain(inputs.values);
  return why;
}

// The same for all entries of a place, most recent first, one to a line.
std::string explainAll(Site& site, const Roots& roots) {
  std::string text;
  for (const std::shared_ptr<Entry>& entry : site.entries)
    text += (text.empty() ? "" : "\n") + explain(*entry, roots);
  return text;
}

// Every guard that fails, not only the first: for TORCH_LOGS=recompiles_verbose.
std::string explainEach(Site& site, const Roots& roots) {
  std::string text;
  for (size_t i = 0; i < site.entries.size(); ++i) {
    Entry& entry = *site.entries[i];
    text += "entry " + std::to_string(i) + ":\n";
    for (const auto& cost : entry.guards->measure(*entry.sources, roots).each) {
      if (cost.nanoseconds < 0) text += "  " + cost.guard + "\n";
    }
  }
  return text;
}

// One frame that came to a place where it could be captured: leaves it alone, serves it from an entry, or captures it.
class LookUp {
 public:
  LookUp(Cache& of, StatorFrame* at, bytecode::CodeInfo& code_info)
      : cache_(of),
        frame_(at),
        info_(code_info),
        code_(stator_frame_code(at)),
        offset_(stator_frame_offset(at)) {}

  STATOR_HOT Exit run() {
    if (auto exit = leaveAlone()) return std::move(*exit);
    Site& site = cache_.site(code_, offset_);
    if (auto exit = leaveAlone(site)) return std::move(*exit);
    Roots roots = Roots::of(frame_);
    Spare<GraphInputs> memory;
    if (auto exit = serve(site, roots, *memory)) return std::move(*exit);
    if (auto exit = refuse(site, roots)) return std::move(*exit);
    return captureAndRun(site, roots, *memory);
  }

 private:
  using MaybeExit = std::optional<Exit>;
  MaybeExit leaveAlone();
  MaybeExit leaveAlone(Site& site);
  MaybeExit serve(Site& site, const Roots& roots, GraphInputs& inputs);
  MaybeExit refuse(Site& site, const Roots& roots);
  MaybeExit refuseByLimit(Site& site, const Roots& roots);
  Exit captureAndRun(Site& site, const Roots& roots, GraphInputs& inputs);
  int64_t limit() const;
  bool goesOnSteadily(Site& site, const Roots& roots);

  Cache& cache_;
  StatorFrame* frame_;
  bytecode::CodeInfo& info_;
  PyCodeObject* code_;
  int offset_;
  bool steady_ = false;
  const ConfigValues& config_ = configValues();
};

// What nobody captures, and what goes on by itself for now.
STATOR_HOT LookUp::MaybeExit LookUp::leaveAlone() {
  if (info_.skip) return outcome(Outcome::kNative);
  if (info_.captured == nullptr) {
    info_.captured = &info_;  // the file's policy has been looked up
    if (known::codePolicy(code_) != CodePolicy::kTrace) {
      info_.skip = true;
      return outcome(Outcome::kNative);
    }
  }
  if (offset_ == info_.firstLegal() &&
      known::isDisabled(reinterpret_cast<PyObject*>(stator_frame_function(frame_)))) {
    return outcome(Outcome::kNative);
  }
  // Class bodies, exec. A function has such a dict too once somebody asked for its locals(), but does not run on it.
  if (stator_frame_namespace(frame_) != nullptr && (code_->co_flags & CO_OPTIMIZED) == 0)
    return outcome(Outcome::kNative);
  if (config_.break_every == 1 && !config_.break_random && !cache_.fullgraph)
    return outcome(Outcome::kStep);
  if (callEndsEagerly()) return outcome(Outcome::kNative);
  if (gaveUpAgreeing(cache_)) {
    endCallEagerly(cache_);
    return outcome(Outcome::kNative);
  }
  return std::nullopt;
}

STATOR_HOT LookUp::MaybeExit LookUp::leaveAlone(Site& site) {
  if (site.step_only || (site.quiet && !holdsTensor(frame_)) ||
      (tensor::callsAreWatched() && tensor::callersFakeMode() == nullptr) ||
      (tensor::transformsActive() && !cache_.fullgraph && !asksBackend(cache_, "is_eager"))) {
    if (watching()) ranUntil(site.why);
    return outcome(Outcome::kStep);
  }
  // Close to the end of the recursion the program goes on by itself: what a plan calls would find it first, in other
  // words than eager's.
  constexpr int kDepthOfPlan = 6;
  if (stator_recursion_left() < kDepthOfPlan) return outcome(Outcome::kStep);
  // Frames that a plan makes real lie on the C stack, those of the calls that CPython makes then do not.
  if (stackIsShort()) return outcome(Outcome::kStep);
  return std::nullopt;
}

STATOR_HOT LookUp::MaybeExit LookUp::serve(Site& site, const Roots& roots, GraphInputs& inputs) {
  std::optional<tensor::ProfilerRegion> looking;
  if (tensor::isProfiled()) [[unlikely]]
    looking.emplace().begin("TorchDynamo Cache Lookup");
  const bool looked_alone = !config_.guard_collectives;
  const bool held = stator_frame_held(frame_) != 0;
  const auto slots = static_cast<size_t>(stator_code_slot_count(code_));
  const size_t index = findServing(site, roots, slots, [&](Entry& entry) {
    // Such a frame ends for real.
    if (held && entry.plan.exit == breaks::ExitKind::kReturn) return false;
    return inputs.found(entry, roots) && !dropsRunCode(entry, roots);
  });
  const bool found = index < site.entries.size();
  if (found) {
    inputs.hold();
  } else {
    looking.reset();
  }
  const bool on_all = looked_alone || hitOnAll(cache_, frame_, found);
  if (found && on_all) {
    statistics().hits++;
    // The cache may let it go while it runs.
    std::shared_ptr<Entry> entry = site.entries[noteServing(site, index)];
    if (measuresGuards()) [[unlikely]]
      measureGuards(*entry, frame_, roots);
    looking.reset();
    if (cache_.ahead != Ahead::kNo) [[unlikely]]
      answerAhead(true);
    return runEntry(cache_, *entry, frame_, roots, inputs.values);
  }
  looking.reset();
  if (callEndsEagerly()) return outcome(Outcome::kNative);
  return std::nullopt;
}

// No entry serves: whether there may be another one.
LookUp::MaybeExit LookUp::refuse(Site& site, const Roots& roots) {
  statistics().misses++;
  // Entries about modules that are gone: nothing can match them any more.
  CodeEntries& of_code = cache_.entriesOf(code_);
  of_code.live -= static_cast<int64_t>(
      std::erase_if(site.entries, [](const auto& entry) { return entry->guards->dead(); }));
  cache_.generation++;
  if (config_.stance == Stance::kEagerOnRecompile || hookState().entries_only > 0)
    return outcome(Outcome::kNative);
  if (config_.stance == Stance::kEagerThenCompile && site.captures == 0) {
    noteFirstRun(site, cache_, frame_);
    return outcome(Outcome::kNative);
  }
  if (cache_.ahead == Ahead::kAsk) answerAhead(false);
  followTorchConfig();
  const bool by_stance = config_.stance == Stance::kFailOnRecompile;
  if (cache_.closed || by_stance || (config_.error_on_recompile && !site.entries.empty())) {
    reportRecompile(frame_, explainAll(site, roots),
                    cache_.closed ? "aot_compile"
                    : by_stance   ? "stance"
                                  : "config");
    throw PythonError();
  }
  if (auto exit = refuseByLimit(site, roots)) return exit;
  constexpr int kTriesOfDeep = 2;
  if (site.too_deep >= kTriesOfDeep) return outcome(Outcome::kNative);
  // A capture calls Python itself: the program is to find the end of the recursion, in its own words.
  constexpr int kDepthOfCapture = 120;
  if (stator_recursion_left() < kDepthOfCapture) return outcome(Outcome::kStep);
  return std::nullopt;
}

int64_t LookUp::limit() const {
  const int64_t set = cache_.recompile_limit > 0 ? cache_.recompile_limit : config_.recompile_limit;
  // Forced breaks leave many places with few instructions each: the search goes on for longer.
  return config_.break_every != 0 ? std::max<int64_t>(set, 64) : set;
}

// At the limit: whether it is captured once more, for what stays the same from call to call.
bool LookUp::goesOnSteadily(Site& site, const Roots& roots) {
  constexpr size_t kTries = 3, kLeastLimit = 4;
  const auto at_limit = static_cast<size_t>(limit());
  if (at_limit < kLeastLimit || site.entries.size() >= at_limit + kTries || cache_.fullgraph ||
      config_.fail_on_recompile_limit_hit || !isAutomatic(cache_) || ranksAgree())
    return false;
  for (const auto& entry : site.entries) {
    if (const sources::Source* failed = entry->guards->failedSource(roots))
      site.history.at(known::sourceKey(*failed)).unsteady = true;
  }
  return true;
}

LookUp::MaybeExit LookUp::refuseByLimit(Site& site, const Roots& roots) {
  const CodeEntries& of_code = cache_.entriesOf(code_);
  // A function whose places together were captured too often is as bad as one place that was.
  const bool too_many =
      of_code.live >= config_.accumulated_recompile_limit && !site.entries.empty();
  if (static_cast<int64_t>(site.entries.size()) < limit() && !too_many) return std::nullopt;
  steady_ = !too_many && goesOnSteadily(site, roots);
  if (!steady_) statistics().fallbacks++;
  bool worthless = std::all_of(site.entries.begin(), site.entries.end(),
                               [](const auto& entry) { return entry->ops == 0; });
  bool& told = steady_ ? site.at_limit : site.over_limit;
  if (!told && !worthless) {
    told = true;
    const bool is_error = cache_.fullgraph || config_.fail_on_recompile_limit_hit;
    reportLimit(frame_, explainAll(site, roots),
                too_many ? config_.accumulated_recompile_limit : limit(),
                is_error  ? AtLimit::kError
                : steady_ ? AtLimit::kBreaks
                          : AtLimit::kEager);
    if (PyErr_Occurred()) throw PythonError();
  }
  if (steady_) return std::nullopt;
  return outcome(info_.counted && stepsCounted() ? Outcome::kStep : Outcome::kOverLimit);
}

Exit LookUp::captureAndRun(Site& site, const Roots& roots, GraphInputs& inputs) {
  const bool again = !site.entries.empty();
  // Explanations are for those who asked, and for the last place that is left.
  const bool last_place = again && static_cast<int64_t>(site.entries.size()) + 1 == limit();
  const int logs = wantedLogs(frame_);
  std::string failed_guards;
  if (again && (last_place || (logs & kLogRecompiles) != 0 || cache_.tells_of_failures))
    failed_guards = explainAll(site, roots);
  if (again && cache_.tells_of_failures) reportGuardFailure(cache_, frame_, failed_guards);
  if (again && (logs & kLogEachFailure) != 0) reportEachFailure(frame_, explainEach(site, roots));
  const CaptureWish wish{.logs = logs, .steady = steady_};
  CompileCallbacks callbacks(logs);
  const auto capture_start = std::chrono::steady_clock::now();
  const auto generation = cache_.generation;
  std::unique_ptr<Entry> entry = capture(cache_, frame_, wish);
  // Capture and backends import modules on first use, which may change what was read before: the second time nothing is
  // new.
  if (entry && !inputs.guardsHold(*entry->guards, roots)) entry = capture(cache_, frame_, wish);
  // Unless it counts up what the program reads too (the numbers of hooks): without a backend, then.
  if (entry && !config_.guard_collectives && !inputs.guardsHold(*entry->guards, roots))
    entry = capture(cache_, frame_, {.logs = logs, .runs_as_is = true, .steady = steady_});
  if (!entry) {
    if (callEndsEagerly()) return outcome(Outcome::kNative);
    if (watching()) ranUntil(cache_.site(code_, offset_).why);
    return outcome(Outcome::kStep);
  }
  // The cache may have been reset, or the site moved, while the backend ran.
  Site& home = cache_.site(code_, offset_);
  // Another thread may have captured the same meanwhile: one entry is enough, and takes one place of the limit.
  if (cache_.generation != generation && !config_.guard_collectives) {
    if (auto exit = serve(home, roots, inputs)) return std::move(*exit);
  }
  if (!inputs.guardsHold(*entry->guards, roots) || !inputs.memoryHolds(*entry))
    throw InternalError("a guard fails right after the capture: " + explain(*entry, roots));
  inputs.hold();
  home.entries.insert(home.entries.begin(), std::move(entry));
  cache_.entriesOf(code_).live++;
  cache_.generation++;
  std::shared_ptr<Entry> running = home.entries.front();
  if (!failed_guards.empty()) {
    reportRecompiled(frame_, failed_guards, running->guards->symbolText(code_),
                     secondsSince(capture_start), home.entries.size(), limit());
  }
  if ((logs & kLogGuards) != 0) reportGuards(frame_, running->guards->text(code_));
  if (recording()) recordGuards(frame_, running->guards->measure(*running->sources, roots));
  if ((logs & kLogCode) != 0) reportCode(cache_, frame_);
  callbacks.end(running->guard_count);
  if (cache_.ahead != Ahead::kNo) answerAhead(true);
  return runEntry(cache_, *running, frame_, roots, inputs.values);
}

Exit lookUp(Cache& cache, StatorFrame* frame, bytecode::CodeInfo& info) {
  return LookUp(cache, frame, info).run();
}

}  // namespace

Exit runCaptured(Cache& cache, StatorFrame* frame, bytecode::CodeInfo& info) {
  keepHookOnTop();
  try {
    return lookUp(cache, frame, info);
  } catch (const PythonError&) {
    STATOR_CHECK(PyErr_Occurred(), "an error without an exception");
    if (configValues().replay_record_enabled) recordFailure(cache, frame);
    return outcome(Outcome::kRaise);
  } catch (const TooDeep&) {
    statistics().fallbacks++;
    PyErr_Clear();
    cache.site(stator_frame_code(frame), stator_frame_offset(frame)).too_deep++;
    return outcome(Outcome::kNative);
  } catch (const std::exception& error) {
    statistics().internal_errors++;
    PyErr_Clear();
    if (!reportInternal(frame, error.what())) return outcome(Outcome::kNative);
    if (configValues().replay_record_enabled) recordFailure(cache, frame);
    return outcome(Outcome::kRaise);
  }
}

}  // namespace stator::runtime
