// What a guard knows of a tensor: read straight from TensorImpl, compared field by field. The header needs no torch
// headers.
#pragma once

#include "base/python.h"
#include "base/ref.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace stator::tensor {

bool isTensor(PyObject* object);       // torch.Tensor or a subclass
bool isExactTensor(PyObject* object);  // torch.Tensor or nn.Parameter itself

struct TensorGuard {
  Ref<PyTypeObject> type;  // exact Python type
  int dtype = 0;           // c10::ScalarType
  int device_type = 0;
  int device_index = -1;
  bool requires_grad = false;
  bool any_grad = false;         // whether it requires grad does not matter
  uint64_t dispatch_keys = 0;    // raw key set, thread's autograd/ADInplaceOrView bits apart
  std::vector<int64_t> sizes;    // -1: dynamic
  std::vector<int64_t> strides;  // -1: dynamic; -2 - n: size times stride of dim n
  bool has_strides = true;       // false for layouts without strides
  bool is_view_of_inference = false;
  // the _dynamo_*_indices marks: for each ten bits, presence and which dims
  uint64_t dynamo_attributes = 0;

  static std::shared_ptr<TensorGuard> of(PyObject* tensor);
  bool check(PyObject* object) const;
  // "dtype: was float32, is float64"; empty if it matches
  std::string explain(PyObject* object) const;
  std::string text() const;
};

// The same facts laid out for the check: one block, no indirection. Equal guards share one (a model has few kinds of
// parameters).
struct TensorFacts;
class TensorFactsSet {
 public:
  TensorFactsSet();
  ~TensorFactsSet();
  const TensorFacts* add(const TensorGuard& guard);

 private:
  struct Storage;
  std::unique_ptr<Storage> storage_;
};
bool checkFacts(const TensorFacts& facts, PyObject* object);
struct TensorPair {
  PyObject* object;
  const TensorFacts* facts;
};
// All of them; `fetch`: ahead, so that the waits for cold memory overlap.
bool checkAllFacts(const TensorPair* pairs, size_t count, bool fetch = true);
// Where the parts of a tensor lie, for whoever fetches them: never followed.
constexpr size_t kImplBytes = 176;  // of a TensorImpl, from its start: what checks read
struct TensorPlace {
  const void* impl;
  const void* autograd;
  // `facts`: what is going to be read.
  static TensorPlace of(PyObject* tensor, const TensorFacts& facts);
};

// Parts of a tensor, past any __torch_function__. New references; null without an error when there is no such part.
PyObject* gradOf(PyObject* tensor);  // None when it has none
// of one double, on the CPU; null with an error set
PyObject* ofFloat(double number);
// An element as a Python number, counted as the tensor's indices run. Null without an error: the tensor is not on the
// CPU, or it is of a kind that only operations can read.
PyObject* numberOf(PyObject* tensor, int64_t index);
PyObject* sizeOf(PyObject* tensor, int64_t dim);  // an int; dim -1: the storage offset
bool isDevice(PyObject* object);
bool sameDevice(PyObject* left, PyObject* right);  // both torch.device

// Something stands between the program and torch that has to see each call: a dispatch mode, or hooks on what autograd
// saves.
bool jitTraces();  // torch.jit.trace is under way
bool callsAreWatched();
bool transformsActive();  // of torch.func: a caller's vmap, grad, jvp ...

// Global state that captured code depends on: one snapshot, one compare.
struct GlobalState {
  uint64_t words[8] = {};
  // Active torch function modes, then dispatch modes, as a tuple of their types; a `torch.device` context (or
  // set_default_device) comes as (type, device). Null when there are none.
  Ref<> modes;
  static GlobalState now();
  bool equals(const GlobalState& other) const;
  // The condition that the transforms under way are these; empty if there are none.
  std::string transforms() const;
  // The first difference in the user's terms: `torch.is_grad_enabled(): was True, is False`; empty if there is none.
  std::string difference(const GlobalState& now) const;
};

}  // namespace stator::tensor
