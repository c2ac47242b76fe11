// What the capture side reads of stator.config, as plain values; pushed by the Python side whenever an entry changes.
#pragma once

#include "base/python.h"

#include <cstdint>

namespace stator::runtime {

// What compiled code does from now on (stator.set_stance).
enum class Stance : uint8_t {
  kDefault,
  kForceEager,
  kEagerOnRecompile,
  kFailOnRecompile,
  kEagerThenCompile
};

struct ConfigValues {
  Stance stance = Stance::kDefault;
  int64_t recompile_limit = 8;
  int64_t accumulated_recompile_limit = 256;
  bool strict = false;
  bool suppress_errors = false;
  bool replay_record_enabled = false;
  bool automatic_dynamic_shapes = true;
  bool assume_static_by_default = true;
  bool verbose = false;
  int64_t trace_limit_instructions = 5'000'000;
  int64_t trace_limit_nodes = 100'000;
  double trace_limit_seconds = 60;
  bool specialize_modules = false;
  bool skip_fsdp_guards = true;
  bool skip_nnmodule_hook_guards = false;
  bool specialize_int = false;
  bool force_parameter_static_shapes = true;
  bool changed_is_unbacked = false;  // automatic_dynamic_shapes_mark_as
  bool trace_numpy = true;
  bool only_compliant_operators = false;
  bool allow_rnn = false;
  bool guard_nn_modules = true;
  uint64_t break_every = 0;
  bool break_random = false;
  uint64_t break_seed = 0;
  bool fail_on_recompile_limit_hit = false;
  bool error_on_recompile = false;
  bool specialize_float = false;
  bool capture_scalar_outputs = false;
  bool enable_compiler_collectives = false;
  bool eager_on_divergence = false;  // on_divergence = "eager"
  bool guard_collectives = false;    // set_enable_guard_collectives
  bool log_captures = false;
  bool trace_dir = false;  // one is set
  bool cache = true;       // what backends make is kept on the disk
};

ConfigValues& configValues();
// config.<name> = value; names that C++ does not know are ignored. False with a Python error set.
bool setConfig(const char* name, PyObject* value);

struct Statistics {
  int64_t captures = 0;
  int64_t restarts = 0;
  int64_t graphs = 0;
  int64_t ops = 0;     // nodes of captured graphs that are calls
  int64_t breaks = 0;  // captures that ended in a break
  int64_t entries = 0;
  int64_t hits = 0;
  int64_t direct_calls = 0;  // of these: without a frame
  int64_t misses = 0;
  int64_t graph_calls = 0;
  int64_t backend_compilations = 0;  // graphs that went to a backend: whole ones and regions
  int64_t regions = 0;               // distinct ones
  int64_t region_calls = 0;          // of the plans that call them: each use of a region once
  int64_t ops_run = 0;               // tensor calls run inside graphs
  int64_t internal_errors = 0;
  int64_t fallbacks = 0;    // calls over the recompile limit
  int64_t disk_hits = 0;    // graphs that an earlier process's backend had compiled
  int64_t disk_misses = 0;  // graphs that could have been there
  double capture_seconds = 0;
  double backend_seconds = 0;
};
Statistics& statistics();

}  // namespace stator::runtime
