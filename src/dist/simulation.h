// Many ranks in one process: each runs the real state machine, and what torch.distributed does on a machine room is
// done by counting.
#pragma once

#include "dist/agreement.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace stator::dist {

struct Traffic {
  int64_t reductions = 0, merges = 0;  // for all ranks together
  // point to point, of all ranks, by recursive doubling and along a tree
  int64_t messages = 0;
  int64_t bytes = 0;  // in these messages
  // messages that follow one another: what the time grows with
  int64_t longest_path = 0;
  int64_t most_memory = 0;  // bytes that one rank holds for one decision
  double seconds = 0;       // of computing, for all ranks together
  double slowest_rank = 0;  // of computing, for one rank
};

// `seen` gives what a rank sees, given what has been made dynamic so far. Ends with the decision, which is the same on
// all ranks (checked), and how many captures it took.
struct Simulated {
  Decision decision;
  int64_t captures = 0;
  Traffic traffic;
};
Simulated simulate(
    int64_t ranks,
    const std::function<Record(int64_t rank, const std::vector<Change>& dynamic)>& seen);

// The records of the rehearsed cases: "equal", "sizes" (each rank its own batch size), "stray" (one rank breaks
// elsewhere), "branches" (sizes differ, and each rank reads other values besides).
Simulated rehearse(const std::string& name, int64_t ranks, int64_t inputs);

}  // namespace stator::dist
