#include "dist/digest.h"

namespace stator::dist {

namespace {

// The finaliser of SplitMix64: every bit of the input reaches every bit of the result.
uint64_t mixed(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

}  // namespace

void Digest::word(uint64_t word) {
  state_ = mixed(state_ + 0x9e3779b97f4a7c15u + word) ^ (state_ << 1 | state_ >> 63);
}

Digest& Digest::add(std::string_view text) {
  word(text.size());
  for (size_t at = 0; at < text.size(); at += 8) {
    uint64_t packed = 0;
    // byte by byte: the same on machines of either byte order
    for (size_t i = 0; i < 8 && at + i < text.size(); ++i)
      packed |= static_cast<uint64_t>(static_cast<unsigned char>(text[at + i])) << (8 * i);
    word(packed);
  }
  return *this;
}

Digest& Digest::add(int64_t number) {
  word(static_cast<uint64_t>(number));
  return *this;
}

uint64_t Digest::value() const { return mixed(state_); }

uint64_t digestOf(std::string_view text) { return Digest().add(text).value(); }

std::string hex(uint64_t digest) {
  std::string text(16, '0');
  for (int i = 15; i >= 0; --i, digest >>= 4)
    text[static_cast<size_t>(i)] = "0123456789abcdef"[digest & 15];
  return text;
}

}  // namespace stator::dist
