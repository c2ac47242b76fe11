// SHA-256, for keys of artifacts and checksums of files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace stator::disk {

using Sum = std::array<uint8_t, 32>;

class Digest {
 public:
  void add(std::string_view bytes);
  Sum finish();

 private:
  void block(const uint8_t* bytes);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint64_t length_ = 0;
  std::array<uint8_t, 64> pending_ = {};
  size_t pending_size_ = 0;
};

Sum sumOf(std::string_view bytes);
std::string hex(const Sum& sum);

}  // namespace stator::disk
