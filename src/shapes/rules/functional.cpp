// torch.nn.functional: activations, dropout, embedding, attention, losses, padding. Pooling has its own file.
#include "shapes/rules/pointwise.h"

namespace stator::shapes {

namespace {

bool isFloat(const Arg& arg) {
  return arg.isTensor() && isFloating(arg.tensor->dtype) && isOrdinary(arg.tensor->dtype);
}

bool isReal(const Arg& arg) {
  return !arg.given() || arg.is(Arg::Kind::kFloat) || arg.is(Arg::Kind::kInt);
}

// f(input, inplace), f(input, number, inplace), f(input, number, number, inplace): floating input, elementwise. The
// number of numbers is the row's detail; `inplace` stands behind them.
constexpr uint32_t kOneNumber = kFree;
constexpr uint32_t kTwoNumbers = kFree << 1;
constexpr uint32_t kIntegersToo = kFree << 2;

bool activation(Call& call) {
  size_t numbers = 0;
  if (call.detail() & kOneNumber) numbers = 1;
  if (call.detail() & kTwoNumbers) numbers = 2;
  if (!call[0].isTensor() || !isOrdinary(call[0].tensor->dtype) || isComplex(call[0].tensor->dtype))
    return false;
  if (call[0].tensor->dtype == DType::Bool) return false;
  if (isIntegral(call[0].tensor->dtype) && !(call.detail() & kIntegersToo)) return false;
  for (size_t i = 1; i <= numbers; ++i) {
    if (!isReal(call[i])) return false;
    if (isIntegral(call[0].tensor->dtype) && call[i].given() && !call[i].is(Arg::Kind::kInt))
      return false;
  }
  bool inplace = false;
  if (numbers + 1 < call.paramCount() && !call.flagOr(numbers + 1, false, inplace)) return false;
  if (inplace) call.setMode(Mode::kInplace);
  return unary(call);
}

// prelu(input, weight): one slope, or one for each channel
bool prelu(Call& call) {
  if (!isFloat(call[0]) || !isFloat(call[1]) || !hasPlainStrides(*call[0].tensor)) return false;
  const TensorMeta &input = *call[0].tensor, &weight = *call[1].tensor;
  if (input.dtype != weight.dtype || weight.sizes.size() != 1 || isZero(input.numel()))
    return false;
  const bool one = isOne(weight.sizes[0]);
  if (!one && (input.sizes.size() < 2 || !same(weight.sizes[0], input.sizes[1]))) return false;
  call.fresh(input.dtype, input.sizes);
  return true;
}

bool softshrink(Call& call) {
  const bool positive = call[1].is(Arg::Kind::kInt)     ? call[1].i >= 0
                        : call[1].is(Arg::Kind::kFloat) ? call[1].f >= 0
                                                        : true;
  return positive && activation(call);
}

bool gelu(Call& call) {
  if (!isFloat(call[0])) return false;
  if (call[1].given() &&
      !(call[1].is(Arg::Kind::kStr) && (call[1].text() == "tanh" || call[1].text() == "none")))
    return false;
  return unary(call);
}

bool glu(Call& call) {
  int64_t dim = -1;
  if (!isFloat(call[0]) || !call.integerOr(1, -1, dim)) return false;
  const TensorMeta& meta = *call[0].tensor;
  if (meta.sizes.empty() || !wrapDim(dim, meta.sizes.size()) || !isZero(meta.sizes[dim] % 2))
    return false;
  if (!hasPlainStrides(meta)) return false;
  if (isZero(meta.numel())) return false;
  Dims sizes = meta.sizes;
  sizes[dim] /= 2;
  // Both halves are views of the input, so the order of dims is theirs.
  Dims strides = orderedStrides(sizes, meta.strides);
  call.fresh(meta.dtype, std::move(sizes), std::move(strides));
  return true;
}

// dropout(input, p, training, inplace)
bool dropout(Call& call) {
  bool training = true;
  bool inplace = false;
  if (!call[0].isTensor() || !isReal(call[1])) return false;
  if (!call.flagOr(2, true, training) || !call.flagOr(3, false, inplace)) return false;
  const TensorMeta& meta = *call[0].tensor;
  double p = 0.5;
  if (call[1].given())
    p = call[1].is(Arg::Kind::kFloat) ? call[1].f : static_cast<double>(call[1].i);
  if (p < 0 || p > 1) return false;
  if (!training || p == 0 || isZero(meta.numel())) {
    if (inplace) return false;
    call.same(call[0]);
    return true;
  }
  call.out.random = true;
  if (!isFloat(call[0])) return false;
  if (inplace) return call.inplace(call[0], meta.dtype, meta.sizes);
  if (p == 1 || !isNonOverlappingDense(meta.sizes, meta.strides)) return false;
  call.fresh(meta.dtype, meta.sizes, meta.strides);
  return true;
}

// embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
bool embedding(Call& call) {
  if (!call[0].isTensor() || !call[1].isTensor()) return false;
  const TensorMeta& indices = *call[0].tensor;
  const TensorMeta& weight = *call[1].tensor;
  if (indices.dtype != DType::Long && indices.dtype != DType::Int) return false;
  if (weight.sizes.size() != 2 || call[3].given() || !isOrdinary(weight.dtype)) return false;
  if (call[2].given()) {
    if (!call[2].is(Arg::Kind::kInt)) return false;
    if (!lessThan(call[2].i, weight.sizes[0]) || lessThan(call[2].i, -weight.sizes[0]))
      return false;
  }
  Dims sizes = indices.sizes;
  sizes.push_back(weight.sizes[1]);
  call.fresh(weight.dtype, std::move(sizes));
  return true;
}

// embedding_bag(input, weight, offsets, ..., mode, sparse, per_sample_weights, ...) for bags of equal length
bool embeddingBag(Call& call) {
  if (!call[0].isTensor() || !call[1].isTensor() || call[2].given() || call[3].given())
    return false;
  const TensorMeta& indices = *call[0].tensor;
  const TensorMeta& weight = *call[1].tensor;
  if (indices.dtype != DType::Long && indices.dtype != DType::Int) return false;
  if (indices.sizes.size() != 2 || weight.sizes.size() != 2 || isZero(indices.numel()))
    return false;
  if (!isFloat(call[1]) || call[8].given() || call[10].given()) return false;
  bool unused = false;
  if (!call.flagOr(5, false, unused) || !call.flagOr(7, false, unused) ||
      !call.flagOr(9, false, unused))
    return false;
  if (call[6].given()) {
    if (!call[6].is(Arg::Kind::kStr)) return false;
    const std::string_view mode = call[6].text();
    if (mode != "sum" && mode != "mean" && mode != "max") return false;
  }
  call.fresh(weight.dtype, {indices.sizes[0], weight.sizes[1]});
  return true;
}

bool maskFits(const Arg& mask, const TensorMeta& query, const TensorMeta& key) {
  if (!mask.given()) return true;
  if (!mask.isTensor()) return false;
  if (mask.tensor->dtype != DType::Bool && mask.tensor->dtype != query.dtype) return false;
  const size_t rank = mask.tensor->sizes.size();
  if (rank != 2 && rank != 4) return false;
  Dims full = {query.sizes[0], query.sizes[1], query.sizes[2], key.sizes[2]};
  Dims broadcast = full;
  return broadcastInto(broadcast, mask.tensor->sizes) && broadcast == full;
}

// scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa) on the CPU: the
// fused kernel, whose result has the layout of the query, unless dropout, heads to broadcast or a mask with grad forbid
// it. Other devices choose by flags and versions. State::other under sdpa_kernel(SDPBackend.MATH); 2: under another
// choice of kernels
constexpr uint64_t kMathAttention = 1;

bool attention(Call& call) {
  for (size_t i : {0, 1, 2}) {
    if (!isFloat(call[i]) || call[i].tensor->sizes.size() != 4) return false;
    if (!isOne(call[i].tensor->strides[3]) || isZero(call[i].tensor->numel())) return false;
  }
  const TensorMeta& query = *call[0].tensor;
  const TensorMeta& key = *call[1].tensor;
  const TensorMeta& value = *call[2].tensor;
  if (call.state.other > kMathAttention || query.device != DeviceType::CPU) return false;
  if (key.dtype != query.dtype || value.dtype != query.dtype || key.sizes != value.sizes)
    return false;
  bool causal = false;
  bool grouped = false;
  if (!call.flagOr(5, false, causal) || !call.flagOr(7, false, grouped) || !isReal(call[6]))
    return false;
  if (causal && call[3].given()) return false;
  if (!isReal(call[4])) return false;
  const double dropped = !call[4].given()                ? 0
                         : call[4].is(Arg::Kind::kFloat) ? call[4].f
                                                         : static_cast<double>(call[4].i);
  if (!same(query.sizes[0], key.sizes[0]) || !same(query.sizes[3], key.sizes[3])) return false;
  const bool shared_heads = !grouped && isOne(key.sizes[1]) && !isOne(query.sizes[1]);
  if (grouped ? !isZero(query.sizes[1] % key.sizes[1])
              : !shared_heads && !same(query.sizes[1], key.sizes[1]))
    return false;
  if (!maskFits(call[3], query, key)) return false;
  call.out.random = dropped != 0;
  if (dropped != 0 || shared_heads || call.state.other == kMathAttention ||
      (call[3].isTensor() && call[3].tensor->requires_grad && call.state.grad_enabled)) {
    call.fresh(query.dtype, query.sizes);  // composed of matmul, softmax, dropout, matmul
    return dropped >= 0 && dropped < 1;
  }
  if (call[3].isTensor() && call[3].tensor->requires_grad) return false;
  call.fresh(query.dtype, query.sizes, denseStridesLike(query.sizes, query.strides));
  return true;
}

// F.pad with what lies in the tensor itself, of its last dims. False: eager raises, or composes it otherwise.
bool padFromWithin(Call& call, const Dims& amounts, bool mirrored) {
  const TensorMeta& meta = *call[0].tensor;
  const size_t rank = meta.sizes.size(), dims = amounts.size() / 2;
  if (!isFloat(call[0]) || call[3].given() || !hasPlainStrides(meta) || isZero(meta.numel()))
    return false;
  if (amounts.size() % 2 != 0 || dims == 0 || dims > 3 || (rank != dims + 1 && rank != dims + 2))
    return false;
  Dims sizes = meta.sizes;
  for (size_t i = 0; i < amounts.size(); ++i) {
    Dim& size = sizes[rank - 1 - i / 2];
    if (isNegative(amounts[i])) return false;
    if (mirrored && !lessThan(amounts[i], meta.sizes[rank - 1 - i / 2])) return false;
    size += amounts[i];
  }
  call.fresh(meta.dtype, std::move(sizes));
  return true;
}

// F.pad(input, pad, mode, value), from the last dim backwards.
bool pad(Call& call) {
  Dims amounts;
  if (!call[0].isTensor() || !call[1].isSequence() || !call.ints(1, amounts) || !isReal(call[3]))
    return false;
  if (call[2].given()) {
    if (!call[2].is(Arg::Kind::kStr)) return false;
    const std::string_view mode = call[2].text();
    if (mode == "reflect" || mode == "replicate")
      return padFromWithin(call, amounts, mode == "reflect");
    if (mode != "constant") return false;
  }
  const TensorMeta& meta = *call[0].tensor;
  if (amounts.empty() || amounts.size() % 2 != 0 || amounts.size() / 2 > meta.sizes.size())
    return false;
  Dims sizes = meta.sizes;
  bool all_cropped = true;
  for (size_t i = 0; i < amounts.size() / 2; ++i) {
    Dim& size = sizes[sizes.size() - 1 - i];
    size += amounts[2 * i] + amounts[2 * i + 1];
    if (isNegative(size)) return false;
    all_cropped = all_cropped && amounts[2 * i] <= 0 && amounts[2 * i + 1] <= 0;
  }
  if (all_cropped) {  // a clone of a slice
    Dims strides = denseStridesLike(sizes, meta.strides);
    call.fresh(meta.dtype, std::move(sizes), std::move(strides));
    return true;
  }
  Dims strides = stridesOf(sizes, suggestedFormat(meta));
  call.fresh(meta.dtype, std::move(sizes), std::move(strides));
  return true;
}

enum class Reduction { kNone, kScalar };
bool readReduction(const Arg& arg, Reduction& reduction) {
  reduction = Reduction::kScalar;
  if (arg.is(Arg::Kind::kAbsent)) return true;
  if (!arg.is(Arg::Kind::kStr)) return false;
  const std::string_view text = arg.text();
  if (text == "none") reduction = Reduction::kNone;
  return text == "none" || text == "mean" || text == "sum";
}

// cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing), nll_loss alike:
// one class for each row, and places behind it
bool classLoss(Call& call) {
  if (!isFloat(call[0]) || !call[1].isTensor() || call[3].given() || call[5].given()) return false;
  if (call[4].given() && !call[4].is(Arg::Kind::kInt)) return false;
  Reduction reduction = Reduction::kScalar;
  if (!readReduction(call[6], reduction) || !isReal(call[7])) return false;
  const Dims& input = call[0].tensor->sizes;
  const TensorMeta& target = *call[1].tensor;
  if (target.dtype != DType::Long || input.empty()) return false;
  const size_t classes = input.size() == 1 ? 0 : 1;
  Dims expected = input;
  expected.erase(expected.begin() + static_cast<ptrdiff_t>(classes));
  if (target.sizes != expected) return false;
  if (call[2].given() &&
      (!call[2].isTensor() || call[2].tensor->dtype != call[0].tensor->dtype ||
       call[2].tensor->requires_grad || call[2].tensor->sizes != Dims{input[classes]}))
    return false;
  const bool has_places = input.size() > 2;
  if (has_places && (!hasPlainStrides(*call[0].tensor) || !hasPlainStrides(target) ||
                     isZero(call[0].tensor->numel())))
    return false;
  call.fresh(call[0].tensor->dtype, reduction == Reduction::kNone ? expected : Dims());
  return true;
}

// mse_loss(input, target, size_average, reduce, reduction), l1_loss, smooth_l1_loss
bool pairLoss(Call& call) {
  if (!isFloat(call[0]) || !isFloat(call[1]) || call[2].given() || call[3].given()) return false;
  Reduction reduction = Reduction::kScalar;
  if (!readReduction(call[4], reduction)) return false;
  if (call.paramCount() > 5 && !isReal(call[5])) return false;
  if (call[0].tensor->dtype != call[1].tensor->dtype ||
      call[0].tensor->sizes != call[1].tensor->sizes)
    return false;
  if (reduction == Reduction::kScalar) {
    call.fresh(call[0].tensor->dtype, Dims());
    return true;
  }
  Dims sizes;
  Dims strides;
  if (!elementwise({&call[0], &call[1]}, sizes, strides)) return false;
  call.fresh(call[0].tensor->dtype, std::move(sizes), std::move(strides));
  return true;
}

// normalize(input, p, dim, eps): the input divided by its norms
bool normalize(Call& call) {
  int64_t dim = 1;
  if (!isFloat(call[0]) || !isReal(call[1]) || !isReal(call[3])) return false;
  const TensorMeta& meta = *call[0].tensor;
  if (!call.integerOr(2, 1, dim) || !wrapDim(dim, meta.sizes.size())) return false;
  if (isZero(meta.numel()) || !hasPlainStrides(meta)) return false;
  call.fresh(meta.dtype, meta.sizes);
  return true;
}

constexpr OpRow kRows[] = {
    {"F.relu", "input, inplace", activation, kIntegersToo},
    {"F.silu|mish|hardswish|hardsigmoid|selu", "input, inplace", activation},
    {"F.relu6", "input, inplace", activation},
    {"F.elu|celu", "input, alpha, inplace", activation, kOneNumber},
    {"F.leaky_relu", "input, negative_slope, inplace", activation, kOneNumber},
    {"F.hardtanh", "input, min_val, max_val, inplace", activation, kTwoNumbers},
    {"F|nn.softplus", "input, beta, threshold", activation, kTwoNumbers},
    {"F.logsigmoid", "input", activation},
    {"F.tanh|sigmoid", "input", unary, kFloatOut},
    {"F|nn.gelu", "input, *, approximate", gelu},
    {"F|torch.hardshrink", "input, lambd", activation, kOneNumber},
    {"F|nn.softshrink", "input, lambd", softshrink, kOneNumber},
    {"F|torch.prelu", "input, weight", prelu},
    {"F.softsign|tanhshrink", "input", activation},
    {"F.threshold", "input, threshold, value, inplace", activation, kTwoNumbers},
    {"F.normalize", "input, p, dim, eps", normalize},
    {"F.glu", "input, dim", glu},
    {"F.dropout", "input, p, training, inplace", dropout},
    {"F.embedding", "input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse",
     embedding},
    {"F.embedding_bag",
     "input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, sparse, "
     "per_sample_weights, "
     "include_last_offset, padding_idx",
     embeddingBag},
    {"F.scaled_dot_product_attention",
     "query, key, value, attn_mask, dropout_p, is_causal, *, scale, enable_gqa", attention},
    {"F|nn.pad", "input, pad, mode, value", pad},
    {"F.cross_entropy",
     "input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing",
     classLoss},
    {"F.nll_loss", "input, target, weight, size_average, ignore_index, reduce, reduction",
     classLoss},
    {"F.mse_loss", "input, target, size_average, reduce, reduction", pairLoss},
    {"F.l1_loss", "input, target, size_average, reduce, reduction", pairLoss},
    {"F.smooth_l1_loss", "input, target, size_average, reduce, reduction, beta", pairLoss},
};

}  // namespace

std::span<const OpRow> functionalRows() { return kRows; }

}  // namespace stator::shapes
