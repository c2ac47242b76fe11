// The result of a finished trace, independent of the Tracer.
#pragma once

#include "breaks/plan.h"
#include "graph/graph.h"
#include "guards/guard.h"
#include "sources/source.h"

#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace stator::interpret {

// Modules that FSDP manages, as the trace met them.
using ManagedModules = std::vector<std::pair<const sources::Source*, Ref<>>>;
// Whether a source lies inside of one of them.
class FsdpInside {
 public:
  explicit FsdpInside(const ManagedModules& managed);
  bool operator()(const sources::Source* source) const;

 private:
  std::unordered_set<const sources::Source*> managed_;
};
// The guards for a call on the very same modules, whose insides are FSDP's matter: without those on insides, but for
// tensors and hooks.
std::unique_ptr<guards::GuardSet> guardsOfSameModules(const guards::GuardSet& guards,
                                                      const ManagedModules& managed);

struct Captured {
  std::shared_ptr<graph::Graph> graph;
  std::unique_ptr<sources::SourceSet> sources;
  std::unique_ptr<guards::GuardSet> guards;
  breaks::Plan plan;
  uint64_t instructions = 0;
  // the trace changed what it had read (lazy modules): run it again as it is
  bool start_anew = false;
  std::vector<uint64_t> read_texts;  // of the trace, where it is run again
  bool wrappers_read_data = false;
  // and has read numbers of tensors from outside (core/storages.h)
  bool writes_behind_numbers = false;
  bool grad_enabled = false;    // at the beginning
  bool has_subclasses = false;  // among the inputs: the graph takes them for plain tensors
  uint64_t counted = 0;         // instructions of counted code
  // Set if the trace has to be run again with a break at that instruction.
  uint64_t restart_at = 0;
  breaks::Reason restart_reason = breaks::Reason::kNone;
  std::string restart_detail;
  int restarts = 0;  // how often the trace was run again
  bool break_is_error = false;
  bool differentiated_within = false;  // behind its end (core/ending.h)
  // An exception that is there already leaves the function: nothing of the program is left out by that break.
  bool passes_exception_on = false;
  // of a break: code and line of each frame of the program, outermost first
  std::vector<std::pair<Ref<>, int>> stack;
  // config.skip_fsdp_guards: what is inside of them is not checked when they are the same ones
  ManagedModules managed;
};

}  // namespace stator::interpret
