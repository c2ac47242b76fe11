// Views: the same storage under other sizes, strides and offset; and reshape, which copies where no view exists.
#include "shapes/rules/views.h"

#include "symbolic/environment.h"

#include <algorithm>
#include <numeric>

namespace stator::shapes {

bool inferShape(Dims& shape, Dim count) {
  int64_t unknown = -1;
  Dim known = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (same(shape[i], -1)) {
      if (unknown >= 0) return false;
      unknown = static_cast<int64_t>(i);
    } else if (isNegative(shape[i])) {
      return false;
    } else {
      known *= shape[i];
    }
  }
  if (unknown < 0) return same(known, count);
  if (isZero(known) || !same(count % known, 0)) return false;
  shape[static_cast<size_t>(unknown)] = count / known;
  return true;
}

bool addView(Call& call, const Arg& base, Dims shape) {
  const TensorMeta& meta = *base.tensor;
  Dims strides;
  if (!viewStrides(meta.sizes, meta.strides, shape, strides)) return false;
  call.view(base, std::move(shape), std::move(strides), meta.storage_offset);
  return true;
}

bool addReshape(Call& call, const Arg& base, Dims shape) {
  if (!inferShape(shape, base.tensor->numel())) return false;
  if (addView(call, base, shape)) return true;
  call.fresh(base.tensor->dtype, std::move(shape));
  return true;
}

void addNarrow(Call& call, const Arg& base, size_t dim, Dim start, Dim length) {
  const TensorMeta& meta = *base.tensor;
  Dims sizes = meta.sizes;
  sizes[dim] = length;
  call.view(base, std::move(sizes), meta.strides, meta.storage_offset + start * meta.strides[dim]);
}

namespace {

// Bounds of a slice are no sizes: one that depends on data may be anything, 0, 1 and negative numbers included.
bool isBelow(Dim left, Dim right) {
  if (left.isStatic() && right.isStatic()) return left < right;
  return symbolic::Environment::current()->decide(symbolic::lessThan(left.expr(), right.expr()));
}

bool isEqual(Dim left, Dim right) {
  if (left.isStatic() && right.isStatic()) return left == right;
  return symbolic::Environment::current()->decide(symbolic::equal(left.expr(), right.expr()));
}

// Part of a dim, from a bound that may count from either end: all that is known is that it is no more than the dim.
Dim openSize(Dim size) {
  symbolic::Environment& known = *symbolic::Environment::current();
  return Dim::of(known.addUnbacked({0, known.rangeOf(size.expr()).high}));
}

// The smaller, or larger, of two. Where nobody can say yet which one that is, it stays open.
Dim bounded(Dim value, Dim limit, bool from_above) {
  try {
    return (from_above ? isBelow(limit, value) : isBelow(value, limit)) ? limit : value;
  } catch (const symbolic::Undecided&) {
    return Dim::of(from_above ? symbolic::least(value.expr(), limit.expr())
                              : symbolic::greatest(value.expr(), limit.expr()));
  }
}

}  // namespace

bool sliceDim(const Arg& slice, Dim size, Dim& start, Dim& length, Dim& step) {
  Dim stop = size;
  start = 0;
  step = 1;
  const auto read = [](const Arg& part, Dim& value) {
    if (part.is(Arg::Kind::kNone)) return true;
    if (!part.isInt()) return false;
    value = part.dim();
    return true;
  };
  if (!read(slice.items[0], start) || !read(slice.items[1], stop) || !read(slice.items[2], step))
    return false;
  if (step <= 0) return false;
  try {
    if (isBelow(start, 0)) start += size;
    start = bounded(bounded(start, 0, false), size, true);
  } catch (const symbolic::Undecided&) {
    start = openSize(size);
    length = openSize(size);
    return true;
  }
  try {
    if (isBelow(stop, 0)) stop += size;
    stop = bounded(bounded(stop, start, false), size, true);
  } catch (const symbolic::Undecided&) {
    length = openSize(size);
    return true;
  }
  length = ceilDiv(stop - start, step);
  return true;
}

namespace {

bool viewOp(Call& call) {
  Dims shape;
  if (!call[0].isTensor() || !call[1].isSequence() || !call.ints(1, shape)) return false;
  return inferShape(shape, call[0].tensor->numel()) && addView(call, call[0], std::move(shape));
}

bool viewAs(Call& call) {
  if (!call[0].isTensor() || !call[1].isTensor()) return false;
  if (!same(call[0].tensor->numel(), call[1].tensor->numel())) return false;
  return addView(call, call[0], call[1].tensor->sizes);
}

bool reshape(Call& call) {
  Dims shape;
  return call[0].isTensor() && call[1].isSequence() && call.ints(1, shape) &&
         addReshape(call, call[0], std::move(shape));
}

bool reshapeAs(Call& call) {
  return call[0].isTensor() && call[1].isTensor() &&
         addReshape(call, call[0], call[1].tensor->sizes);
}

bool flatten(Call& call) {
  if (!call[0].isTensor()) return false;
  const TensorMeta& meta = *call[0].tensor;
  const size_t rank = meta.sizes.size();
  int64_t first = 0;
  int64_t last = 0;
  if (!call.integerOr(1, 0, first) || !call.integerOr(2, -1, last)) return false;
  if (!wrapDim(first, rank) || !wrapDim(last, rank) || first > last) return false;
  if (rank == 0) return addReshape(call, call[0], {1});
  if (first == last) {
    call.same(call[0]);
    return true;
  }
  Dims shape(meta.sizes.begin(), meta.sizes.begin() + first);
  shape.push_back(product(meta.sizes, static_cast<size_t>(first), static_cast<size_t>(last) + 1));
  shape.insert(shape.end(), meta.sizes.begin() + last + 1, meta.sizes.end());
  return addReshape(call, call[0], std::move(shape));
}

bool ravel(Call& call) {
  if (!call[0].isTensor()) return false;
  const TensorMeta& meta = *call[0].tensor;
  if (!isContiguous(meta.sizes, meta.strides)) {
    call.fresh(meta.dtype, {meta.numel()});
    return true;
  }
  return addView(call, call[0], {meta.numel()});
}

bool unflatten(Call& call) {
  if (!call[0].isTensor() || !call[2].isSequence()) return false;
  const TensorMeta& meta = *call[0].tensor;
  int64_t dim = 0;
  Dims parts;
  if (!call.dim(1, meta.sizes.size(), dim) || meta.sizes.empty() || !call.ints(2, parts) ||
      parts.empty())
    return false;
  if (!inferShape(parts, meta.sizes[dim])) return false;
  Dims shape = meta.sizes;
  shape.erase(shape.begin() + dim);
  shape.insert(shape.begin() + dim, parts.begin(), parts.end());
  return addView(call, call[0], std::move(shape));
}

bool addPermuted(Call& call, const Arg& base, const std::vector<size_t>& order) {
  const TensorMeta& meta = *base.tensor;
  Dims sizes(order.size());
  Dims strides(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    sizes[i] = meta.sizes[order[i]];
    strides[i] = meta.strides[order[i]];
  }
  call.view(base, std::move(sizes), std::move(strides), meta.storage_offset);
  return true;
}

bool permute(Call& call) {
  std::vector<int64_t> dims;
  if (!call[0].isTensor() || !call[1].isSequence() || !call.axes(1, dims)) return false;
  const size_t rank = call[0].tensor->sizes.size();
  if (dims.size() != rank) return false;
  std::vector<size_t> order(rank);
  std::vector<bool> seen(rank, false);
  for (size_t i = 0; i < rank; ++i) {
    int64_t dim = dims[i];
    if (!wrapDim(dim, rank) || seen[dim]) return false;
    seen[dim] = true;
    order[i] = static_cast<size_t>(dim);
  }
  return addPermuted(call, call[0], order);
}

bool addTransposed(Call& call, const Arg& base, int64_t first, int64_t second) {
  const TensorMeta& meta = *base.tensor;
  Dims sizes = meta.sizes;
  Dims strides = meta.strides;
  if (!sizes.empty()) {
    std::swap(sizes[first], sizes[second]);
    std::swap(strides[first], strides[second]);
  }
  call.view(base, std::move(sizes), std::move(strides), meta.storage_offset);
  return true;
}

bool transpose(Call& call) {
  if (!call[0].isTensor()) return false;
  const size_t rank = call[0].tensor->sizes.size();
  int64_t first = 0;
  int64_t second = 0;
  if (!call.dim(1, rank, first) || !call.dim(2, rank, second)) return false;
  return addTransposed(call, call[0], first, second);
}

bool transposeMatrix(Call& call) {  // t, T
  if (!call[0].isTensor()) return false;
  const size_t rank = call[0].tensor->sizes.size();
  if (rank > 2) return false;
  return addTransposed(call, call[0], 0, rank < 2 ? 0 : 1);
}

bool transposeLast(Call& call) {  // mT
  if (!call[0].isTensor()) return false;
  const auto rank = static_cast<int64_t>(call[0].tensor->sizes.size());
  return rank >= 2 && addTransposed(call, call[0], rank - 2, rank - 1);
}

bool movedim(Call& call) {
  std::vector<int64_t> from;
  std::vector<int64_t> to;
  if (!call[0].isTensor() || !call.axes(1, from) || !call.axes(2, to) || from.size() != to.size())
    return false;
  const size_t rank = call[0].tensor->sizes.size();
  if (rank == 0) return false;
  constexpr size_t kFree = SIZE_MAX;
  std::vector<size_t> order(rank, kFree);
  std::vector<bool> moved(rank, false);
  for (size_t i = 0; i < from.size(); ++i) {
    if (!wrapDim(from[i], rank) || !wrapDim(to[i], rank)) return false;
    if (moved[from[i]] || order[to[i]] != kFree) return false;
    moved[from[i]] = true;
    order[to[i]] = static_cast<size_t>(from[i]);
  }
  size_t next = 0;
  for (size_t& slot : order) {
    if (slot != kFree) continue;
    while (moved[next]) ++next;
    slot = next++;
  }
  return addPermuted(call, call[0], order);
}

bool unsqueeze(Call& call) {
  int64_t dim = 0;
  if (!call[0].isTensor() || !call.dim(1, call[0].tensor->sizes.size() + 1, dim)) return false;
  const TensorMeta& meta = *call[0].tensor;
  Dims sizes = meta.sizes;
  Dims strides = meta.strides;
  const bool inner = static_cast<size_t>(dim) < sizes.size();
  const Dim stride = inner ? sizes[dim] * strides[dim] : 1;
  sizes.insert(sizes.begin() + dim, 1);
  strides.insert(strides.begin() + dim, stride);
  call.view(call[0], std::move(sizes), std::move(strides), meta.storage_offset);
  return true;
}

bool squeeze(Call& call) {
  if (!call[0].isTensor()) return false;
  const TensorMeta& meta = *call[0].tensor;
  const size_t rank = meta.sizes.size();
  std::vector<bool> candidates(std::max<size_t>(rank, 1), call[1].is(Arg::Kind::kAbsent));
  if (!call[1].is(Arg::Kind::kAbsent)) {
    std::vector<int64_t> dims;
    if (!call.axes(1, dims)) return false;
    for (int64_t& dim : dims) {
      if (!wrapDim(dim, rank) || candidates[dim]) return false;
      candidates[dim] = true;
    }
  }
  Dims sizes;
  Dims strides;
  for (size_t i = 0; i < rank; ++i) {
    // How many dims there are is not left to luck: whether a size that depends on data is 1 has to be known.
    if (candidates[i] && isEqual(meta.sizes[i], 1)) continue;
    sizes.push_back(meta.sizes[i]);
    strides.push_back(meta.strides[i]);
  }
  call.view(call[0], std::move(sizes), std::move(strides), meta.storage_offset);
  return true;
}

bool addExpanded(Call& call, const Arg& base, Dims sizes) {
  const TensorMeta& meta = *base.tensor;
  const size_t rank = meta.sizes.size();
  if (sizes.size() < rank) return false;
  Dims strides(sizes.size(), 0);
  const size_t offset = sizes.size() - rank;
  for (size_t i = sizes.size(); i-- > 0;) {
    const bool is_new = i < offset;
    const Dim size = is_new ? 1 : meta.sizes[i - offset];
    if (same(sizes[i], -1)) {
      if (is_new) return false;
      sizes[i] = size;
    }
    if (isNegative(sizes[i])) return false;
    if (!same(size, sizes[i])) {
      if (!isOne(size)) return false;
    } else if (!is_new) {
      strides[i] = meta.strides[i - offset];
    } else if (rank != 0) {
      strides[i] = sizes[i + 1] * strides[i + 1];
    }
  }
  call.view(base, std::move(sizes), std::move(strides), meta.storage_offset);
  return true;
}

bool expand(Call& call) {
  Dims sizes;
  return call[0].isTensor() && call[1].isSequence() && call.ints(1, sizes) &&
         addExpanded(call, call[0], std::move(sizes));
}

bool expandAs(Call& call) {
  return call[0].isTensor() && call[1].isTensor() &&
         addExpanded(call, call[0], call[1].tensor->sizes);
}

bool broadcastTensors(Call& call) {
  const Arg& list = call[0];
  Dims shape;
  for (const Arg& item : list.elements()) {
    if (!item.isTensor() || !broadcastInto(shape, item.tensor->sizes)) return false;
  }
  if (list.count == 0) return false;
  for (const Arg& item : list.elements()) {
    if (!addExpanded(call, item, shape)) return false;
  }
  call.structure(Structure::kTuple);
  return true;
}

bool detach(Call& call) {
  if (!call[0].isTensor()) return false;
  const TensorMeta& meta = *call[0].tensor;
  TensorMeta& result = call.view(call[0], meta.sizes, meta.strides, meta.storage_offset);
  result.requires_grad = false;
  result.is_leaf = true;
  return true;
}

bool realPart(Call& call) {
  if (!call[0].isTensor() || isComplex(call[0].tensor->dtype)) return false;
  call.same(call[0]);
  return true;
}

bool viewAsReal(Call& call) {
  if (!call[0].isTensor() || !isComplex(call[0].tensor->dtype)) return false;
  const TensorMeta& meta = *call[0].tensor;
  Dims sizes = meta.sizes;
  Dims strides = meta.strides;
  for (Dim& stride : strides) stride *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  call.view(call[0], std::move(sizes), std::move(strides), meta.storage_offset * 2).dtype =
      toReal(meta.dtype);
  return true;
}

bool viewAsComplex(Call& call) {
  if (!call[0].isTensor()) return false;
  const TensorMeta& meta = *call[0].tensor;
  if (meta.dtype != DType::Float && meta.dtype != DType::Double && meta.dtype != DType::Half)
    return false;
  if (meta.sizes.empty() || !same(meta.sizes.back(), 2) || !isOne(meta.strides.back()))
    return false;
  Dims sizes(meta.sizes.begin(), meta.sizes.end() - 1);
  Dims strides(meta.strides.begin(), meta.strides.end() - 1);
  if (meta.storage_offset % 2 != 0) return false;
  for (Dim& stride : strides) {
    if (!isZero(stride % 2)) return false;
    stride /= 2;
  }
  call.view(call[0], std::move(sizes), std::move(strides), meta.storage_offset / 2).dtype =
      toComplex(meta.dtype);
  return true;
}

constexpr OpRow kRows[] = {
    {"Tensor.view", "input, *size", viewOp},
    {"Tensor.view_as", "input, other", viewAs},
    {"Tensor.reshape", "input, *shape", reshape},
    {"torch.reshape", "input, shape", reshape},
    {"Tensor.reshape_as", "input, other", reshapeAs},
    {"torch|Tensor.flatten", "input, start_dim, end_dim", flatten},
    {"torch|Tensor.ravel", "input", ravel},
    {"torch|Tensor.unflatten", "input, dim, sizes", unflatten},
    {"Tensor.permute", "input, *dims", permute},
    {"torch.permute", "input, dims", permute},
    {"torch|Tensor.transpose", "input, dim0, dim1", transpose},
    {"torch|Tensor.swapaxes", "input, axis0, axis1", transpose},
    {"torch|Tensor.swapdims", "input, dim0, dim1", transpose},
    {"torch|Tensor.t Tensor.T", "input", transposeMatrix},
    {"Tensor.mT", "input", transposeLast},
    {"torch|Tensor.movedim|moveaxis", "input, source, destination", movedim},
    {"torch|Tensor.unsqueeze", "input, dim", unsqueeze},
    {"torch|Tensor.squeeze", "input, dim", squeeze},
    {"Tensor.expand", "input, *size", expand},
    {"torch|Tensor.broadcast_to", "input, size|shape", expand},
    {"Tensor.expand_as", "input, other", expandAs},
    {"torch.broadcast_tensors", "*tensors", broadcastTensors},
    {"torch|Tensor.detach Tensor.data", "input", detach},
    {"torch.real Tensor.real", "input", realPart},
    {"torch.view_as_real", "input", viewAsReal},
    {"torch.view_as_complex", "input", viewAsComplex},
};

}  // namespace

std::span<const OpRow> viewRows() { return kRows; }

}  // namespace stator::shapes
