// Stands in for the captured side in a build that has none: nothing is captured, every instruction is executed concretely, or with
// STATOR_CONCRETE=0 every frame is left to CPython. Weak: the real runCaptured takes its place at link time.
#include "runtime/driver.h"

#include <cstdlib>
#include <cstring>

namespace stator::runtime {

__attribute__((weak)) Exit runCaptured(Cache& /*cache*/, StatorFrame* /*frame*/) {
  static const char* setting = std::getenv("STATOR_CONCRETE");
  Exit exit;
  exit.outcome = setting && !std::strcmp(setting, "0") ? Outcome::kNative : Outcome::kStep;
  return exit;
}

}  // namespace stator::runtime
