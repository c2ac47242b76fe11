// Normalisation layers.
#include "shapes/rules/pointwise.h"

namespace stator::shapes {

namespace {

bool isFloatTensor(const Arg& arg) {
  return arg.isTensor() && isFloating(arg.tensor->dtype) && isOrdinary(arg.tensor->dtype);
}

bool fits(const Arg& arg, const Dims& sizes, DType dtype) {
  return !arg.given() ||
         (arg.isTensor() && arg.tensor->sizes == sizes && arg.tensor->dtype == dtype);
}

bool isNumberOrAbsent(const Arg& arg) {
  return !arg.given() || arg.is(Arg::Kind::kFloat) || arg.is(Arg::Kind::kInt);
}

bool endsWith(const Dims& sizes, const Dims& tail) {
  return !tail.empty() && sizes.size() >= tail.size() &&
         std::equal(tail.begin(), tail.end(), sizes.end() - static_cast<ptrdiff_t>(tail.size()));
}

// layer_norm(input, normalized_shape, weight, bias, eps)
bool layerNorm(Call& call) {
  Dims shape;
  if (!isFloatTensor(call[0]) || !call.ints(1, shape) || !isNumberOrAbsent(call[4])) return false;
  const TensorMeta& input = *call[0].tensor;
  if (!endsWith(input.sizes, shape)) return false;
  if (!fits(call[2], shape, input.dtype) || !fits(call[3], shape, input.dtype)) return false;
  // Odd strides of dims of size one survive in some of torch's ways to compute this and not in others.
  if (isContiguous(input.sizes, input.strides) && !hasPlainStrides(input)) return false;
  call.fresh(input.dtype, input.sizes);
  return true;
}

// rms_norm(input, normalized_shape, weight, eps)
bool rmsNorm(Call& call) {
  Dims shape;
  if (!isFloatTensor(call[0]) || !call.ints(1, shape) || !isNumberOrAbsent(call[3])) return false;
  const TensorMeta& input = *call[0].tensor;
  if (!endsWith(input.sizes, shape) || !fits(call[2], shape, input.dtype)) return false;
  if (!hasPlainStrides(input)) return false;
  call.fresh(input.dtype, input.sizes);
  return true;
}

// batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
bool batchNorm(Call& call) {
  if (!isFloatTensor(call[0])) return false;
  const TensorMeta& input = *call[0].tensor;
  bool training = false;
  if (!call.flagOr(5, false, training) || !isNumberOrAbsent(call[6]) || !isNumberOrAbsent(call[7]))
    return false;
  if (input.sizes.size() < 2 || isZero(input.numel())) return false;
  const Dims channels = {input.sizes[1]};
  for (size_t i : {1, 2, 3, 4}) {
    if (!fits(call[i], channels, input.dtype)) return false;
  }
  if (call[1].given() != call[2].given() || (!training && !call[1].given())) return false;
  if (call[7].is(Arg::Kind::kInt) ? call[7].i <= 0
                                  : call[7].is(Arg::Kind::kFloat) && !(call[7].f > 0))
    return false;
  if (training && isOne(product(input.sizes) / input.sizes[1])) return false;
  const MemoryFormat format = suggestedFormat(input);
  if (!isContiguousIn(input, format)) return false;
  const bool plain = format == MemoryFormat::Contiguous;
  call.fresh(input.dtype, input.sizes, plain ? input.strides : stridesOf(input.sizes, format));
  for (size_t i : {1, 2}) {
    if (training && call[i].given()) call.writes(call[i]);
  }
  return true;
}

// group_norm(input, num_groups, weight, bias, eps)
bool groupNorm(Call& call) {
  int64_t groups = 0;
  if (!isFloatTensor(call[0]) || !call.integer(1, groups) || groups <= 0 ||
      !isNumberOrAbsent(call[4]))
    return false;
  const TensorMeta& input = *call[0].tensor;
  if (input.sizes.size() < 2 || isZero(input.numel()) || !isZero(input.sizes[1] % groups))
    return false;
  const Dims channels = {input.sizes[1]};
  if (!fits(call[2], channels, input.dtype) || !fits(call[3], channels, input.dtype)) return false;
  // Other layouts are copied before.
  if (suggestedFormat(input) != c10::MemoryFormat::Contiguous) return false;
  if (isOne(product(input.sizes) / (input.sizes[0] * groups))) return false;
  call.fresh(input.dtype, input.sizes);
  return true;
}

// instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps) without statistics that
// are kept
bool instanceNorm(Call& call) {
  bool of_input = true;
  if (!isFloatTensor(call[0]) || call[1].given() || call[2].given()) return false;
  if (!call.flagOr(5, true, of_input) || !of_input) return false;
  const TensorMeta& input = *call[0].tensor;
  if (input.sizes.size() < 3 || isZero(input.numel()) || !hasPlainStrides(input)) return false;
  const Dims channels = {input.sizes[1]};
  if (!fits(call[3], channels, input.dtype) || !fits(call[4], channels, input.dtype)) return false;
  if (!isNumberOrAbsent(call[6]) || !isNumberOrAbsent(call[7])) return false;
  if (isOne(product(input.sizes, 2, input.sizes.size()))) return false;
  call.fresh(input.dtype, input.sizes);
  return true;
}

constexpr OpRow kRows[] = {
    {"F.layer_norm", "input, normalized_shape, weight, bias, eps", layerNorm},
    {"torch.layer_norm", "input, normalized_shape, weight, bias, eps, cudnn_enable", layerNorm},
    {"F|torch.rms_norm", "input, normalized_shape, weight, eps", rmsNorm},
    {"F.batch_norm", "input, running_mean, running_var, weight, bias, training, momentum, eps",
     batchNorm},
    {"F.instance_norm",
     "input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps",
     instanceNorm},
    {"F.group_norm", "input, num_groups, weight, bias, eps", groupNorm},
};

}  // namespace

std::span<const OpRow> normRows() { return kRows; }

}  // namespace stator::shapes
