#include "breaks/reasons.h"

namespace stator::breaks {

const char* reasonName(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return "";
#define REASON(name, number, sentence, hint) \
  case Reason::name:                         \
    return #name;
#include "breaks/reasons.def"
#undef REASON
  }
  return "";
}

const char* reasonSentence(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return "";
#define REASON(name, number, sentence, hint) \
  case Reason::name:                         \
    return sentence;
#include "breaks/reasons.def"
#undef REASON
  }
  return "";
}

const char* reasonHint(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return "";
#define REASON(name, number, sentence, hint) \
  case Reason::name:                         \
    return hint;
#include "breaks/reasons.def"
#undef REASON
  }
  return "";
}

}  // namespace stator::breaks
