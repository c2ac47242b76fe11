// Arguments of a call as the rules see them: small tagged values read once from the Python objects. They borrow
// everything and live in the workspace of one call of infer.
#pragma once

#include "base/python.h"
#include "shapes/infer.h"

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <torch/headeronly/core/MemoryFormat.h>
#include <vector>

namespace stator::shapes {

struct Arg {
  enum class Kind : uint8_t {
    kAbsent,  // not passed
    kNone,
    kBool,
    kInt,
    kSymInt,  // i: the bits of a Dim
    kFloat,
    kSymFloat,  // one whose value nobody knows
    kComplex,
    kStr,
    kDtype,
    kDevice,
    kLayout,
    kMemoryFormat,
    kTensor,
    kTuple,  // also torch.Size
    kList,
    kSlice,  // three items
    kEllipsis,
    kOther,
  };
  Kind kind = Kind::kAbsent;
  DeviceType device = DeviceType::CPU;  // kDevice
  int16_t device_index = -1;            // kDevice
  uint32_t count = 0;                   // of items
  union {
    // kInt, kBool; number of the tensor argument for kTensor; number of the enum for kDtype ... kMemoryFormat
    int64_t i = 0;
    double f;          // kFloat
    const Arg* items;  // kTuple, kList, kSlice
  };
  const TensorMeta* tensor = nullptr;  // kTensor
  PyObject* object = nullptr;          // always set for what was passed

  bool is(Kind other) const { return kind == other; }
  bool given() const { return kind != Kind::kAbsent && kind != Kind::kNone; }
  bool isTensor() const { return kind == Kind::kTensor; }
  bool isInt() const { return kind == Kind::kInt || kind == Kind::kSymInt; }
  Dim dim() const;  // of an int
  bool isNumber() const {
    return isInt() || kind == Kind::kFloat || kind == Kind::kSymFloat || kind == Kind::kBool ||
           kind == Kind::kComplex;
  }
  bool isSequence() const { return kind == Kind::kTuple || kind == Kind::kList; }
  std::span<const Arg> elements() const { return {items, count}; }
  DType dtype() const { return static_cast<DType>(i); }
  std::string_view text() const;  // kStr
};

// What one call of infer reads its arguments into.
class Workspace {
 public:
  explicit Workspace(const Request& request) : request_(request) {}
  // False: an argument may not be handed to anyone (an opaque stand-in, a container that contains itself).
  bool read();
  std::span<const Arg> positional() const { return {args_, request_.positional}; }
  std::span<const Arg> keywords() const { return {args_ + request_.positional, keyword_count_}; }
  PyObject* keywordName(size_t index) const { return PyTuple_GET_ITEM(request_.kwnames, index); }
  // In the order that Output numbers them by.
  std::span<const Arg* const> tensors() const {
    return {spilled_.empty() ? tensors_ : spilled_.data(), tensor_count_};
  }
  bool memoisable() const { return memoisable_; }
  bool symbolic() const { return symbolic_; }  // a size or int among them is an expression
  // Puts what autocast casts to its dtype in place of the tensors: those with a floating point, but for float64. False:
  // not known how they lie.
  bool lower(const State& state);
  Arg* allocate(size_t count);

 private:
  bool readOne(PyObject* object, Arg& arg, int depth);
  bool readItems(PyObject* const* items, size_t count, Arg& arg, int depth);
  void readTensor(PyObject* object, const TensorMeta* meta, Arg& arg);

  const Request& request_;
  Arg* args_ = nullptr;
  size_t keyword_count_ = 0;
  size_t used_ = 0;
  bool memoisable_ = true;
  bool symbolic_ = false;
  size_t tensor_count_ = 0;
  std::deque<TensorMeta> lowered_;
  std::vector<std::unique_ptr<Arg[]>> overflow_;
  std::vector<Arg*> spilled_;  // all of them, once there are more than fit below
  Arg* tensors_[16];
  static constexpr size_t kInline = 48;
  alignas(Arg) std::byte inline_[kInline * sizeof(Arg)];  // made into Args as they are taken
};

// torch's own small objects, resolved once.
struct TorchTypes {
  PyTypeObject* dtype = nullptr;
  PyTypeObject* device = nullptr;
  PyTypeObject* layout = nullptr;
  PyTypeObject* memory_format = nullptr;
  PyTypeObject* size = nullptr;
};
const TorchTypes& torchTypes();
bool initTorchTypes();
PyObject* dtypeObject(DType dtype);   // borrowed; null if torch has no such object
DType dtypeOf(PyObject* object);      // Undefined if it is none of torch's dtype objects
Ref<> sizeObject(const Dims& sizes);  // torch.Size, of ints and symbolic ints
using MemoryFormat = c10::MemoryFormat;

}  // namespace stator::shapes
