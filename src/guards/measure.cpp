// How long guards take, for those who ask (stator.guards).
#include "guards/explain.h"
#include "guards/guard.h"
#include "guards/program.h"

#include <algorithm>
#include <chrono>

namespace stator::guards {

namespace {

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
    costs.each.push_back(
        {describe(guard, roots.code), std::max(0.0, nanosecondsOf(program, roots) - frame)});
  }
  costs.together = nanosecondsOf(*this, roots);
  return costs;
}

}  // namespace stator::guards
