// Break reasons as data: stable numbers, a sentence for the user and a hint; the docs page is generated from
// reasons.def.
#pragma once

#include <cstdint>

namespace stator::breaks {

enum class Reason : uint16_t {
  kNone = 0,
#define REASON(name, number, sentence, hint) name = number,
#include "breaks/reasons.def"
#undef REASON
};

const char* reasonName(Reason reason);
const char* reasonSentence(Reason reason);
const char* reasonHint(Reason reason);

}  // namespace stator::breaks
