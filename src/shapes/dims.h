// Sizes and strides: broadcasting, layouts, and the strides that elementwise ops give their results. Rules decide on
// dims through the helpers here alone, so that a dim can become a symbolic expression without touching them.
#pragma once

#include "shapes/tensor_meta.h"

#include <span>
#include <torch/headeronly/core/MemoryFormat.h>

namespace stator::shapes {

inline bool same(Dim left, Dim right) { return left == right; }
inline bool isOne(Dim dim) { return dim == 1; }
inline bool isZero(Dim dim) { return dim == 0; }
inline bool isNegative(Dim dim) { return dim < 0; }
inline bool lessThan(Dim left, Dim right) { return left < right; }
// left <= right, where the operation raises otherwise
bool expectAtMost(Dim left, Dim right);
inline Dim ceilDiv(Dim left, Dim right) { return -floorDiv(-left, right); }
Dim product(const Dims& dims);
Dim product(const Dims& dims, size_t from, size_t to);

// Counts a negative dim from the end. False: out of range. A rank of 0 takes -1 and 0, as torch does.
bool wrapDim(int64_t& dim, size_t rank);

// False: the sizes do not fit.
bool broadcastInto(Dims& sizes, const Dims& other);

Dims contiguousStrides(const Dims& sizes);
Dims channelsLastStrides(const Dims& sizes);  // rank 3, 4 or 5
Dims stridesOf(const Dims& sizes, c10::MemoryFormat format);

bool isContiguous(const Dims& sizes, const Dims& strides);
// Contiguous, and with the very strides of a new tensor (dims of size one may carry others).
bool hasPlainStrides(const TensorMeta& meta);
// rank 4 or 5: dense in that order
bool isChannelsLast(const Dims& sizes, const Dims& strides);
// some order of the dims makes it contiguous
bool isNonOverlappingDense(const Dims& sizes, const Dims& strides);
// the order alone, gaps allowed
bool stridesLikeChannelsLast(const Dims& sizes, const Dims& strides);
c10::MemoryFormat suggestedFormat(const TensorMeta& meta);
bool isContiguousIn(const TensorMeta& meta, c10::MemoryFormat format);
// two indices may reach one element
bool mayOverlap(const Dims& sizes, const Dims& strides);

// The strides of the result of an elementwise op over operands that broadcast to `shape` (TensorIterator's choice): all
// contiguous or all channels-last or all of one dense layout keep it; otherwise the dims are ordered by the operands'
// strides, first operand first.
struct Layout {
  const Dims* sizes;
  const Dims* strides;
};
Dims elementwiseStrides(const Dims& shape, std::span<const Layout> operands);
// The same, by the order of one operand's strides alone (zero: no opinion).
Dims orderedStrides(const Dims& shape, const Dims& strides);
// What empty_like with preserve_format gives: the tensor's own order without gaps.
Dims denseStridesLike(const Dims& sizes, const Dims& strides);

// View of `sizes`/`strides` as `shape` without a copy; false if there is none.
bool viewStrides(const Dims& sizes, const Dims& strides, const Dims& shape, Dims& out);

Dim storageBytes(const Dims& sizes, const Dims& strides, int64_t item_size);

}  // namespace stator::shapes
