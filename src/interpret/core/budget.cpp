#include "interpret/core/budget.h"

#include "base/check.h"
#include "base/ref.h"

#include <algorithm>

namespace stator::interpret {

Budget::Budget(const TraceOptions& options)
    : limits_(options.limits),
      break_every_(options.break_every),
      break_at_(options.break_at),
      random_(options.random),
      random_state_(options.random_seed * 0x9E3779B97F4A7C15ull + 0x1234567ull),
      started_(std::chrono::steady_clock::now()) {}

bool Budget::nextBreakForced() {
  legal_++;
  if (!random_) return legal_ % break_every_ == 0;
  random_state_ = random_state_ * 6364136223846793005ull + 1442695040888963407ull;
  return (random_state_ >> 33) % break_every_ == 0;
}

bool Budget::over(size_t nodes) {
  if (count_ > limits_.instructions || nodes > limits_.nodes) return true;
  if (next_check_ != 0 && nodes == nodes_at_check_) return true;
  nodes_at_check_ = nodes;
  const uint64_t quiet = nodes == 0 ? limits_.quiet : limits_.quiet_with_nodes;
  next_check_ = std::min(limits_.instructions, count_ + quiet);
  return false;
}

void Budget::lookNow() {
  if (PyErr_CheckSignals() != 0) throw PythonError();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - started_;
  if (spent.count() > limits_.seconds) limits_.instructions = next_check_ = count_;
}

}  // namespace stator::interpret
