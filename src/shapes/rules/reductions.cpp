// Reductions and what works along one dim: sums, extrema, softmax, scans, sort, norms. Reductions give contiguous
// results.
#include "shapes/rules/pointwise.h"

namespace stator::shapes {

namespace {

// Which dims a reduction removes: an int, a sequence, or (absent, None, empty sequence) all of them.
bool readDims(const Call& call, size_t param, size_t rank, std::vector<bool>& reduced) {
  const Arg& arg = call[param];
  reduced.assign(rank, false);
  std::vector<int64_t> dims;
  if (arg.given() && !call.axes(param, dims)) return false;
  if (dims.empty()) {
    reduced.assign(rank, true);
    return true;
  }
  if (rank == 0 && dims.size() > 1) return false;  // both would be its dim 0
  for (int64_t& dim : dims) {
    if (!wrapDim(dim, rank)) return false;
    if (rank == 0) continue;
    if (reduced[dim]) return false;
    reduced[dim] = true;
  }
  return true;
}

Dims reducedSizes(const Dims& sizes, const std::vector<bool>& reduced, bool keepdim) {
  Dims result;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!reduced[i]) {
      result.push_back(sizes[i]);
    } else if (keepdim) {
      result.push_back(1);
    }
  }
  return result;
}

constexpr uint32_t kLongOut = kFree << 0;    // integers (and bool) are added up as int64
constexpr uint32_t kOneDim = kFree << 1;     // dim must be one int
constexpr uint32_t kNotEmpty = kFree << 2;   // has no neutral element: raises for nothing
constexpr uint32_t kIndexOut = kFree << 3;   // int64, without grad
constexpr uint32_t kByteStays = kFree << 4;  // any, all: uint8 in, uint8 out

bool reduceDims(Call& call, size_t dim_param, bool keepdim, DType dtype) {
  const TensorMeta& meta = *call[0].tensor;
  std::vector<bool> reduced;
  if ((call.detail() & kOneDim) && call[dim_param].given() && !call[dim_param].is(Arg::Kind::kInt))
    return false;
  if (!readDims(call, dim_param, meta.sizes.size(), reduced)) return false;
  if ((call.detail() & kNotEmpty) && isZero(meta.numel())) return false;
  call.fresh(dtype, reducedSizes(meta.sizes, reduced, keepdim));
  return true;
}

DType reducedDtype(const Call& call, DType dtype) {
  const uint32_t detail = call.detail();
  if (detail & kIndexOut) return DType::Long;
  if (detail & kByteStays) return dtype == DType::Byte ? DType::Byte : DType::Bool;
  if ((detail & kLongOut) && isIntegral(dtype)) return DType::Long;
  if (detail & kRealOut) return toReal(dtype);
  return dtype;
}

// input, dim, keepdim, dtype
bool reduce(Call& call) {
  if (!call[0].isTensor() || !isOrdinary(call[0].tensor->dtype)) return false;
  bool keepdim = false;
  DType dtype = call[0].tensor->dtype;
  if (!call.flagOr(2, false, keepdim) || !call.dtypeOr(3, dtype, dtype)) return false;
  if (!isOrdinary(dtype) || !acceptsDtype(call.detail(), dtype)) return false;
  if (isComplex(call[0].tensor->dtype) && !isComplex(dtype)) return false;
  if (!call[3].given()) dtype = reducedDtype(call, dtype);
  return reduceDims(call, 1, keepdim, dtype);
}

// input, *, dtype
bool reduceAll(Call& call) {
  if (!call[0].isTensor() || !isOrdinary(call[0].tensor->dtype)) return false;
  DType dtype = call[0].tensor->dtype;
  if (!call.dtypeOr(1, dtype, dtype) || !isOrdinary(dtype) || !acceptsDtype(call.detail(), dtype))
    return false;
  if (isComplex(call[0].tensor->dtype) && !isComplex(dtype)) return false;
  if ((call.detail() & kNotEmpty) && isZero(call[0].tensor->numel())) return false;
  call.fresh(call[1].given() ? dtype : reducedDtype(call, dtype), Dims());
  return true;
}

// argmax, argmin: input, dim, keepdim
bool argExtremum(Call& call) {
  if (!call[0].isTensor() || !acceptsDtype(call.detail(), call[0].tensor->dtype)) return false;
  bool keepdim = false;
  if (!call.flagOr(2, false, keepdim)) return false;
  return reduceDims(call, 1, keepdim, DType::Long);
}

// var, std with dim, unbiased or correction, keepdim; complex gives real.
bool spread(Call& call) {
  if (!call[0].isTensor()) return false;
  const DType dtype = call[0].tensor->dtype;
  bool keepdim = false;
  if (!isOrdinary(dtype) || isIntegral(dtype) || !call.flagOr(3, false, keepdim)) return false;
  if (call[2].given() && !call[2].is(Arg::Kind::kBool) && !call[2].is(Arg::Kind::kInt))
    return false;
  return reduceDims(call, 1, keepdim, toReal(dtype));
}

bool spreadUnbiased(Call& call) {  // var(x, True)
  if (!call[0].isTensor() || !call[1].is(Arg::Kind::kBool)) return false;
  const DType dtype = call[0].tensor->dtype;
  if (!isOrdinary(dtype) || isIntegral(dtype)) return false;
  call.fresh(toReal(dtype), Dims());
  return true;
}

bool alongDim(Call& call, int64_t& dim) {
  return call[0].isTensor() && call.dim(1, call[0].tensor->sizes.size(), dim);
}

void valuesAndIndices(Call& call, Dims sizes, const char* type) {
  const DType dtype = call[0].tensor->dtype;
  call.fresh(dtype, sizes);
  call.fresh(DType::Long, std::move(sizes));
  call.named(type);
}

template <const char* const& kType>
bool extremumAlong(Call& call) {
  int64_t dim = 0;
  bool keepdim = false;
  if (!alongDim(call, dim) || !call.flagOr(2, false, keepdim)) return false;
  const TensorMeta& meta = *call[0].tensor;
  if (isComplex(meta.dtype) || !isOrdinary(meta.dtype)) return false;
  if (!meta.sizes.empty() && isZero(meta.sizes[dim])) return false;
  Dims sizes = meta.sizes;
  if (!sizes.empty()) {
    if (keepdim) {
      sizes[dim] = 1;
    } else {
      sizes.erase(sizes.begin() + dim);
    }
  }
  valuesAndIndices(call, std::move(sizes), kType);
  return true;
}
const char* const kMax = "max";
const char* const kMin = "min";

bool extremumOfTwo(Call& call) { return call[1].isTensor() && binary(call); }

bool topk(Call& call) {
  int64_t count = 0;
  int64_t dim = -1;
  bool unused = false;
  if (!call[0].isTensor() || !call.integer(1, count) || !call.integerOr(2, -1, dim)) return false;
  if (!call.flagOr(3, true, unused) || !call.flagOr(4, true, unused)) return false;
  const TensorMeta& meta = *call[0].tensor;
  if (!wrapDim(dim, meta.sizes.size()) || meta.sizes.empty() || isComplex(meta.dtype) ||
      meta.dtype == DType::Bool)
    return false;
  if (count < 0 || !expectAtMost(count, meta.sizes[dim])) return false;
  Dims sizes = meta.sizes;
  sizes[dim] = count;
  valuesAndIndices(call, std::move(sizes), "topk");
  return true;
}

// sort(dim, descending, stable); argsort with the indices alone.
bool addSorted(Call& call, bool values) {
  const TensorMeta& meta = *call[0].tensor;
  if (isComplex(meta.dtype)) return false;
  const Dims strides = denseStridesLike(meta.sizes, meta.strides);
  if (values) call.fresh(meta.dtype, meta.sizes, strides);
  call.fresh(DType::Long, meta.sizes, strides);
  if (values) call.named("sort");
  return true;
}

bool sortOp(Call& call) {
  int64_t dim = -1;
  bool unused = false;
  if (!call[0].isTensor() || !call.integerOr(1, -1, dim) || !call.flagOr(2, false, unused))
    return false;
  if (call[3].given() && !call[3].is(Arg::Kind::kBool)) return false;
  return wrapDim(dim, call[0].tensor->sizes.size()) && addSorted(call, true);
}

bool argsort(Call& call) {
  int64_t dim = -1;
  bool unused = false;
  if (!call[0].isTensor() || !call.integerOr(1, -1, dim) || !call.flagOr(2, false, unused))
    return false;
  if (call[3].given() && !call[3].is(Arg::Kind::kBool)) return false;
  return wrapDim(dim, call[0].tensor->sizes.size()) && addSorted(call, false);
}

// softmax, log_softmax: input, dim, dtype
bool addSoftmax(Call& call, size_t dtype_param) {
  int64_t dim = 0;
  if (!alongDim(call, dim)) return false;
  const TensorMeta& meta = *call[0].tensor;
  DType dtype = meta.dtype;
  if (!call.dtypeOr(dtype_param, dtype, dtype) || !isFloating(dtype) || !isOrdinary(dtype) ||
      isComplex(meta.dtype))
    return false;
  if (!hasPlainStrides(meta)) return false;
  call.fresh(dtype, meta.sizes);
  return true;
}
bool softmax(Call& call) { return addSoftmax(call, 2); }
bool softmaxFunctional(Call& call) { return addSoftmax(call, 3); }
bool softmin(Call& call) {  // of what is negated
  return call[0].isTensor() && call[0].tensor->dtype != DType::Bool && addSoftmax(call, 3);
}

// cumsum, cumprod: input, dim, dtype
bool scan(Call& call) {
  int64_t dim = 0;
  if (!alongDim(call, dim)) return false;
  const TensorMeta& meta = *call[0].tensor;
  DType dtype = meta.dtype;
  if (!call.dtypeOr(2, dtype, dtype) || !isOrdinary(dtype)) return false;
  if (isComplex(meta.dtype) && !isComplex(dtype)) return false;
  if (!call[2].given() && isIntegral(dtype)) dtype = DType::Long;
  if (call.mode() == Mode::kInplace) {
    return !call[2].given() && !isIntegral(meta.dtype) && call.inplace(call[0], dtype, meta.sizes);
  }
  call.fresh(dtype, meta.sizes);
  return true;
}

// logsumexp, amax ...: dim is required, int or sequence.
bool logsumexp(Call& call) {
  bool keepdim = false;
  if (!call[0].isTensor() || !call[1].given() || !call.flagOr(2, false, keepdim)) return false;
  const DType dtype = call[0].tensor->dtype;
  if (!isFloating(dtype) || !isOrdinary(dtype)) return false;
  return reduceDims(call, 1, keepdim, dtype);
}

// norm(input, p, dim, keepdim, dtype) for numeric p and linalg.vector_norm(x, ord, dim, keepdim, dtype)
bool vectorNorm(Call& call) {
  if (!call[0].isTensor()) return false;
  const DType dtype = call[0].tensor->dtype;
  if (!isOrdinary(dtype) || isIntegral(dtype) || call[4].given()) return false;
  if (call[1].given() && !call[1].is(Arg::Kind::kInt) && !call[1].is(Arg::Kind::kFloat))
    return false;
  if (isZero(call[0].tensor->numel())) return false;
  bool keepdim = false;
  if (!call.flagOr(3, false, keepdim)) return false;
  return reduceDims(call, 2, keepdim, toReal(dtype));
}

// linalg.norm(A, ord, dim, keepdim, dtype): that of a vector, along one dim or of all elements without an order
bool linalgNorm(Call& call) {
  const bool one = call[2].is(Arg::Kind::kInt) || (call[2].isSequence() && call[2].count == 1);
  return (one || (!call[1].given() && !call[2].given())) && vectorNorm(call);
}

// cummax, cummin: input, dim
template <const char* const& kType>
bool scanExtremum(Call& call) {
  int64_t dim = 0;
  if (!alongDim(call, dim) || isComplex(call[0].tensor->dtype)) return false;
  if (isZero(call[0].tensor->numel())) return false;
  valuesAndIndices(call, call[0].tensor->sizes, kType);
  return true;
}
const char* const kCummax = "cummax";
const char* const kCummin = "cummin";

// var_mean, std_mean with dim, unbiased or correction, keepdim
bool spreadAndMean(Call& call) {
  if (!call[0].isTensor()) return false;
  const DType dtype = call[0].tensor->dtype;
  bool keepdim = false;
  if (!isFloating(dtype) || !isOrdinary(dtype) || !call.flagOr(3, false, keepdim)) return false;
  if (call[2].given() && !call[2].is(Arg::Kind::kBool) && !call[2].is(Arg::Kind::kInt))
    return false;
  if (call[1].is(Arg::Kind::kBool)) return false;
  call.structure(Structure::kTuple);
  return reduceDims(call, 1, keepdim, dtype) && reduceDims(call, 1, keepdim, dtype);
}

bool countNonzero(Call& call) {
  return call[0].isTensor() && reduceDims(call, 1, false, DType::Long);
}

// aminmax(*, dim, keepdim)
bool bothExtrema(Call& call) {
  if (!call[0].isTensor() || isComplex(call[0].tensor->dtype)) return false;
  bool keepdim = false;
  if (!call.flagOr(2, false, keepdim)) return false;
  const DType dtype = call[0].tensor->dtype;
  if (!reduceDims(call, 1, keepdim, dtype) || !reduceDims(call, 1, keepdim, dtype)) return false;
  call.named("aminmax");
  return true;
}

// torch._is_all_true, _is_any_true: what checks of distributions ask
bool wholeTruth(Call& call) {
  if (!call[0].isTensor() || call[0].tensor->dtype != DType::Bool) return false;
  call.fresh(DType::Bool, Dims());
  return true;
}

constexpr OpRow kRows[] = {
    {"torch|Tensor.sum", "input, *, dtype", reduceAll, kLongOut},
    {"torch|Tensor.sum", "input, dim|axis, keepdim|keepdims, dtype", reduce, kLongOut},
    {"torch|Tensor.nansum", "input, *, dtype", reduceAll, kLongOut | kNoComplex},
    {"torch|Tensor.nansum", "input, dim|axis, keepdim|keepdims, dtype", reduce,
     kLongOut | kNoComplex},
    {"torch|Tensor.mean", "input, *, dtype", reduceAll, kNoInteger},
    {"torch|Tensor.mean", "input, dim|axis, keepdim|keepdims, dtype", reduce, kNoInteger},
    {"torch|Tensor.nanmean", "input, *, dtype", reduceAll, kNoInteger | kNoComplex},
    {"torch|Tensor.nanmean", "input, dim|axis, keepdim|keepdims, dtype", reduce,
     kNoInteger | kNoComplex},
    {"torch|Tensor.prod", "input, *, dtype", reduceAll, kLongOut},
    {"torch|Tensor.prod", "input, dim|axis, keepdim|keepdims, dtype", reduce, kLongOut | kOneDim},
    {"torch|Tensor.any|all", "input", reduceAll, kByteStays},
    {"torch|Tensor.any|all", "input, dim|axis, keepdim|keepdims", reduce, kByteStays},
    {"torch|Tensor.amax|amin", "input, dim|axis, keepdim|keepdims", reduce, kNotEmpty | kNoComplex},
    {"torch|Tensor.max|min", "input", reduceAll, kNotEmpty | kNoComplex},
    {"torch|Tensor.max", "input, dim|axis, keepdim|keepdims", extremumAlong<kMax>},
    {"torch|Tensor.min", "input, dim|axis, keepdim|keepdims", extremumAlong<kMin>},
    {"torch|Tensor.max|min", "input, other", extremumOfTwo, kScalarsAnywhere | kNoComplex},
    {"torch|Tensor.argmax|argmin", "input, dim|axis, keepdim|keepdims", argExtremum,
     kNotEmpty | kOneDim | kNoComplex | kNoBool},
    {"torch|Tensor.var|std", "input, unbiased", spreadUnbiased},
    {"torch|Tensor.var|std", "input, dim|axis, unbiased, keepdim|keepdims", spread},
    {"torch|Tensor.var|std", "input, dim|axis, *, correction, keepdim|keepdims", spread},
    {"torch|Tensor.topk", "input, k, dim, largest, sorted", topk},
    {"torch|Tensor.sort", "input, dim, descending, *, stable", sortOp},
    {"torch|Tensor.argsort", "input, dim, descending, *, stable", argsort},
    {"torch|Tensor.softmax|log_softmax special.softmax|log_softmax", "input, dim, dtype", softmax},
    {"F.softmax|log_softmax", "input, dim, _stacklevel, dtype", softmaxFunctional},
    {"F.softmin", "input, dim, _stacklevel, dtype", softmin},
    {"torch._is_all_true|_is_any_true", "input", wholeTruth},
    {"torch|Tensor.cumsum|cumprod !Tensor.cumsum_|cumprod_", "input, dim|axis, dtype", scan},
    {"torch|Tensor.logsumexp special.logsumexp", "input, dim|axis, keepdim|keepdims", logsumexp},
    {"torch|Tensor.cummax", "input, dim", scanExtremum<kCummax>},
    {"torch|Tensor.cummin", "input, dim", scanExtremum<kCummin>},
    {"torch.var_mean|std_mean", "input, dim|axis, unbiased, keepdim|keepdims", spreadAndMean},
    {"torch.var_mean|std_mean", "input, dim|axis, *, correction, keepdim|keepdims", spreadAndMean},
    {"torch|Tensor.count_nonzero", "input, dim", countNonzero},
    {"torch|Tensor.aminmax", "input, *, dim, keepdim", bothExtrema, kNotEmpty | kOneDim},
    {"linalg.vector_norm", "x, ord, dim, keepdim, dtype", vectorNorm},
    {"linalg.norm", "A|input, ord, dim, keepdim, dtype", linalgNorm},
    {"torch|Tensor.norm", "input, p, dim, keepdim, dtype", vectorNorm},
};

}  // namespace

std::span<const OpRow> reductionRows() { return kRows; }

}  // namespace stator::shapes
