// Gathering, scattering, joining and repeating.
#include "shapes/rules/getitem.h"
#include "shapes/rules/pointwise.h"

#include <algorithm>

namespace stator::shapes {

namespace {

bool isIndex(const Arg& arg) { return arg.isTensor() && arg.tensor->dtype == DType::Long; }

bool dimOfInput(const Call& call, size_t param, int64_t& dim) {
  return call[0].isTensor() && call.dim(param, call[0].tensor->sizes.size(), dim);
}

// gather(input, dim, index, *, sparse_grad)
bool gather(Call& call) {
  int64_t dim = 0;
  if (!dimOfInput(call, 1, dim) || !isIndex(call[2])) return false;
  const Dims& input = call[0].tensor->sizes;
  const Dims& index = call[2].tensor->sizes;
  if (input.size() != index.size() || input.empty() || call[3].given()) return false;
  for (size_t i = 0; i < input.size(); ++i) {
    if (i != static_cast<size_t>(dim) && lessThan(input[i], index[i])) return false;
  }
  call.fresh(call[0].tensor->dtype, index);
  return true;
}

// scatter(input, dim, index, src or value), scatter_add
bool scatter(Call& call) {
  int64_t dim = 0;
  if (!dimOfInput(call, 1, dim) || !isIndex(call[2])) return false;
  const TensorMeta& input = *call[0].tensor;
  const Dims& index = call[2].tensor->sizes;
  if (input.sizes.size() != index.size() || input.sizes.empty()) return false;
  const Arg& source = call[3];
  if (source.isTensor()) {
    if (source.tensor->dtype != input.dtype || source.tensor->sizes.size() != index.size())
      return false;
  } else if (!(call.detail() & kNumbers) || !source.isNumber() || source.is(Arg::Kind::kComplex)) {
    return false;
  }
  for (size_t i = 0; i < index.size(); ++i) {
    if (i != static_cast<size_t>(dim) && lessThan(input.sizes[i], index[i])) return false;
    if (source.isTensor() && lessThan(source.tensor->sizes[i], index[i])) return false;
  }
  return call.finish(input.dtype, input.dtype, input.sizes, contiguousStrides(input.sizes));
}

bool isReduction(const Arg& name, std::initializer_list<std::string_view> names) {
  return name.is(Arg::Kind::kStr) &&
         std::find(names.begin(), names.end(), name.text()) != names.end();
}

// scatter_reduce(input, dim, index, src, reduce, *, include_self)
bool scatterReduce(Call& call) {
  bool include_self = true;
  return call[3].isTensor() && isReduction(call[4], {"sum", "prod", "mean", "amax", "amin"}) &&
         call.flagOr(5, true, include_self) && scatter(call);
}

// index_select(input, dim, index)
bool indexSelect(Call& call) {
  int64_t dim = 0;
  if (!dimOfInput(call, 1, dim) || !call[2].isTensor()) return false;
  const TensorMeta& index = *call[2].tensor;
  const TensorMeta& input = *call[0].tensor;
  if (index.dtype != DType::Long && index.dtype != DType::Int) return false;
  if (index.sizes.size() != 1 || input.sizes.empty()) return false;
  Dims sizes = input.sizes;
  sizes[dim] = index.sizes[0];
  call.fresh(input.dtype, std::move(sizes));
  return true;
}

// index_add, index_copy: input, dim, index, source
bool indexWrite(Call& call) {
  int64_t dim = 0;
  if (!dimOfInput(call, 1, dim) || !isIndex(call[2]) || !call[3].isTensor()) return false;
  const TensorMeta& input = *call[0].tensor;
  if (call[4].given() && !call[4].is(Arg::Kind::kInt)) return false;
  if (input.sizes.empty() || call[2].tensor->sizes.size() != 1 ||
      call[3].tensor->dtype != input.dtype)
    return false;
  Dims expected = input.sizes;
  expected[dim] = call[2].tensor->sizes[0];
  if (call[3].tensor->sizes != expected) return false;
  if (call.mode() != Mode::kInplace && !hasPlainStrides(input)) return false;
  return call.finish(input.dtype, input.dtype, input.sizes, contiguousStrides(input.sizes));
}

// masked_scatter(input, mask, source)
bool maskedScatter(Call& call) {
  for (size_t i = 0; i < 3; ++i) {
    if (!call[i].isTensor()) return false;
  }
  const TensorMeta& input = *call[0].tensor;
  if (call[1].tensor->dtype != DType::Bool || call[2].tensor->dtype != input.dtype) return false;
  Dims sizes = input.sizes;
  if (!broadcastInto(sizes, call[1].tensor->sizes)) return false;
  if (call.mode() == Mode::kInplace) return call.inplace(call[0], input.dtype, sizes);
  call.fresh(input.dtype, std::move(sizes));
  return true;
}

// masked_fill(input, mask, value)
bool maskedFill(Call& call) {
  if (!call[0].isTensor() || !call[1].isTensor() || call[1].tensor->dtype != DType::Bool)
    return false;
  const TensorMeta& input = *call[0].tensor;
  const Arg& value = call[2];
  Promotion promotion(call.state);
  if (!promotion.add(call[0]) || !promotion.add(value)) return false;
  if (value.isTensor() && !value.tensor->sizes.empty()) return false;
  // The value may not be of a higher category than the tensor.
  if (promotion.result() != input.dtype) return false;
  Dims sizes = input.sizes;
  if (!broadcastInto(sizes, call[1].tensor->sizes)) return false;
  if (call.mode() == Mode::kInplace) return call.inplace(call[0], input.dtype, sizes);
  call.fresh(input.dtype, std::move(sizes));
  return true;
}

bool isLegacyEmpty(const TensorMeta& meta) {
  return meta.sizes.size() == 1 && isZero(meta.sizes[0]);
}

// cat(tensors, dim)
bool cat(Call& call) {
  const Arg& list = call[0];
  int64_t dim = 0;
  if (!list.isSequence() || list.count == 0 || !call.integerOr(1, 0, dim)) return false;
  Promotion promotion(call.state);
  bool have_sizes = false;
  bool have_format = false;
  bool one_format = true;
  MemoryFormat format = MemoryFormat::Contiguous;
  Dims sizes;
  for (const Arg& item : list.elements()) {
    if (!item.isTensor() || !promotion.add(item) || item.tensor->sizes.empty()) return false;
    const TensorMeta& meta = *item.tensor;
    if (!have_format) format = suggestedFormat(meta);
    one_format = one_format && suggestedFormat(meta) == format;
    have_format = true;
    if (isLegacyEmpty(meta)) continue;  // takes part in the dtype alone
    if (!have_sizes) {
      have_sizes = true;
      sizes = meta.sizes;
      if (!wrapDim(dim, sizes.size())) return false;
      continue;
    }
    if (meta.sizes.size() != sizes.size()) return false;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (i != static_cast<size_t>(dim) && !same(meta.sizes[i], sizes[i])) return false;
    }
    sizes[dim] += meta.sizes[dim];
  }
  if (!have_sizes) return false;
  Dims strides = stridesOf(sizes, one_format ? format : MemoryFormat::Contiguous);
  call.fresh(promotion.result(), std::move(sizes), std::move(strides));
  return true;
}

// stack(tensors, dim)
// Whether the tensor has its channels last once a dim of size one stands before `dim`.
bool unsqueezedIsChannelsLast(const TensorMeta& meta, int64_t dim) {
  Dims sizes = meta.sizes, strides = meta.strides;
  const bool last = static_cast<size_t>(dim) == sizes.size();
  strides.insert(strides.begin() + dim, last ? Dim(1) : sizes[dim] * strides[dim]);
  sizes.insert(sizes.begin() + dim, Dim(1));
  return (sizes.size() == 4 || sizes.size() == 5) && stridesLikeChannelsLast(sizes, strides);
}

bool stack(Call& call) {
  const Arg& list = call[0];
  int64_t dim = 0;
  if (!list.isSequence() || list.count == 0 || !call.integerOr(1, 0, dim)) return false;
  if (!list.items[0].isTensor() || !wrapDim(dim, list.items[0].tensor->sizes.size() + 1))
    return false;
  Promotion promotion(call.state);
  bool channels_last = true;  // all of them, as in cat
  for (const Arg& item : list.elements()) {
    if (!item.isTensor() || !promotion.add(item)) return false;
    const TensorMeta& meta = *item.tensor;
    if (meta.sizes != list.items[0].tensor->sizes) return false;
    channels_last &= !isContiguous(meta.sizes, meta.strides) && unsqueezedIsChannelsLast(meta, dim);
  }
  if (channels_last) return false;
  Dims sizes = list.items[0].tensor->sizes;
  sizes.insert(sizes.begin() + dim, list.count);
  call.fresh(promotion.result(), std::move(sizes));
  return true;
}

bool repeat(Call& call) {
  Dims repeats;
  if (!call[0].isTensor() || !call[1].isSequence() || !call.ints(1, repeats)) return false;
  const TensorMeta& meta = *call[0].tensor;
  if (call.detail() & kNumbers) {  // tile pads its counts
    while (repeats.size() < meta.sizes.size()) repeats.insert(repeats.begin(), 1);
  }
  if (repeats.size() < meta.sizes.size() || repeats.empty()) return false;
  const size_t offset = repeats.size() - meta.sizes.size();
  Dims sizes(repeats);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (isNegative(repeats[i])) return false;
    if (i >= offset) sizes[i] *= meta.sizes[i - offset];
  }
  call.fresh(meta.dtype, std::move(sizes));
  return true;
}

// repeat_interleave(input, repeats: int, dim)
bool repeatInterleave(Call& call) {
  int64_t repeats = 0;
  int64_t dim = 0;
  if (!call[0].isTensor() || !call.integer(1, repeats) || repeats < 0 || call[3].given())
    return false;
  const TensorMeta& meta = *call[0].tensor;
  if (!call[2].given()) {
    call.fresh(meta.dtype, {meta.numel() * repeats});
    return true;
  }
  if (!call.dim(2, meta.sizes.size(), dim) || meta.sizes.empty()) return false;
  Dims sizes = meta.sizes;
  sizes[dim] *= repeats;
  call.fresh(meta.dtype, std::move(sizes));
  return true;
}

bool sameSizesDense(Call& call) {  // flip
  std::vector<int64_t> dims;
  if (!call[0].isTensor() || !call[1].given() || !call.axes(1, dims)) return false;
  const TensorMeta& meta = *call[0].tensor;
  if (!hasPlainStrides(meta)) return false;
  std::vector<bool> seen(std::max<size_t>(meta.sizes.size(), 1), false);
  for (int64_t& dim : dims) {
    if (!wrapDim(dim, meta.sizes.size()) || seen[dim]) return false;
    seen[dim] = true;
  }
  call.fresh(meta.dtype, meta.sizes);
  return true;
}

bool roll(Call& call) {
  Dims shifts;
  std::vector<int64_t> dims;
  if (!call[0].isTensor() || !call.ints(1, shifts)) return false;
  const TensorMeta& meta = *call[0].tensor;
  if (call[2].given()) {
    if (meta.sizes.empty() || !call.axes(2, dims) || dims.size() != shifts.size()) return false;
  } else if (shifts.size() != 1) {
    return false;
  }
  for (int64_t& dim : dims) {
    if (!wrapDim(dim, meta.sizes.size())) return false;
  }
  if (!hasPlainStrides(meta)) return false;
  call.fresh(meta.dtype, meta.sizes);
  return true;
}

bool triangle(Call& call) {  // tril, triu
  int64_t diagonal = 0;
  if (!call[0].isTensor() || call[0].tensor->sizes.size() < 2 || !call.integerOr(1, 0, diagonal))
    return false;
  const TensorMeta& meta = *call[0].tensor;
  if (call.mode() == Mode::kInplace) return call.inplace(call[0], meta.dtype, meta.sizes);
  if (!hasPlainStrides(meta)) return false;
  call.fresh(meta.dtype, meta.sizes);
  return true;
}

// diff(input, n, dim, prepend, append) for n = 1
bool diff(Call& call) {
  int64_t count = 1;
  int64_t dim = -1;
  if (!call[0].isTensor() || !call.integerOr(1, 1, count) || count != 1 ||
      !call.integerOr(2, -1, dim))
    return false;
  const TensorMeta& input = *call[0].tensor;
  if (input.sizes.empty() || !wrapDim(dim, input.sizes.size()) || !isOrdinary(input.dtype))
    return false;
  Dims sizes = input.sizes;
  Dims strides = input.strides;
  for (size_t i : {3, 4}) {
    if (!call[i].given()) continue;
    if (!call[i].isTensor() || call[i].tensor->dtype != input.dtype) return false;
    const Dims& extra = call[i].tensor->sizes;
    if (extra.size() != sizes.size()) return false;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (d != static_cast<size_t>(dim) && !same(extra[d], input.sizes[d])) return false;
    }
    sizes[dim] += extra[dim];
    if (suggestedFormat(*call[i].tensor) != MemoryFormat::Contiguous) return false;
    strides = contiguousStrides(sizes);
  }
  if (call[3].given() || call[4].given()) {
    if (suggestedFormat(input) != MemoryFormat::Contiguous) return false;
    strides = contiguousStrides(sizes);
  }
  if (isZero(sizes[dim])) return false;
  // The difference of two views that are shifted by one.
  sizes[dim] -= 1;
  if (isZero(product(sizes))) return false;
  const Layout operands[] = {{&sizes, &strides}, {&sizes, &strides}};
  Dims result = elementwiseStrides(sizes, operands);
  call.fresh(input.dtype, std::move(sizes), std::move(result));
  return true;
}

// hstack, vstack are cat along a dim once the rank suffices.
bool stackAlong(Call& call) {
  const Arg& list = call[0];
  if (!list.isSequence() || list.count == 0) return false;
  Promotion promotion(call.state);
  const bool vertical = (call.detail() & kNumbers) != 0;
  Dims sizes;
  for (const Arg& item : list.elements()) {
    if (!item.isTensor() || !promotion.add(item)) return false;
    const TensorMeta& meta = *item.tensor;
    const size_t rank = meta.sizes.size();
    if (rank < (vertical ? 2u : 1u) || rank > 3 || !isContiguous(meta.sizes, meta.strides) ||
        isLegacyEmpty(meta))
      return false;
    const size_t dim = vertical || rank == 1 ? 0 : 1;
    if (sizes.empty()) {
      sizes = meta.sizes;
      continue;
    }
    if (sizes.size() != rank) return false;
    for (size_t i = 0; i < rank; ++i) {
      if (i != dim && !same(sizes[i], meta.sizes[i])) return false;
    }
    sizes[dim] += meta.sizes[dim];
  }
  call.fresh(promotion.result(), std::move(sizes));
  return true;
}

// bernoulli(input): a random tensor like the input
bool bernoulli(Call& call) {
  if (!call[0].isTensor() || !isFloating(call[0].tensor->dtype)) return false;
  const TensorMeta& meta = *call[0].tensor;
  if (!hasPlainStrides(meta)) return false;
  call.fresh(meta.dtype, meta.sizes);
  return true;
}

// multinomial(input, num_samples, replacement)
bool multinomial(Call& call) {
  int64_t samples = 0;
  bool replacement = false;
  if (!call[0].isTensor() || !isFloating(call[0].tensor->dtype) || !call.integer(1, samples))
    return false;
  if (!call.flagOr(2, false, replacement) || samples <= 0) return false;
  const Dims& sizes = call[0].tensor->sizes;
  if (sizes.size() != 1 && sizes.size() != 2) return false;
  if (!replacement && lessThan(sizes.back(), samples)) return false;
  Dims shape(sizes.begin(), sizes.end() - 1);
  shape.push_back(samples);
  call.fresh(DType::Long, std::move(shape));
  return true;
}

bool oneHot(Call& call) {
  int64_t classes = -1;
  if (!isIndex(call[0]) || !call.integer(1, classes) || classes <= 0) return false;
  const TensorMeta& meta = *call[0].tensor;
  if (isZero(meta.numel()) || !hasPlainStrides(meta)) return false;
  Dims sizes = meta.sizes;
  sizes.push_back(classes);
  call.fresh(DType::Long, std::move(sizes));
  return true;
}

// bucketize(input, boundaries, *, out_int32, right), searchsorted(sorted_sequence, input, *, out_int32, right)
constexpr uint32_t kSortedFirst = kFirstFreeBit << 1;

bool searchSorted(Call& call) {
  const bool sorted_first = (call.detail() & kSortedFirst) != 0;
  const Arg& values = call[sorted_first ? 1 : 0];
  const Arg& sorted = call[sorted_first ? 0 : 1];
  bool narrow = false, unused = false;
  if (!values.isTensor() || !sorted.isTensor() || !call.flagOr(2, false, narrow) ||
      !call.flagOr(3, false, unused))
    return false;
  const TensorMeta &input = *values.tensor, &bounds = *sorted.tensor;
  if (input.dtype != bounds.dtype || !isOrdinary(input.dtype) || isComplex(input.dtype) ||
      input.dtype == DType::Bool || bounds.sizes.size() != 1)
    return false;
  if (!hasPlainStrides(input) || !hasPlainStrides(bounds) || isZero(input.numel())) return false;
  call.freshNoGrad(narrow ? DType::Int : DType::Long, input.sizes, input.strides);
  return true;
}

constexpr OpRow kRows[] = {
    {"Tensor.__getitem__ operator.getitem", "self, index", getItem, kMixedDevices},
    {"Tensor.__setitem__ operator.setitem", "self, index, value", setItem, kMixedDevices},
    {"torch|Tensor.gather", "input, dim, index, *, sparse_grad", gather},
    {"torch|Tensor.scatter !Tensor.scatter_", "input, dim, index, src|value", scatter, kNumbers},
    {"torch|Tensor.scatter_add !Tensor.scatter_add_", "input, dim, index, src", scatter},
    {"torch|Tensor.scatter_reduce !Tensor.scatter_reduce_",
     "input, dim, index, src, reduce, *, include_self", scatterReduce},
    {"torch|Tensor.index_select", "input, dim, index", indexSelect},
    {"torch|Tensor.index_add !Tensor.index_add_", "input, dim, index, source, *, alpha",
     indexWrite},
    {"torch|Tensor.index_copy !Tensor.index_copy_", "input, dim, index, source", indexWrite},
    {"torch|Tensor.masked_scatter !Tensor.masked_scatter_", "input, mask, source", maskedScatter},
    {"torch|Tensor.masked_fill !Tensor.masked_fill_", "input, mask, value", maskedFill,
     kScalarsAnywhere},
    {"torch.cat|concat|concatenate", "tensors, dim|axis", cat},
    {"torch.stack", "tensors, dim", stack},
    {"Tensor.repeat", "input, *repeats", repeat},
    {"torch.tile", "input, dims", repeat, kNumbers},
    {"Tensor.tile", "input, *dims", repeat, kNumbers},
    {"torch|Tensor.repeat_interleave", "input, repeats, dim, *, output_size", repeatInterleave},
    {"torch.flip", "input, dims", sameSizesDense},
    {"Tensor.flip", "input, *dims", sameSizesDense},
    {"torch|Tensor.roll", "input, shifts, dims", roll},
    {"torch|Tensor.tril|triu !Tensor.tril_|triu_", "input, diagonal", triangle},
    {"torch|Tensor.diff", "input, n, dim, prepend, append", diff},
    {"torch.hstack", "tensors", stackAlong},
    {"torch.vstack|row_stack", "tensors", stackAlong, kNumbers},
    {"torch|Tensor.bernoulli", "input", bernoulli, kRandomOp},
    {"torch|Tensor.multinomial", "input, num_samples, replacement", multinomial, kRandomOp},
    {"torch.bucketize", "input, boundaries, *, out_int32, right", searchSorted},
    {"torch.searchsorted", "sorted_sequence, input, *, out_int32, right", searchSorted,
     kSortedFirst},
    {"F|nn.one_hot", "tensor|input, num_classes", oneHot},
};

}  // namespace

std::span<const OpRow> indexingRows() { return kRows; }

}  // namespace stator::shapes
