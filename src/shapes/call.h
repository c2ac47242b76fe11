// One call bound to the parameters of a table row, and the ways in which a rule builds its answer. A rule is a pure
// function of a Call; it returns false where it is not sure, and the next tier answers (which also raises the op's own
// error for bad arguments).
#pragma once

#include "shapes/arg.h"
#include "shapes/dims.h"
#include "shapes/dtypes.h"

#include <concepts>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace stator::shapes {

enum class Mode : uint8_t {
  kPlain,
  kSwapped,  // reflected operator: the second operand comes first
  kInplace,  // the first argument receives the result and is returned
};

class Call;
using Rule = bool (*)(Call& call);

// One line of a rule table. `targets`: where the callables are found, separated by spaces, as "torch|Tensor.add"
// (several owners) or "Tensor.__and__|logical_and"; a leading '~' marks Mode::kSwapped, '!' Mode::kInplace.
// `signature`: Python's, with '|' between names of one parameter; "*size" takes the rest of the positional arguments,
// or one sequence in their place. Rows of one target are tried in order.
struct OpRow {
  const char* targets;
  const char* signature;
  Rule rule;
  uint32_t detail = 0;  // bits below, and above them what the rule's own file defines
};
// CPU tensors of rank 0 may meet tensors of another device (TensorIterator's rule)
constexpr uint32_t kScalarsAnywhere = 1;
constexpr uint32_t kMixedDevices = 2;  // the rule looks at devices itself
constexpr uint32_t kRandomOp = 4;
constexpr uint32_t kFirstFreeBit = 8;

struct Param {
  std::string_view name;
  std::string_view other_name;
  bool keyword_only = false;
  bool variadic = false;
};
using Signature = std::vector<Param>;
Signature parseSignature(const char* text);

struct Place {
  DeviceType type = DeviceType::CPU;
  int16_t index = -1;
  bool operator==(const Place&) const = default;
};
inline Place placeOf(const TensorMeta& meta) { return {meta.device, meta.device_index}; }

class Call {
 public:
  Call(Workspace& workspace, const State& torch_state, Inferred& result)
      : state(torch_state), out(result), workspace_(workspace) {}
  // False: the arguments do not fit the parameters, or the tensors are of a kind that no rule knows.
  bool bind(const Signature& signature, uint32_t detail, Mode mode, bool keywords_allowed);

  const State& state;
  Inferred& out;
  uint32_t detail() const { return detail_; }
  Mode mode() const { return mode_; }
  size_t paramCount() const { return param_count_; }
  const Arg& operator[](size_t param) const { return *slots_[param]; }
  std::span<const Arg* const> tensors() const { return workspace_.tensors(); }

  // Typed reads; false if the argument is of another kind. The `Or` forms take a default for what is absent or None.
  const TensorMeta* tensor(size_t param) const { return slots_[param]->tensor; }
  bool integer(size_t param, int64_t& value) const;
  bool integerOr(size_t param, int64_t fallback, int64_t& value) const;
  bool flagOr(size_t param, bool fallback, bool& value) const;
  bool dim(size_t param, size_t rank, int64_t& value) const;    // wrapped
  bool ints(size_t param, Dims& values) const;                  // a sequence of ints, or one int
  bool axes(size_t param, std::vector<int64_t>& values) const;  // the same, of numbers
  bool size(size_t param, Dim& value) const;
  bool dtypeOr(size_t param, DType fallback, DType& value) const;
  bool placeOr(size_t param, Place fallback, Place& value) const;  // torch.device or str
  bool formatOr(size_t param, MemoryFormat fallback, MemoryFormat& value) const;

  Place place() const { return place_; }  // the one device of the tensor arguments
  bool anyGrad() const { return any_grad_; }
  bool gradFor(DType dtype) const {
    return any_grad_ && state.grad_enabled && isDifferentiable(dtype);
  }
  void setMode(Mode mode) { mode_ = mode; }  // F.relu(x, inplace=True)

  // Answers. `fresh`: a new tensor on the call's device that requires grad if an argument does and its dtype can.
  TensorMeta& fresh(DType dtype, Dims sizes, Dims strides);
  TensorMeta& fresh(DType dtype, Dims sizes);  // contiguous
  TensorMeta& freshNoGrad(DType dtype, Dims sizes, Dims strides);
  TensorMeta& view(const Arg& base, Dims sizes, Dims strides, Dim offset);
  void same(const Arg& tensor);    // the argument itself, unchanged
  void writes(const Arg& tensor);  // changes the argument's data
  void constant(Ref<> value);
  void constant(bool value) { constant(newRef(value ? Py_True : Py_False)); }
  void constant(Dim value);
  template <std::integral T>
  void constant(T value) {
    constant(Dim(value));
  }
  // The first argument takes a result of this shape and dtype; false if eager would raise.
  bool inplace(const Arg& target, DType computed, const Dims& shape);
  // fresh, or inplace on param 0, as the mode says. Strides are for `fresh`.
  bool finish(DType computed, DType result, Dims sizes, Dims strides);
  void structure(Structure structure) { out.structure = structure; }
  void named(const char* type_name);  // torch.return_types.<name>

 private:
  bool acceptsTensors();

  Workspace& workspace_;
  uint32_t detail_ = 0;
  Mode mode_ = Mode::kPlain;
  Place place_;
  bool any_grad_ = false;
  uint8_t param_count_ = 0;
  static constexpr size_t kMaxParams = 26;
  const Arg* slots_[kMaxParams];
};

// Number of the first tensor argument that is the same object.
int firstOccurrence(std::span<const Arg* const> tensors, const Arg& tensor);

// The dtype that operands of an op promote to: tensors with dims first, then tensors of rank 0, then Python numbers.
class Promotion {
 public:
  explicit Promotion(const State& state) : state_(state) {}
  // tensor or number; false for anything else, and for dtypes that rules do not know
  bool add(const Arg& arg);
  DType result() const;

 private:
  const State& state_;
  DType with_dims_ = DType::Undefined;
  DType without_dims_ = DType::Undefined;
  DType numbers_ = DType::Undefined;
};

// Tables of the families; the registry concatenates them.
std::span<const OpRow> elementwiseRows();
std::span<const OpRow> viewRows();
std::span<const OpRow> pieceRows();
std::span<const OpRow> castRows();
std::span<const OpRow> reductionRows();
std::span<const OpRow> matmulRows();
std::span<const OpRow> einsumRows();
std::span<const OpRow> normRows();
std::span<const OpRow> functionalRows();
std::span<const OpRow> lossRows();
std::span<const OpRow> poolingRows();
std::span<const OpRow> indexingRows();
std::span<const OpRow> linearAlgebraRows();
std::span<const OpRow> factoryRows();
std::span<const OpRow> queryRows();
std::span<const OpRow> recurrentRows();

}  // namespace stator::shapes
