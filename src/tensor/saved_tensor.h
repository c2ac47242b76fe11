// A tensor as it was before a graph wrote to it, to be put back where that graph has failed and its part is run again.
#pragma once

#include "base/python.h"

#include <cstdint>
#include <memory>

namespace stator::tensor {

class SavedTensor {
 public:
  // Nothing: it is too large for that, or of a kind that cannot be copied.
  static SavedTensor of(PyObject* tensor, int64_t most_bytes);
  ~SavedTensor();
  SavedTensor(SavedTensor&&) noexcept;
  SavedTensor& operator=(SavedTensor&&) noexcept;
  explicit operator bool() const { return held_ != nullptr; }
  // Its data, its version, and where it stands in the autograd graph.
  void putBack() const;

 private:
  struct Held;
  explicit SavedTensor(std::unique_ptr<Held> held);
  std::unique_ptr<Held> held_;
};

}  // namespace stator::tensor
