// The states of torch's generators, to be put back where a graph that has drawn is run again.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace stator::tensor {

// Whose generators a graph draws from.
struct Drawn {
  bool cpu = false;
  std::vector<int16_t> cuda;  // indices
  bool any() const { return cpu || !cuda.empty(); }
};

class RandomStates {
 public:
  explicit RandomStates(const Drawn& drawn);  // nothing is read where nothing is drawn
  ~RandomStates();
  RandomStates(const RandomStates&) = delete;
  RandomStates& operator=(const RandomStates&) = delete;
  RandomStates(RandomStates&&) noexcept;
  RandomStates& operator=(RandomStates&&) noexcept;
  void putBack();  // leaves a Python error that is set as it is

 private:
  struct Held;
  std::unique_ptr<Held> held_;
};

}  // namespace stator::tensor
