// What has been captured for one set of compile settings: entries by code object and offset. Owned by the compiled
// objects that use it; its references are visible to the garbage collector, so that a cache never keeps a model alive
// through a cycle.
#pragma once

#include "base/python.h"
#include "base/ref.h"
#include "breaks/plan.h"
#include "graph/executor.h"
#include "guards/guard.h"
#include "known/dynamic.h"
#include "sources/source.h"
#include "tensor/random_state.h"
#include "tensor/storage_pattern.h"

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace stator::runtime {

struct Learned;

// One captured part: valid while its guards hold.
struct Entry {
  std::unique_ptr<sources::SourceSet> sources;
  std::unique_ptr<guards::GuardProgram> guards;
  size_t guard_count = 0;
  // For the very modules of the capture, where FSDP manages them: fewer guards. Null: there are none such.
  std::unique_ptr<guards::GuardProgram> same_modules;
  // Of a capture made ahead of calls (runtime/ahead.h): what takes the guards' place where they are dropped. Otherwise
  // null.
  std::unique_ptr<guards::GuardProgram> unguarded;
  breaks::Plan plan;
  std::vector<const sources::Source*> inputs;      // of the graph, in order
  std::unique_ptr<tensor::StoragePattern> memory;  // null: the graph writes to no input
  Ref<> compiled;                                  // callable; null: no graph
  size_t outputs = 0;                              // of the graph: what `compiled` has to return
  size_t ops = 0;
  long long counted = 0;  // instructions of counted code that it stands for
  // the graph writes in place or draws random numbers: it must not run twice
  bool has_effects = false;
  // With it: what was dynamic at the capture, so that a trace up to a failed call is the same trace (run_entry.cpp).
  // Otherwise null.
  std::unique_ptr<known::DynamicHistory> history;
  tensor::Drawn drawn;  // torch's generators that the graph draws from
  // They can be set back if the graph fails: their states are remembered before each run.
  bool redraws = false;
  // Inputs that the graph writes to, by position: what tells whether a graph that failed has written yet
  // (`has_effects`).
  std::vector<size_t> written;
  bool unseen_effects = false;  // a call does something else than write to inputs
  // the backend's code writes to them without counting up their versions
  bool writes_unseen = false;
  // A call may raise for the data that it gets, in code that cannot be left in its middle: what is written to is copied
  // before, if it is small.
  bool saves_written = false;
  bool has_subclasses = false;  // among the graph's inputs, which it takes for plain tensors
  bool grad_enabled = false;    // at the entry; guarded
  // it ends in a return, and if its graph fails it can be run again: see runtime/direct_call.h
  bool needs_no_frame = false;
  const void* graph_id = nullptr;  // its address, for failures (graph/graph_runner.h)
  long graph_number = -1;          // of __compiled_fn_<number>; -1: the graph runs as captured
  std::string graph_text;
  // Where the work of the backend on each of its graphs is kept (runtime/disk_cache.h); empty for one that is kept
  // nowhere.
  std::vector<std::string> disk_keys;
  int traverse(visitproc visit, void* arg) const;
};

// What is known of the calls that took turns at a place (runtime/entry_guess.h). Entries by address, never followed.
struct EntryGuess {
  std::unordered_map<uint64_t, const Entry*> known;  // by what the arguments are: who served
  const Entry* last = nullptr;
  int in_a_row = 0;  // calls that it served
  bool take_turns = false;
  bool asked = false;  // of the call under way: `call` is what its arguments are
  uint64_t call = 0;
};

// How a graph takes floats that change: as the backend says, as tensors of one double, or not at all.
enum class Floats : uint8_t { kAsAsked, kTensors, kConstants };

// All entries of one place in a program.
struct Site {
  // most recently used first, unless they take turns; shared with those that run
  std::vector<std::shared_ptr<Entry>> entries;
  EntryGuess guess;
  bool step_only = false;  // nothing can be captured from here: execute the instruction
  // A capture went on for long without a tensor: the same, until a local is one.
  bool quiet = false;
  bool over_limit = false, at_limit = false;  // the user was told of it
  int too_deep = 0;  // captures that had no stack left for what the program has nested
  Floats floats = Floats::kAsAsked;
  std::string why;  // step_only: the place and reason, for stator.explain
  int64_t captures = 0;
  known::DynamicHistory history;
};

struct CodeEntries {
  Ref<> code;
  // the compiled code under which they were captured first (see Cache::addRoot)
  const void* root = nullptr;
  std::unordered_map<int, Site> sites;  // by offset
  int64_t live = 0;                     // entries of all sites
  int quiet_sites = 0;
  std::shared_ptr<Learned> learned;  // null: nobody has asked yet (runtime/learned.h)
};

// What a look-up is for, beside serving the frame (runtime/ahead.h).
enum class Ahead : uint8_t {
  kNo,
  kAsk,     // whether an entry serves
  kCapture  // that one does
};

class Cache {
 public:
  explicit Cache(PyObject* settings);
  Site& site(PyCodeObject* code, int offset);
  CodeEntries& entriesOf(PyCodeObject* code);
  void reset();
  // The same for what was captured for one compiled code alone.
  void reset(const void* root);
  // A compiled object of that code comes or goes. With the last one go the entries that were captured under it: a cache
  // is shared by equal compile calls and may live for ever, while functions come and go.
  void addRoot(const void* code);
  void removeRoot(const void* code);
  int traverse(visitproc visit, void* arg) const;

  Ref<> settings;
  Ref<> backend;  // settings.backend
  bool fullgraph = false;
  bool asks_about_guards = false;  // settings.guard_filter_fn, guard_export_fn
  bool tells_of_failures = false;  // settings.guard_fail_fn
  int dynamic = -1;                // settings.dynamic: True, False; -1: None
  int64_t recompile_limit = -1;    // -1: config.recompile_limit
  bool closed = false;             // nothing more is captured
  Ahead ahead = Ahead::kNo;
  std::unordered_map<PyCodeObject*, std::unique_ptr<CodeEntries>> codes;
  std::unordered_map<const void*, int64_t> roots;
  // Counts whenever entries come or go: for those who remember a Site.
  uint64_t generation = 1;
  std::unordered_map<const void*, int64_t> divergences;  // of ranks, by root (runtime/ranks.h)

 private:
  template <class Wanted>
  void drop(Wanted&& wanted);
};

bool addCache(PyObject* module);
extern PyMethodDef cache_methods[];

}  // namespace stator::runtime
