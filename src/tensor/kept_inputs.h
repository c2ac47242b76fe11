// The inputs of a graph as they were when it ran, for a backward that computes the graph once more.
#pragma once

#include "base/python.h"
#include "base/ref.h"

#include <memory>

namespace stator::tensor {

// Keeps no memory that autograd does not keep: of a tensor that is no leaf with gradients it has where it comes from,
// and the memory only as long as somebody else holds it.
class KeptInputs {
 public:
  KeptInputs(PyObject* const* inputs, size_t count);
  ~KeptInputs();
  KeptInputs(const KeptInputs&) = delete;
  KeptInputs& operator=(const KeptInputs&) = delete;
  // As a list, or None: the memory of one is gone. Null with an error set if one was written to since.
  Ref<> list() const;

 private:
  struct Kept;
  std::unique_ptr<Kept[]> kept_;
  size_t count_;
};

}  // namespace stator::tensor
