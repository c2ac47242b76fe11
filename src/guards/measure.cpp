// How long guards take, for those who ask (stator.guards).
#include "guards/explain.h"
#include "guards/guard.h"
#include "guards/program.h"

#include <algorithm>
#include <chrono>

namespace stator::guards {

namespace {

constexpr double kFails = -1;

// Nanoseconds of one check: the best of a few rounds, since everything else only adds to it.
double nanosecondsOf(GuardProgram& program, const sources::Roots& roots) {
  constexpr int kRounds = 5;
  constexpr int kChecks = 200;
  using Clock = std::chrono::steady_clock;
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = Clock::now();
    for (int i = 0; i < kChecks; ++i) program.check(roots);
    const double spent =
        std::chrono::duration<double, std::nano>(Clock::now() - start).count() / kChecks;
    best = round == 0 ? spent : std::min(best, spent);
  }
  return best;
}

}  // namespace

// Where a call's guards do not hold, those that fail have their explanation for a text, and no time.
GuardProgram::Costs GuardProgram::measure(const sources::SourceSet& sources,
                                          const sources::Roots& roots) {
  Costs costs;
  GuardSet none;
  GuardProgram empty(sources, none);
  const double frame = nanosecondsOf(empty, roots);
  for (const Guard& guard : impl_->guards) {
    GuardSet alone;
    alone.add(guard);
    GuardProgram program(sources, alone);
    if (!program.check(roots)) {
      costs.each.push_back({program.explain(roots), kFails});
      continue;
    }
    costs.each.push_back(
        {describe(guard, roots.code), std::max(0.0, nanosecondsOf(program, roots) - frame)});
  }
  costs.together = nanosecondsOf(*this, roots);
  return costs;
}

}  // namespace stator::guards
