// Parts of a tensor as views: one slice of a dim, a run of it, all pieces of it, a diagonal, sliding windows, strides
// at will.
#include "shapes/rules/views.h"

#include <algorithm>

namespace stator::shapes {

namespace {

bool select(Call& call) {
  if (!call[0].isTensor() || call[0].tensor->sizes.empty()) return false;
  const TensorMeta& meta = *call[0].tensor;
  int64_t dim = 0;
  Dim index = 0;
  if (!call.dim(1, meta.sizes.size(), dim) || !call.size(2, index)) return false;
  if (!lessThan(index, meta.sizes[dim]) || lessThan(index, -meta.sizes[dim])) return false;
  if (index < 0) index += meta.sizes[dim];
  Dims sizes = meta.sizes;
  Dims strides = meta.strides;
  sizes.erase(sizes.begin() + dim);
  strides.erase(strides.begin() + dim);
  call.view(call[0], std::move(sizes), std::move(strides),
            meta.storage_offset + index * meta.strides[dim]);
  return true;
}

bool narrow(Call& call) {
  if (!call[0].isTensor() || call[0].tensor->sizes.empty()) return false;
  const TensorMeta& meta = *call[0].tensor;
  int64_t dim = 0;
  Dim start = 0;
  Dim length = 0;
  if (!call.dim(1, meta.sizes.size(), dim) || !call.size(2, start) || !call.size(3, length))
    return false;
  const Dim size = meta.sizes[dim];
  if (lessThan(start, -size) || lessThan(size, start) || length < 0) return false;
  if (start < 0) start += size;
  if (!expectAtMost(start + length, size)) return false;
  addNarrow(call, call[0], static_cast<size_t>(dim), start, length);
  return true;
}

bool addPieces(Call& call, size_t dim, const Dims& lengths) {
  Dim start = 0;
  for (Dim length : lengths) {
    addNarrow(call, call[0], dim, start, length);
    start += length;
  }
  call.structure(Structure::kTuple);
  return true;
}

Dims equalPieces(Dim size, Dim piece) {
  // How many there are is part of the program: that number is decided.
  Dims lengths(static_cast<size_t>(std::max<int64_t>(ceilDiv(size, piece).value(), 1)), piece);
  lengths.back() = size - piece * static_cast<Dim>(lengths.size() - 1);
  return lengths;
}

bool split(Call& call) {
  if (!call[0].isTensor() || call[0].tensor->sizes.empty()) return false;
  const TensorMeta& meta = *call[0].tensor;
  int64_t dim = 0;
  if (!call.integerOr(2, 0, dim) || !wrapDim(dim, meta.sizes.size())) return false;
  const Dim size = meta.sizes[dim];
  if (call[1].isInt()) {
    const Dim piece = call[1].dim();
    if (piece <= 0) return false;
    return addPieces(call, static_cast<size_t>(dim), equalPieces(size, piece));
  }
  Dims lengths;
  if (!call.ints(1, lengths)) return false;
  Dim total = 0;
  for (Dim length : lengths) {
    if (isNegative(length)) return false;
    total += length;
  }
  return expectEqual(total, size) && addPieces(call, static_cast<size_t>(dim), lengths);
}

bool chunk(Call& call) {
  int64_t chunks = 0;
  int64_t dim = 0;
  if (!call[0].isTensor() || call[0].tensor->sizes.empty() || !call.integer(1, chunks) ||
      chunks <= 0)
    return false;
  const TensorMeta& meta = *call[0].tensor;
  if (!call.integerOr(2, 0, dim) || !wrapDim(dim, meta.sizes.size())) return false;
  const Dim piece = ceilDiv(meta.sizes[dim], chunks);
  if (isZero(piece)) return false;
  return addPieces(call, static_cast<size_t>(dim), equalPieces(meta.sizes[dim], piece));
}

bool unbind(Call& call) {
  int64_t dim = 0;
  if (!call[0].isTensor() || call[0].tensor->sizes.empty()) return false;
  const TensorMeta& meta = *call[0].tensor;
  if (!call.integerOr(1, 0, dim) || !wrapDim(dim, meta.sizes.size())) return false;
  Dims sizes = meta.sizes;
  Dims strides = meta.strides;
  sizes.erase(sizes.begin() + dim);
  strides.erase(strides.begin() + dim);
  const int64_t pieces = meta.sizes[dim].value();
  for (int64_t i = 0; i < pieces; ++i) {
    call.view(call[0], sizes, strides, meta.storage_offset + i * meta.strides[dim]);
  }
  call.structure(Structure::kTuple);
  return true;
}

bool diagonal(Call& call) {
  if (!call[0].isTensor()) return false;
  const TensorMeta& meta = *call[0].tensor;
  const size_t rank = meta.sizes.size();
  int64_t offset = 0;
  int64_t first = 0;
  int64_t second = 1;
  if (!call.integerOr(1, 0, offset) || !call.integerOr(2, 0, first) ||
      !call.integerOr(3, 1, second))
    return false;
  if (rank < 2 || !wrapDim(first, rank) || !wrapDim(second, rank) || first == second) return false;
  Dim length = 0;
  Dim start = meta.storage_offset;
  if (offset >= 0) {
    length = std::max<Dim>(std::min(meta.sizes[first], meta.sizes[second] - offset), 0);
    if (!isZero(length)) start += offset * meta.strides[second];
  } else {
    length = std::max<Dim>(std::min(meta.sizes[first] + offset, meta.sizes[second]), 0);
    if (!isZero(length)) start -= offset * meta.strides[first];
  }
  Dims sizes;
  Dims strides;
  for (size_t i = 0; i < rank; ++i) {
    if (i == static_cast<size_t>(first) || i == static_cast<size_t>(second)) continue;
    sizes.push_back(meta.sizes[i]);
    strides.push_back(meta.strides[i]);
  }
  sizes.push_back(length);
  strides.push_back(meta.strides[first] + meta.strides[second]);
  call.view(call[0], std::move(sizes), std::move(strides), start);
  return true;
}

bool unfoldView(Call& call) {
  if (!call[0].isTensor() || call[0].tensor->sizes.empty()) return false;
  const TensorMeta& meta = *call[0].tensor;
  int64_t dim = 0;
  int64_t size = 0;
  int64_t step = 0;
  if (!call.dim(1, meta.sizes.size(), dim) || !call.integer(2, size) || !call.integer(3, step))
    return false;
  if (size < 0 || step <= 0 || lessThan(meta.sizes[dim], size)) return false;
  Dims sizes = meta.sizes;
  Dims strides = meta.strides;
  sizes.push_back(size);
  strides.push_back(strides[dim]);
  sizes[dim] = (sizes[dim] - size) / step + 1;
  strides[dim] *= step;
  call.view(call[0], std::move(sizes), std::move(strides), meta.storage_offset);
  return true;
}

bool asStrided(Call& call) {
  Dims sizes;
  Dims strides;
  Dim offset = 0;
  if (!call[0].isTensor() || !call.ints(1, sizes) || !call.ints(2, strides) ||
      sizes.size() != strides.size())
    return false;
  const TensorMeta& meta = *call[0].tensor;
  offset = meta.storage_offset;
  if ((call[3].given() && !call.size(3, offset)) || offset < 0) return false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (isNegative(sizes[i]) || isNegative(strides[i])) return false;
  }
  const int64_t item = itemSize(meta.dtype);
  if (lessThan(meta.storage_bytes, storageBytes(sizes, strides, item) + offset * item))
    return false;
  call.view(call[0], std::move(sizes), std::move(strides), offset);
  return true;
}

constexpr OpRow kRows[] = {
    {"torch|Tensor.select", "input, dim, index", select},
    {"torch|Tensor.narrow", "input, dim, start, length", narrow},
    {"torch|Tensor.split", "input|tensor, split_size_or_sections|split_size, dim", split},
    {"torch|Tensor.split_with_sizes", "input, split_sizes, dim", split},
    {"torch|Tensor.chunk", "input, chunks, dim", chunk},
    {"torch|Tensor.unbind", "input, dim", unbind},
    {"torch|Tensor.diagonal", "input, offset, dim1, dim2", diagonal},
    {"Tensor.unfold", "input, dimension, size, step", unfoldView},
    {"torch|Tensor.as_strided", "input, size, stride, storage_offset", asStrided},
};

}  // namespace

std::span<const OpRow> pieceRows() { return kRows; }

}  // namespace stator::shapes
