#include "interpret/core/wrappers.h"

namespace stator::interpret {

std::unordered_set<uint32_t> Wrappers::tied(uint32_t storage) const {
  std::unordered_set<uint32_t> tied = {storage};
  for (size_t before = 0; before != tied.size();) {
    before = tied.size();
    for (const auto& [one, other] : ties_) {
      if (tied.count(one) + tied.count(other) == 1) tied.insert({one, other});
    }
  }
  return tied;
}

}  // namespace stator::interpret
