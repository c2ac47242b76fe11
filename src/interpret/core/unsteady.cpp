#include "interpret/core/unsteady.h"

namespace stator::interpret {

void refuseUnsteady(const known::DynamicHistory& history, const guards::Guard& fact) {
  using guards::GuardKind;
  switch (fact.kind) {
    case GuardKind::kEquals:
    case GuardKind::kLength:
    case GuardKind::kDictKeys:
    case GuardKind::kIs:
    case GuardKind::kIsWeak:
    case GuardKind::kPresent:
    case GuardKind::kAbsent:
      break;
    default:
      return;
  }
  if (fact.source == nullptr) return;
  const known::DynamicHistory::Seen* seen = history.find(known::sourceKey(*fact.source));
  if (seen != nullptr && seen->unsteady) throw Unsteady();
}

}  // namespace stator::interpret
