// One more word into a hash.
#pragma once

#include <cstdint>

namespace stator {

inline uint64_t mix(uint64_t seed, uint64_t value) {
  const uint64_t mixed = (seed ^ value) * 0x9E37'79B9'7F4A'7C15;
  return mixed ^ (mixed >> 29);
}

}  // namespace stator
