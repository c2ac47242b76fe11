// A caller's FakeTensorMode: the program is tried with tensors that have no data. Also where their sizes are SymInts.
#pragma once

#include "base/python.h"
#include "base/ref.h"

#include <memory>
#include <vector>

namespace stator::tensor {

// The mode (borrowed), where it is the only one that sees the thread's calls; null: there is none, or there are others.
PyObject* callersFakeMode();

bool isFakeTensorType(PyTypeObject* type);  // FakeTensor itself

// No dispatch mode sees what is asked of torch meanwhile.
class DispatchModesPause {
 public:
  DispatchModesPause();
  ~DispatchModesPause();
  DispatchModesPause(const DispatchModesPause&) = delete;
  DispatchModesPause& operator=(const DispatchModesPause&) = delete;

 private:
  struct State;
  std::unique_ptr<State> before_;
};

bool hasSymbolicSizes(PyObject* tensor);
// Of such a tensor: what its sizes are for now, and which of them are SymInts. Throws PythonError where one has no
// value.
struct SizesForNow {
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0, storage_bytes = 0;
  std::vector<bool> symbolic;  // for each dim
};
SizesForNow sizesForNow(PyObject* tensor);
PyObject* numberForNow(PyObject* tensor, int64_t dim);  // as sizeOf of tensor_guard.h

}  // namespace stator::tensor
