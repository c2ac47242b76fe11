#include "interpret/core/ending.h"

namespace stator::interpret {

void Ending::nameReason() {
  if (broke_.detail.empty()) broke_.detail = breaks::reasonSentence(broke_.reason);
}

void Ending::restartAtEarliest(uint64_t instruction, breaks::Reason reason, std::string detail) {
  if (instruction == 0 || (restarts() && restart_.at <= instruction)) return;
  restartAt(instruction, reason, std::move(detail));
}

}  // namespace stator::interpret
