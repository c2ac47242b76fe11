// Which inputs of a graph share memory. A graph that writes to an input was captured, and compiled by the backend, for
// one such pattern: when inputs come to overlap that did not, or no longer do, or lie elsewhere in the memory they
// share, what it computes is wrong.
#pragma once

#include "base/python.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace stator::tensor {

class StoragePattern {
 public:
  // `written`: for each input, whether the graph may write to it. Null if it writes to none.
  static std::unique_ptr<StoragePattern> of(const std::vector<PyObject*>& inputs,
                                            const std::vector<bool>& written);
  bool holds(const std::vector<PyObject*>& inputs);
  // the first difference; empty: it holds
  std::string explain(const std::vector<PyObject*>& inputs) const;

 private:
  struct Place {
    int leader = -1;       // the first input with the same storage; -1: none has
    bool written = false;  // by way of this input or another one with the same storage
    int64_t offset = -1;   // -1: it is alone, so its offset does not matter
  };
  // The two inputs whose relation is another one; false: none.
  bool differs(const std::vector<PyObject*>& inputs, int& one, int& other) const;

  std::vector<Place> places_;
  std::vector<uintptr_t> last_;  // storages at the last call that passed
};

}  // namespace stator::tensor
