// Pooling and resizing of images: spatial sizes by formula, the channels-last order kept.
#include "shapes/rules/pointwise.h"

#include <cmath>

namespace stator::shapes {

namespace {

constexpr uint32_t kRankStep = kFirstFreeBit;  // detail: spatial rank times this

bool isFloat(const Arg& arg) {
  return arg.isTensor() && isFloating(arg.tensor->dtype) && isOrdinary(arg.tensor->dtype);
}

// One int for all spatial dims, or one for each. `or_none`: None and nothing at all mean the fallback too.
bool perDim(const Call& call, size_t param, size_t rank, const Dims& fallback, Dims& values,
            bool or_none = false) {
  values = fallback;
  if (call[param].is(Arg::Kind::kAbsent)) return true;
  if (call[param].is(Arg::Kind::kNone)) return or_none;
  Dims read;
  if (!call.ints(param, read)) return false;
  if (read.empty()) return or_none;
  if (read.size() == 1) read.assign(rank, read[0]);
  values = read;
  return read.size() == rank;
}

struct Window {
  Dims kernel, stride, padding, dilation;
  bool ceil = false;
};

bool pooledSize(Dim size, const Window& window, size_t i, Dim& result) {
  const Dim kernel = window.kernel[i];
  const Dim stride = window.stride[i];
  const Dim padding = window.padding[i];
  if (kernel <= 0 || stride <= 0 || padding < 0 || padding * 2 > kernel || window.dilation[i] <= 0)
    return false;
  const Dim room = size + 2 * padding - window.dilation[i] * (kernel - 1) - 1;
  result = floorDiv(room + (window.ceil ? stride - 1 : 0), stride) + 1;
  // The last window has to start inside the input or its left padding.
  if (window.ceil && !lessThan((result - 1) * stride, size + padding)) --result;
  return lessThan(0, result);
}

bool addPooled(Call& call, const Window& window, size_t rank) {
  const TensorMeta& input = *call[0].tensor;
  if (input.sizes.size() != rank + 2 && input.sizes.size() != rank + 1) return false;
  if (isZero(input.numel())) return false;
  Dims sizes = input.sizes;
  for (size_t i = 0; i < rank; ++i) {
    Dim& size = sizes[sizes.size() - rank + i];
    if (!pooledSize(size, window, i, size)) return false;
  }
  const bool plain = hasPlainStrides(input);
  const bool channels_last =
      rank == 2 && input.sizes.size() == 4 && suggestedFormat(input) == MemoryFormat::ChannelsLast;
  if (!plain && !channels_last) return false;
  Dims strides = channels_last ? channelsLastStrides(sizes) : contiguousStrides(sizes);
  call.fresh(input.dtype, std::move(sizes), std::move(strides));
  return true;
}

// input, kernel_size, stride, padding, dilation, ceil_mode, return_indices
bool maxPool(Call& call) {
  const size_t rank = call.detail() / kRankStep;
  Window window;
  bool indices = false;
  if (!isFloat(call[0]) || !call[1].given() || !perDim(call, 1, rank, {}, window.kernel))
    return false;
  if (!perDim(call, 2, rank, window.kernel, window.stride, true)) return false;
  if (!perDim(call, 3, rank, Dims(rank, 0), window.padding) ||
      !perDim(call, 4, rank, Dims(rank, 1), window.dilation))
    return false;
  if (!call.flagOr(5, false, window.ceil) || !call.flagOr(6, false, indices) || indices)
    return false;
  return addPooled(call, window, rank);
}

// input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
bool avgPool(Call& call) {
  const size_t rank = call.detail() / kRankStep;
  Window window;
  bool unused = false;
  if (!isFloat(call[0]) || !call[1].given() || !perDim(call, 1, rank, {}, window.kernel))
    return false;
  if (!perDim(call, 2, rank, window.kernel, window.stride, true)) return false;
  if (!perDim(call, 3, rank, Dims(rank, 0), window.padding)) return false;
  window.dilation.assign(rank, 1);
  if (!call.flagOr(4, false, window.ceil) || !call.flagOr(5, true, unused)) return false;
  if (call[6].given() && !(call[6].is(Arg::Kind::kInt) && call[6].i != 0)) return false;
  // Volumes, unlike images, have to be as large as the window without the padding.
  const Dims& sizes = call[0].tensor->sizes;
  const DType dtype = call[0].tensor->dtype;
  if (rank == 3 && (sizes.size() < rank || dtype == DType::Half || dtype == DType::BFloat16))
    return false;
  for (size_t i = 0; rank == 3 && i < rank; ++i) {
    if (lessThan(sizes[sizes.size() - rank + i], window.kernel[i])) return false;
  }
  return addPooled(call, window, rank);
}

// adaptive_avg_pool: input, output_size (None keeps a dim)
bool adaptivePool(Call& call) {
  const size_t rank = call.detail() / kRankStep;
  if (!isFloat(call[0]) || !call[1].given()) return false;
  const TensorMeta& input = *call[0].tensor;
  if (input.sizes.size() != rank + 2 && input.sizes.size() != rank + 1) return false;
  if (isZero(input.numel())) return false;
  // a mean, in any layout
  const bool to_one = rank == 1 && call[1].is(Arg::Kind::kInt) && call[1].i == 1;
  if (!to_one && !hasPlainStrides(input)) return false;
  Dims sizes = input.sizes;
  const size_t first = sizes.size() - rank;
  if (call[1].is(Arg::Kind::kInt)) {
    for (size_t i = 0; i < rank; ++i) sizes[first + i] = call[1].i;
  } else {
    if (!call[1].isSequence() || call[1].count != rank) return false;
    for (size_t i = 0; i < rank; ++i) {
      const Arg& item = call[1].items[i];
      if (item.is(Arg::Kind::kNone)) continue;
      if (!item.is(Arg::Kind::kInt)) return false;
      sizes[first + i] = item.i;
    }
  }
  for (size_t i = 0; i < rank; ++i) {
    if (!lessThan(0, sizes[first + i])) return false;
  }
  call.fresh(input.dtype, std::move(sizes));
  return true;
}

bool modeFits(std::string_view mode, size_t rank) {
  if (mode == "nearest" || mode == "nearest-exact") return true;
  if (mode == "linear") return rank == 1;
  if (mode == "bilinear" || mode == "bicubic") return rank == 2;
  return mode == "trilinear" && rank == 3;
}

// interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
bool interpolate(Call& call) {
  if (!isFloat(call[0])) return false;
  const TensorMeta& input = *call[0].tensor;
  if (input.sizes.size() < 3 || input.sizes.size() > 5 || isZero(input.numel())) return false;
  const size_t rank = input.sizes.size() - 2;
  if (call[1].given() == call[2].given() || (call[3].given() && !call[3].is(Arg::Kind::kStr)))
    return false;
  const std::string_view mode = call[3].given() ? call[3].text() : std::string_view("nearest");
  bool recompute = false;
  bool antialias = false;
  if (!modeFits(mode, rank) || (call[5].given() && !call.flagOr(5, false, recompute)) || recompute)
    return false;
  if (!call.flagOr(6, false, antialias) || antialias) return false;
  if (call[4].given() && (mode.substr(0, 7) == "nearest" || !call[4].is(Arg::Kind::kBool)))
    return false;
  Dims sizes = input.sizes;
  for (size_t i = 0; i < rank; ++i) {
    const Arg& choice = call[1].given() ? call[1] : call[2];
    const Arg* one = &choice;
    if (choice.isSequence()) {
      if (choice.count != rank) return false;
      one = &choice.items[i];
    }
    if (call[1].given()) {
      if (!one->isInt()) return false;
      sizes[2 + i] = one->dim();
    } else if (one->isInt()) {
      sizes[2 + i] *= one->dim();
    } else if (one->is(Arg::Kind::kFloat)) {
      sizes[2 + i] =
          static_cast<int64_t>(std::floor(static_cast<double>(sizes[2 + i].value()) * one->f));
    } else {
      return false;
    }
    if (!lessThan(0, sizes[2 + i])) return false;
  }
  const MemoryFormat format = suggestedFormat(input);
  if (format == MemoryFormat::Contiguous ? !hasPlainStrides(input) : rank != 2) return false;
  Dims strides = stridesOf(sizes, format);
  call.fresh(input.dtype, std::move(sizes), std::move(strides));
  return true;
}

// grid_sample(input, grid, mode, padding_mode, align_corners); what it warns of is for Python to say
bool gridSample(Call& call) {
  if (!isFloat(call[0]) || !isFloat(call[1]) || !call[4].is(Arg::Kind::kBool)) return false;
  const TensorMeta& input = *call[0].tensor;
  const TensorMeta& grid = *call[1].tensor;
  const size_t rank = input.sizes.size();
  if ((rank != 4 && rank != 5) || grid.sizes.size() != rank || grid.dtype != input.dtype)
    return false;
  const auto text = [&](size_t param, std::string_view fallback) {
    if (call[param].is(Arg::Kind::kAbsent)) return fallback;
    return call[param].is(Arg::Kind::kStr) ? call[param].text() : std::string_view();
  };
  const std::string_view mode = text(2, "bilinear");
  const std::string_view padding = text(3, "zeros");
  if ((mode != "bilinear" && mode != "nearest" && (mode != "bicubic" || rank != 4)) ||
      (padding != "zeros" && padding != "border" && padding != "reflection"))
    return false;
  if (!same(input.sizes[0], grid.sizes[0]) || !same(grid.sizes.back(), Dim(rank - 2)) ||
      isZero(input.numel()) || isZero(grid.numel()))
    return false;
  Dims sizes = {input.sizes[0], input.sizes[1]};
  sizes.insert(sizes.end(), grid.sizes.begin() + 1, grid.sizes.end() - 1);
  call.fresh(input.dtype, std::move(sizes));
  return true;
}

// pixel_shuffle(input, upscale_factor)
bool pixelShuffle(Call& call) {
  int64_t factor = 0;
  if (!call[0].isTensor() || !call.integer(1, factor) || factor <= 0) return false;
  const TensorMeta& input = *call[0].tensor;
  const size_t rank = input.sizes.size();
  if (rank < 3 || !hasPlainStrides(input) || isZero(input.numel())) return false;
  if (!isZero(input.sizes[rank - 3] % (factor * factor)) || factor == 1) return false;
  Dims sizes = input.sizes;
  sizes[rank - 3] /= factor * factor;
  sizes[rank - 2] *= factor;
  sizes[rank - 1] *= factor;
  if (suggestedFormat(input) != MemoryFormat::Contiguous) return false;
  call.fresh(input.dtype, std::move(sizes));
  return true;
}

constexpr const char* kMaxSignature =
    "input, kernel_size, stride, padding, dilation, ceil_mode, return_indices";
constexpr const char* kAvgSignature =
    "input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override";

constexpr OpRow kRows[] = {
    {"F|torch.max_pool1d", kMaxSignature, maxPool, 1 * kRankStep},
    {"F|torch.max_pool2d", kMaxSignature, maxPool, 2 * kRankStep},
    {"F|torch.max_pool3d", kMaxSignature, maxPool, 3 * kRankStep},
    {"F|torch.avg_pool1d", kAvgSignature, avgPool, 1 * kRankStep},
    {"F|nn.avg_pool2d", kAvgSignature, avgPool, 2 * kRankStep},
    {"F|nn.avg_pool3d", kAvgSignature, avgPool, 3 * kRankStep},
    {"F|torch.adaptive_avg_pool1d", "input, output_size", adaptivePool, 1 * kRankStep},
    {"F|nn.adaptive_avg_pool2d", "input, output_size", adaptivePool, 2 * kRankStep},
    {"F|nn.adaptive_avg_pool3d", "input, output_size", adaptivePool, 3 * kRankStep},
    {"F.interpolate",
     "input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias",
     interpolate},
    {"F.grid_sample", "input, grid, mode, padding_mode, align_corners", gridSample},
    {"F|torch.pixel_shuffle", "input, upscale_factor", pixelShuffle},
};

}  // namespace

std::span<const OpRow> poolingRows() { return kRows; }

}  // namespace stator::shapes
