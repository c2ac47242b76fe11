// What a capture is asked for, and what limits it.
#pragma once

#include "base/python.h"
#include "breaks/reasons.h"
#include "known/dynamic.h"

#include <cstdint>
#include <string>
#include <vector>

namespace stator::interpret {

using known::DynamicHistory;
using known::DynamicMode;

struct Limits {
  uint64_t instructions = 2'000'000;
  uint64_t nodes = 200'000;
  double seconds = 120;
  // Instructions without a new node: before the first node, and behind it.
  uint64_t quiet = 2'000'000;
  uint64_t quiet_with_nodes = 2'000'000;
};

struct TraceOptions {
  Limits limits;
  bool fullgraph = false;
  // a caller's FakeTensorMode (borrowed), which the call is made under
  PyObject* fake_mode = nullptr;
  DynamicMode dynamic = DynamicMode::kStatic;
  DynamicHistory* history = nullptr;  // of the place; null: none is kept
  bool repeats = false;               // the trace that made the history, once more
  bool specialize_modules = false;
  bool own_parameters = false;  // parameters and buffers become attributes of the graph
  // the backend runs the graph operation by operation, so that leaves of autograd may be made in it
  bool runs_as_captured = false;
  bool breaks_at_unsteady = false;  // see core/unsteady.h
  bool symbolic_floats = false;     // a float that changed is an input of the graph
  bool floats_are_tensors = false;  // which takes it as a tensor of one double, and reads it
  // recurrent layers on a CPU stay outside: the backend would write out each of their steps
  bool leaves_recurrences = false;
  bool capture_scalar_outputs = false;  // item() is a node of the graph
  // a symbol with more conditions than this becomes a number; 0: no limit
  int64_t symbol_guard_limit = 0;
  bool skip_fsdp_guards = true;
  bool skip_hook_guards = false;  // modules without hooks are taken to stay so
  bool specialize_int = false;    // ints from outside are constants, also those that change
  // operators without torch's tag for what compilers may rely on stay outside
  bool only_compliant_operators = false;
  bool trace_numpy = true;           // NumPy's functions and arrays in graphs
  bool fixed_parameters = true;      // sizes of parameters are constants
  bool changed_is_unbacked = false;  // of a size that changed nothing is decided, 0 and 1 included
  int logs = 0;                      // what the trace tells on its way (frames/trace_log.h)
  // Forced breaks: before every n-th legal instruction (0: none), or with probability 1/n by a seeded generator.
  uint64_t break_every = 0;
  uint64_t random_seed = 0;
  bool random = false;
  // Break before the instruction with this count (0: none): how a capture that met something it cannot undo starts
  // over.
  uint64_t break_at = 0;
  breaks::Reason break_at_reason = breaks::Reason::kNone;
  std::string break_at_detail;
  // operations on wrapper subclasses, as an earlier trace has seen
  bool wrappers_read_data = false;
  // Numbers in tensors from outside are read where the entry begins; not where the captured part writes to one.
  bool reads_numbers = true;
  // Texts of tensors that earlier traces have seen read, by the instructions that make them.
  std::vector<uint64_t> read_texts;
};

}  // namespace stator::interpret
