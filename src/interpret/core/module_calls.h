// Calls of modules in this trace.
#pragma once

#include "base/python.h"

#include <cstdint>
#include <unordered_map>
#include <utility>

namespace stator::interpret {

class ModuleCalls {
 public:
  int next(PyObject* module) { return counts_[module]++; }  // how often it was called before
  // True once: hooks that are registered for all modules are to be guarded.
  bool firstGlobalHooks() { return !std::exchange(global_hooks_guarded_, true); }
  // The instruction at which the call that is being folded into one node began.
  uint64_t foldStarted() const { return fold_started_; }
  void startFold(uint64_t instruction) { fold_started_ = instruction; }

 private:
  std::unordered_map<PyObject*, int> counts_;
  bool global_hooks_guarded_ = false;
  uint64_t fold_started_ = 0;
};

}  // namespace stator::interpret
