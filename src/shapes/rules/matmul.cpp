// Matrix products and convolutions.
#include "shapes/rules/pointwise.h"

namespace stator::shapes {

namespace {

bool sameDtype(std::initializer_list<const Arg*> tensors) {
  const TensorMeta* first = nullptr;
  for (const Arg* arg : tensors) {
    if (!arg->given()) continue;
    if (!arg->isTensor()) return false;
    if (first == nullptr) first = arg->tensor;
    if (arg->tensor->dtype != first->dtype) return false;
  }
  return first != nullptr && isOrdinary(first->dtype);
}

bool isMatrix(const Arg& arg) { return arg.isTensor() && arg.tensor->sizes.size() == 2; }
bool isBatch(const Arg& arg) { return arg.isTensor() && arg.tensor->sizes.size() == 3; }

bool mm(Call& call) {
  if (!isMatrix(call[0]) || !isMatrix(call[1]) || !sameDtype({&call[0], &call[1]})) return false;
  const Dims& left = call[0].tensor->sizes;
  const Dims& right = call[1].tensor->sizes;
  if (!same(left[1], right[0])) return false;
  call.fresh(call[0].tensor->dtype, {left[0], right[1]});
  return true;
}

bool bmm(Call& call) {
  if (!isBatch(call[0]) || !isBatch(call[1]) || !sameDtype({&call[0], &call[1]})) return false;
  const Dims& left = call[0].tensor->sizes;
  const Dims& right = call[1].tensor->sizes;
  if (!same(left[0], right[0]) || !same(left[2], right[1])) return false;
  call.fresh(call[0].tensor->dtype, {left[0], left[1], right[2]});
  return true;
}

// The shape of left @ right; false where the sizes do not fit.
bool productShape(const Dims& left, const Dims& right, Dims& shape) {
  if (left.empty() || right.empty()) return false;
  const Dim inner = right.size() == 1 ? right[0] : right[right.size() - 2];
  if (!same(left.back(), inner)) return false;
  shape.clear();
  if (left.size() > 2) shape.assign(left.begin(), left.end() - 2);
  if (right.size() > 2) {
    if (!broadcastInto(shape, Dims(right.begin(), right.end() - 2))) return false;
  }
  if (left.size() > 1) shape.push_back(left[left.size() - 2]);
  if (right.size() > 1) shape.push_back(right.back());
  return true;
}

bool matmul(Call& call) {
  const Arg& left = call[0];
  const Arg& right = call[1];
  if (!left.isTensor() || !right.isTensor() || !sameDtype({&left, &right})) return false;
  Dims shape;
  if (!productShape(left.tensor->sizes, right.tensor->sizes, shape)) return false;
  if (left.tensor->sizes.size() <= 2 && right.tensor->sizes.size() >= 3) {
    // Computed transposed and turned back; with a dim of size one the turned view already counts as contiguous and
    // keeps its strides.
    if (isOne(shape.back()) || (shape.size() > 1 && isOne(shape[shape.size() - 2]))) return false;
    if (isZero(product(shape))) return false;
  }
  call.fresh(left.tensor->dtype, std::move(shape));
  return true;
}

bool vectorProduct(Call& call) {  // mv, dot
  const Arg& left = call[0];
  const Arg& right = call[1];
  if (!left.isTensor() || !right.isTensor() || !sameDtype({&left, &right})) return false;
  if (right.tensor->sizes.size() != 1 || left.tensor->sizes.size() != call.detail() / kFirstFreeBit)
    return false;
  Dims shape;
  if (!productShape(left.tensor->sizes, right.tensor->sizes, shape)) return false;
  call.fresh(left.tensor->dtype, std::move(shape));
  return true;
}

bool outer(Call& call) {
  if (!call[0].isTensor() || !call[1].isTensor() || !sameDtype({&call[0], &call[1]})) return false;
  const Dims& left = call[0].tensor->sizes;
  const Dims& right = call[1].tensor->sizes;
  if (left.size() != 1 || right.size() != 1) return false;
  call.fresh(call[0].tensor->dtype, {left[0], right[0]});
  return true;
}

bool isPlainNumber(const Arg& arg, DType dtype) {
  return !arg.given() || arg.is(Arg::Kind::kInt) ||
         (arg.is(Arg::Kind::kFloat) && !isIntegral(dtype));
}

// addmm, baddbmm: input + left @ right; the input broadcasts to the product.
bool addProduct(Call& call, size_t rank) {
  if (!call[0].isTensor() || !call[1].isTensor() || !call[2].isTensor()) return false;
  if (!sameDtype({&call[0], &call[1], &call[2]})) return false;
  const DType dtype = call[0].tensor->dtype;
  const Dims& left = call[1].tensor->sizes;
  const Dims& right = call[2].tensor->sizes;
  if (left.size() != rank || right.size() != rank) return false;
  if (rank == 3 && !same(left[0], right[0])) return false;
  if (!isPlainNumber(call[3], dtype) || !isPlainNumber(call[4], dtype)) return false;
  Dims shape;
  if (!productShape(left, right, shape)) return false;
  Dims broadcast = shape;
  if (!broadcastInto(broadcast, call[0].tensor->sizes) || broadcast != shape) return false;
  Dims strides = contiguousStrides(shape);
  return call.finish(dtype, dtype, std::move(shape), std::move(strides));
}
bool addmm(Call& call) { return addProduct(call, 2); }
bool baddbmm(Call& call) { return addProduct(call, 3); }

bool linear(Call& call) {
  if (!call[0].isTensor() || !isMatrix(call[1]) || !sameDtype({&call[0], &call[1], &call[2]}))
    return false;
  const Dims& input = call[0].tensor->sizes;
  const Dims& weight = call[1].tensor->sizes;
  if (input.empty() || !same(input.back(), weight[1])) return false;
  if (call[2].given() && call[2].tensor->sizes != Dims{weight[0]}) return false;
  Dims shape(input.begin(), input.end() - 1);
  shape.push_back(weight[0]);
  call.fresh(call[0].tensor->dtype, std::move(shape));
  return true;
}

// An int for every spatial dim, or one for each.
bool spatial(const Call& call, size_t param, size_t rank, Dim fallback, Dims& values) {
  values.assign(rank, fallback);
  if (!call[param].given()) return true;
  Dims read;
  if (!call.ints(param, read)) return false;
  if (read.size() == rank) {
    values = read;
  } else if (read.size() == 1) {
    values.assign(rank, read[0]);
  } else {
    return false;
  }
  return true;
}

bool convFormat(const TensorMeta& input, const TensorMeta& weight, MemoryFormat& format) {
  if (input.sizes.size() != weight.sizes.size()) {
    format = MemoryFormat::Contiguous;
    return isContiguous(input.sizes, input.strides) && isContiguous(weight.sizes, weight.strides);
  }
  // On the CPU one channels-last operand is enough for images; other devices and volumes ask their library.
  format = suggestedFormat(input);
  if (format == suggestedFormat(weight))
    return format == MemoryFormat::Contiguous || isContiguousIn(input, format);
  format = MemoryFormat::ChannelsLast;
  return input.device == DeviceType::CPU && input.sizes.size() == 4 && input.dtype == DType::Float;
}

struct ConvArgs {
  Dims stride, padding, dilation, output_padding;
  int64_t groups = 1;
};

bool readPadding(const Call& call, size_t param, const Dims& kernel, ConvArgs& args) {
  if (!call[param].is(Arg::Kind::kStr)) return spatial(call, param, kernel.size(), 0, args.padding);
  args.padding.assign(kernel.size(), 0);
  if (call[param].text() == "valid") return true;
  if (call[param].text() != "same") return false;
  for (size_t i = 0; i < kernel.size(); ++i) {
    const Dim total = args.dilation[i] * (kernel[i] - 1);
    // An odd total is padded by a separate op first; leave it to torch.
    if (!isOne(args.stride[i]) || !isZero(total % 2)) return false;
    args.padding[i] = total / 2;
  }
  return true;
}

// Whether input, weight and bias are what convolutions over so many dimensions take.
bool takesConv(Call& call, size_t rank) {
  if (!call[0].isTensor() || !call[1].isTensor() || !sameDtype({&call[0], &call[1], &call[2]}))
    return false;
  const DType dtype = call[0].tensor->dtype;
  return call[1].tensor->sizes.size() == rank + 2 && !isIntegral(dtype) && !isComplex(dtype);
}

bool conv(Call& call) {
  const size_t rank = call.detail() / kFirstFreeBit;
  if (!takesConv(call, rank)) return false;
  const TensorMeta& input = *call[0].tensor;
  const TensorMeta& weight = *call[1].tensor;
  const bool batched = input.sizes.size() == rank + 2;
  if (!batched && input.sizes.size() != rank + 1) return false;
  const Dims kernel(weight.sizes.begin() + 2, weight.sizes.end());
  ConvArgs args;
  if (!spatial(call, 3, rank, 1, args.stride) || !spatial(call, 5, rank, 1, args.dilation))
    return false;
  if (!readPadding(call, 4, kernel, args) || !call.integerOr(6, 1, args.groups) || args.groups <= 0)
    return false;
  const size_t channels = batched ? 1 : 0;
  if (!same(input.sizes[channels], weight.sizes[1] * args.groups) ||
      !isZero(weight.sizes[0] % args.groups))
    return false;
  if (call[2].given() && call[2].tensor->sizes != Dims{weight.sizes[0]}) return false;
  Dims shape(input.sizes.begin(), input.sizes.begin() + static_cast<ptrdiff_t>(channels));
  shape.push_back(weight.sizes[0]);
  for (size_t i = 0; i < rank; ++i) {
    if (args.stride[i] <= 0 || args.dilation[i] <= 0 || isNegative(args.padding[i])) return false;
    const Dim padded = input.sizes[channels + 1 + i] + 2 * args.padding[i];
    const Dim reach = args.dilation[i] * (kernel[i] - 1) + 1;
    if (lessThan(padded, reach)) return false;
    shape.push_back((padded - reach) / args.stride[i] + 1);
  }
  MemoryFormat format = MemoryFormat::Contiguous;
  if (isZero(input.numel()) || isZero(weight.numel())) return false;
  if (rank == 1) {  // computed as an image of height one after making the input contiguous
    if (!hasPlainStrides(weight)) return false;
  } else if (!convFormat(input, weight, format)) {
    return false;
  }
  Dims strides = batched ? stridesOf(shape, format) : contiguousStrides(shape);
  call.fresh(input.dtype, std::move(shape), std::move(strides));
  return true;
}

// input, weight, bias, stride, padding, output_padding, groups, dilation
bool convTranspose(Call& call) {
  const size_t rank = call.detail() / kFirstFreeBit;
  if (!takesConv(call, rank)) return false;
  const TensorMeta& input = *call[0].tensor;
  const TensorMeta& weight = *call[1].tensor;
  if (input.sizes.size() != rank + 2) return false;
  ConvArgs args;
  if (!spatial(call, 3, rank, 1, args.stride) || !spatial(call, 4, rank, 0, args.padding))
    return false;
  if (!spatial(call, 5, rank, 0, args.output_padding) || !call.integerOr(6, 1, args.groups))
    return false;
  if (!spatial(call, 7, rank, 1, args.dilation) || args.groups <= 0) return false;
  if (!same(input.sizes[1], weight.sizes[0]) || !isZero(input.sizes[1] % args.groups)) return false;
  const Dim out_channels = weight.sizes[1] * args.groups;
  if (call[2].given() && call[2].tensor->sizes != Dims{out_channels}) return false;
  Dims shape = {input.sizes[0], out_channels};
  for (size_t i = 0; i < rank; ++i) {
    if (args.stride[i] <= 0 || args.dilation[i] <= 0 || isNegative(args.padding[i]) ||
        isNegative(args.output_padding[i]))
      return false;
    if (!lessThan(args.output_padding[i], args.stride[i]) &&
        !lessThan(args.output_padding[i], args.dilation[i]))
      return false;
    const Dim size = (input.sizes[2 + i] - 1) * args.stride[i] - 2 * args.padding[i] +
                     args.dilation[i] * (weight.sizes[2 + i] - 1) + args.output_padding[i] + 1;
    if (!lessThan(0, size)) return false;
    shape.push_back(size);
  }
  if (isZero(input.numel()) || isZero(weight.numel())) return false;
  if (!hasPlainStrides(input) || !hasPlainStrides(weight)) return false;
  MemoryFormat format = MemoryFormat::Contiguous;
  if (!convFormat(input, weight, format) || format != MemoryFormat::Contiguous) return false;
  call.fresh(input.dtype, std::move(shape));
  return true;
}

constexpr const char* kConvSignature = "input, weight, bias, stride, padding, dilation, groups";
constexpr const char* kTransposeSignature =
    "input, weight, bias, stride, padding, output_padding, groups, dilation";

constexpr OpRow kRows[] = {
    {"torch|Tensor.mm", "input, mat2", mm},
    {"torch|Tensor.bmm", "input, mat2", bmm},
    {"torch|Tensor.matmul Tensor.__matmul__ operator.matmul linalg.matmul", "input, other|tensor2",
     matmul},
    {"~Tensor.__rmatmul__", "self, other", matmul},
    {"torch|Tensor.mv", "input, vec", vectorProduct, 2 * kFirstFreeBit},
    {"torch|Tensor.dot", "input, tensor", vectorProduct, 1 * kFirstFreeBit},
    {"torch|Tensor.outer|ger", "input, vec2", outer},
    {"torch|Tensor.addmm !Tensor.addmm_", "input, mat1, mat2, *, beta, alpha", addmm},
    {"torch|Tensor.baddbmm !Tensor.baddbmm_", "input, batch1, batch2, *, beta, alpha", baddbmm},
    {"F|nn.linear", "input, weight, bias", linear},
    {"F|torch.conv1d", kConvSignature, conv, 1 * kFirstFreeBit},
    {"F|torch.conv2d", kConvSignature, conv, 2 * kFirstFreeBit},
    {"F|torch.conv3d", kConvSignature, conv, 3 * kFirstFreeBit},
    {"F|torch.conv_transpose1d", kTransposeSignature, convTranspose, 1 * kFirstFreeBit},
    {"F|torch.conv_transpose2d", kTransposeSignature, convTranspose, 2 * kFirstFreeBit},
    {"F|torch.conv_transpose3d", kTransposeSignature, convTranspose, 3 * kFirstFreeBit},
};

}  // namespace

std::span<const OpRow> matmulRows() { return kRows; }

}  // namespace stator::shapes
