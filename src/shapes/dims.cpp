#include "shapes/dims.h"

#include "symbolic/environment.h"

#include <algorithm>
#include <utility>

namespace stator::shapes {

using c10::MemoryFormat;

namespace {

// Dims from the one that varies fastest to the one that varies slowest.
constexpr size_t kChannelsLastOrder3[] = {0, 2, 1};
constexpr size_t kChannelsLastOrder4[] = {1, 3, 2, 0};
constexpr size_t kChannelsLastOrder5[] = {1, 4, 3, 2, 0};

std::span<const size_t> channelsLastOrder(size_t rank) {
  switch (rank) {
    case 3:
      return kChannelsLastOrder3;
    case 4:
      return kChannelsLastOrder4;
    case 5:
      return kChannelsLastOrder5;
    default:
      return {};
  }
}

// -1: dim `left` varies faster than `right`; 1: slower; 0: the operands do not say.
int compareDims(const Dims& shape, std::span<const Dims> strides, size_t left, size_t right) {
  for (const Dims& operand : strides) {
    const Dim left_stride = operand[left];
    const Dim right_stride = operand[right];
    if (isZero(left_stride) || isZero(right_stride)) continue;  // broadcast: no opinion
    if (lessThan(left_stride, right_stride)) return -1;
    if (lessThan(right_stride, left_stride)) return 1;
    if (lessThan(shape[right], shape[left])) return 1;
  }
  return 0;
}

Dims stridesByOrder(const Dims& shape, std::span<const Dims> operands, bool skip_ones) {
  const size_t rank = shape.size();
  std::vector<size_t> order(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = rank - 1 - i;
  for (size_t i = 1; i < rank; ++i) {
    size_t moving = i;
    for (size_t before = i; before-- > 0;) {
      const int comparison = compareDims(shape, operands, order[before], order[moving]);
      if (comparison > 0) {
        std::swap(order[before], order[moving]);
        moving = before;
      } else if (comparison < 0) {
        break;
      }
    }
  }
  bool reversed = true;
  for (size_t i = 0; i < rank; ++i) reversed = reversed && order[i] == rank - 1 - i;
  if (reversed && !skip_ones) return contiguousStrides(shape);
  Dims strides(rank);
  Dim next = 1;
  for (size_t dim : order) {
    strides[dim] = next;
    if (!skip_ones || lessThan(1, shape[dim])) next *= shape[dim];
  }
  return strides;
}

}  // namespace

Dim product(const Dims& dims) { return product(dims, 0, dims.size()); }

Dim product(const Dims& dims, size_t from, size_t to) {
  Dim result = 1;
  for (size_t i = from; i < to; ++i) result *= dims[i];
  return result;
}

bool wrapDim(int64_t& dim, size_t rank) {
  const auto limit = static_cast<int64_t>(rank == 0 ? 1 : rank);
  if (dim < -limit || dim >= limit) return false;
  if (dim < 0) dim += limit;
  return true;
}

bool expectAtMost(Dim left, Dim right) {
  if (left.isStatic() && right.isStatic()) return left <= right;
  return symbolic::Environment::current()->expect(symbolic::lessOrEqual(left.expr(), right.expr()));
}

bool broadcastInto(Dims& sizes, const Dims& other) {
  if (sizes.size() < other.size()) sizes.insert(sizes.begin(), other.size() - sizes.size(), 1);
  const size_t offset = sizes.size() - other.size();
  for (size_t i = 0; i < other.size(); ++i) {
    Dim& mine = sizes[offset + i];
    if (same(mine, other[i]) || isOne(other[i])) continue;
    if (!isOne(mine)) return false;
    mine = other[i];
  }
  return true;
}

Dims contiguousStrides(const Dims& sizes) {
  Dims strides(sizes.size());
  Dim next = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = next;
    if (!isZero(sizes[i])) next *= sizes[i];
  }
  return strides;
}

Dims channelsLastStrides(const Dims& sizes) {
  Dims strides(sizes.size());
  Dim next = 1;
  for (size_t dim : channelsLastOrder(sizes.size())) {
    strides[dim] = next;
    next *= sizes[dim];
  }
  return strides;
}

Dims stridesOf(const Dims& sizes, MemoryFormat format) {
  const bool channels_last = (format == MemoryFormat::ChannelsLast && sizes.size() == 4) ||
                             (format == MemoryFormat::ChannelsLast3d && sizes.size() == 5);
  return channels_last ? channelsLastStrides(sizes) : contiguousStrides(sizes);
}

bool isContiguous(const Dims& sizes, const Dims& strides) {
  Dim expected = 1;
  bool in_order = true;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (isZero(sizes[i])) return true;
    // Behind the first stride that does not fit, only an empty dim could still make a difference: nothing else may be
    // decided there.
    if (!in_order || isOne(sizes[i])) continue;
    if (same(strides[i], expected)) {
      expected *= sizes[i];
    } else {
      in_order = false;
    }
  }
  return in_order;
}

bool hasPlainStrides(const TensorMeta& meta) {
  return meta.strides == contiguousStrides(meta.sizes);
}

bool isChannelsLast(const Dims& sizes, const Dims& strides) {
  if (sizes.size() != 4 && sizes.size() != 5) return false;
  Dim expected = 1;
  for (size_t dim : channelsLastOrder(sizes.size())) {
    if (isOne(sizes[dim])) continue;
    if (!same(strides[dim], expected)) return false;
    expected *= sizes[dim];
  }
  return true;
}

bool isNonOverlappingDense(const Dims& sizes, const Dims& strides) {
  if (isContiguous(sizes, strides) || isChannelsLast(sizes, strides)) return true;
  const size_t rank = sizes.size();
  if (rank == 1) return lessThan(sizes[0], 2) || isOne(strides[0]);
  std::vector<size_t> order;
  order.reserve(rank);
  for (size_t i = 0; i < rank; ++i) {
    if (!lessThan(sizes[i], 2)) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t left, size_t right) {
    return lessThan(strides[left], strides[right]);
  });
  Dim expected = 1;
  for (size_t dim : order) {
    if (!same(strides[dim], expected)) return false;
    expected *= sizes[dim];
  }
  return true;
}

bool stridesLikeChannelsLast(const Dims& sizes, const Dims& strides) {
  if (sizes.size() != 4 && sizes.size() != 5) return false;
  if (isZero(strides[1])) return false;
  Dim least = 0;
  for (size_t dim : channelsLastOrder(sizes.size())) {
    if (isZero(sizes[dim]) || lessThan(strides[dim], least)) return false;
    // N11..1: both orders fit, and the plain one wins.
    if (dim == 0 && same(least, strides[1])) return false;
    least = strides[dim];
    if (lessThan(1, sizes[dim])) least *= sizes[dim];
  }
  return true;
}

MemoryFormat suggestedFormat(const TensorMeta& meta) {
  if (!stridesLikeChannelsLast(meta.sizes, meta.strides)) return MemoryFormat::Contiguous;
  return meta.sizes.size() == 4 ? MemoryFormat::ChannelsLast : MemoryFormat::ChannelsLast3d;
}

bool isContiguousIn(const TensorMeta& meta, MemoryFormat format) {
  switch (format) {
    case MemoryFormat::ChannelsLast:
      return meta.sizes.size() == 4 && isChannelsLast(meta.sizes, meta.strides);
    case MemoryFormat::ChannelsLast3d:
      return meta.sizes.size() == 5 && isChannelsLast(meta.sizes, meta.strides);
    default:
      return isContiguous(meta.sizes, meta.strides);
  }
}

bool mayOverlap(const Dims& sizes, const Dims& strides) {
  std::vector<size_t> order;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (isZero(sizes[i])) return false;
    if (!isOne(sizes[i])) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](size_t left, size_t right) { return lessThan(strides[left], strides[right]); });
  Dim reach = 0;
  for (size_t dim : order) {
    if (!lessThan(reach, strides[dim])) return true;
    reach += (sizes[dim] - 1) * strides[dim];
  }
  return false;
}

Dims elementwiseStrides(const Dims& shape, std::span<const Layout> operands) {
  bool all_same_shape = true;
  bool all_contiguous = true;
  for (const Layout& operand : operands) {
    all_same_shape = all_same_shape && *operand.sizes == shape;
    all_contiguous = all_contiguous && isContiguous(*operand.sizes, *operand.strides);
  }
  if (all_same_shape) {
    if (all_contiguous) return contiguousStrides(shape);
    bool all_channels_last = shape.size() == 4;
    bool all_alike = true;
    for (const Layout& operand : operands) {
      all_channels_last = all_channels_last && isChannelsLast(shape, *operand.strides);
      all_alike = all_alike && *operand.strides == *operands[0].strides;
    }
    if (all_channels_last) return channelsLastStrides(shape);
    if (all_alike && isNonOverlappingDense(shape, *operands[0].strides))
      return *operands[0].strides;
  }
  const size_t rank = shape.size();
  std::vector<Dims> strides;
  strides.reserve(operands.size());
  for (const Layout& operand : operands) {
    if (operand.sizes->empty()) continue;  // a scalar has no opinion on the order
    Dims& expanded = strides.emplace_back(rank, 0);
    const size_t offset = rank - operand.sizes->size();
    for (size_t i = 0; i < operand.sizes->size(); ++i) {
      const bool is_broadcast = isOne((*operand.sizes)[i]) && !isOne(shape[offset + i]);
      if (!is_broadcast) expanded[offset + i] = (*operand.strides)[i];
    }
  }
  return stridesByOrder(shape, strides, false);
}

Dims orderedStrides(const Dims& shape, const Dims& strides) {
  const Dims operand[] = {strides};
  return stridesByOrder(shape, operand, false);
}

Dims denseStridesLike(const Dims& sizes, const Dims& strides) {
  if (isNonOverlappingDense(sizes, strides)) return strides;
  const Dims operand[] = {strides};
  return stridesByOrder(sizes, operand, true);
}

bool viewStrides(const Dims& sizes, const Dims& strides, const Dims& shape, Dims& out) {
  out.assign(shape.size(), 1);
  const Dim count = product(sizes);
  if (isZero(count)) {
    if (sizes == shape) {
      out = strides;
      return true;
    }
    // Any strides do for nothing: those of a contiguous tensor.
    out = contiguousStrides(shape);
    return true;
  }
  if (sizes.empty()) return true;
  // Walk both shapes from the last dim on: a run of old dims that is contiguous in itself takes as many new dims as
  // fill it.
  auto to = static_cast<int64_t>(shape.size()) - 1;
  Dim chunk_stride = strides.back();
  Dim old_count = 1;
  Dim new_count = 1;
  for (auto from = static_cast<int64_t>(sizes.size()) - 1; from >= 0; --from) {
    old_count *= sizes[from];
    const bool run_ends = from == 0 || (!isOne(sizes[from - 1]) &&
                                        !same(strides[from - 1], old_count * chunk_stride));
    if (!run_ends) continue;
    while (to >= 0 && (lessThan(new_count, old_count) || isOne(shape[to]))) {
      out[to] = new_count * chunk_stride;
      new_count *= shape[to];
      --to;
    }
    if (!same(new_count, old_count)) return false;
    if (from > 0) {
      chunk_stride = strides[from - 1];
      old_count = 1;
      new_count = 1;
    }
  }
  return to == -1;
}

Dim storageBytes(const Dims& sizes, const Dims& strides, int64_t item_size) {
  Dim last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (isZero(sizes[i])) return 0;
    last += (sizes[i] - 1) * strides[i];
  }
  return (last + 1) * item_size;
}

}  // namespace stator::shapes
