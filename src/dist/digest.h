// A 64-bit hash of text, the same in every process, build and machine: ranks compare digests in place of graphs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stator::dist {

class Digest {
 public:
  Digest& add(std::string_view text);  // also its length, so that parts do not run into each other
  Digest& add(int64_t number);
  uint64_t value() const;

 private:
  void word(uint64_t word);
  uint64_t state_ = 0x8422d2cd9d1f3a57u;
};

uint64_t digestOf(std::string_view text);
// 16 hexadecimal digits
std::string hex(uint64_t digest);

}  // namespace stator::dist
