// torch.linalg and torch.fft: factors, inverses, solutions, spectra. Operands without gaps alone.
#include "shapes/call.h"

namespace stator::shapes {

namespace {

bool isPlain(const Arg& arg) {
  return arg.isTensor() && isDifferentiable(arg.tensor->dtype) && isOrdinary(arg.tensor->dtype) &&
         hasPlainStrides(*arg.tensor) && !isZero(arg.tensor->numel());
}

// LAPACK knows these.
bool isDecomposable(const Arg& arg) {
  return isPlain(arg) && arg.tensor->dtype != DType::Half && arg.tensor->dtype != DType::BFloat16;
}

bool isSquare(const Arg& arg) {
  if (!isDecomposable(arg) || arg.tensor->sizes.size() < 2) return false;
  const Dims& sizes = arg.tensor->sizes;
  return same(sizes[sizes.size() - 1], sizes[sizes.size() - 2]);
}

// LAPACK's order: columns first, batches as ever.
Dims byColumns(const Dims& sizes) {
  Dims strides = contiguousStrides(sizes);
  const size_t rank = sizes.size();
  strides[rank - 2] = 1;
  strides[rank - 1] = isZero(sizes[rank - 2] - 1) ? Dim(1) : sizes[rank - 2];
  return strides;
}

// cholesky(input, *, upper), inv(A)
bool squareFactor(Call& call) {
  bool unused = false;
  if (!isSquare(call[0]) || (call.paramCount() > 1 && !call.flagOr(1, false, unused))) return false;
  const Dims& sizes = call[0].tensor->sizes;
  call.fresh(call[0].tensor->dtype, sizes, byColumns(sizes));
  return true;
}

bool determinant(Call& call) {
  if (!isSquare(call[0])) return false;
  const Dims& sizes = call[0].tensor->sizes;
  call.fresh(call[0].tensor->dtype, Dims(sizes.begin(), sizes.end() - 2));
  return true;
}

// linalg.solve(A, B): one matrix for each
bool solve(Call& call) {
  bool left = true;
  if (!isSquare(call[0]) || !isDecomposable(call[1]) || !call.flagOr(2, true, left) || !left)
    return false;
  const TensorMeta &matrix = *call[0].tensor, &right = *call[1].tensor;
  const size_t rank = matrix.sizes.size();
  if (right.sizes.size() != rank || right.dtype != matrix.dtype) return false;
  for (size_t i = 0; i + 1 < rank; ++i) {
    if (!same(matrix.sizes[i], right.sizes[i])) return false;
  }
  call.fresh(matrix.dtype, right.sizes, byColumns(right.sizes));
  return true;
}

DType complexOf(DType dtype) {
  return dtype == DType::Float    ? DType::ComplexFloat
         : dtype == DType::Double ? DType::ComplexDouble
                                  : DType::Undefined;
}

bool isNorm(const Arg& arg) {
  return !arg.given() ||
         (arg.is(Arg::Kind::kStr) &&
          (arg.text() == "ortho" || arg.text() == "forward" || arg.text() == "backward"));
}

// Of the last dim: fft.rfft(input, n, dim, norm), fft.irfft alike
constexpr uint32_t kToReal = kFirstFreeBit;

bool realSpectrum(Call& call) {
  int64_t dim = -1, length = 0;
  if (!isPlain(call[0]) || !isNorm(call[3]) || !call.integerOr(2, -1, dim)) return false;
  const TensorMeta& input = *call[0].tensor;
  if (input.sizes.empty() || !wrapDim(dim, input.sizes.size()) ||
      dim + 1 != static_cast<int64_t>(input.sizes.size()))
    return false;
  if (!call.integerOr(1, 0, length) || (call[1].given() && length <= 0)) return false;
  const bool to_real = (call.detail() & kToReal) != 0;
  Dims sizes = input.sizes;
  const Dim points = length > 0 ? Dim(length) : to_real ? (sizes.back() - 1) * 2 : sizes.back();
  if (isZero(points)) return false;
  sizes.back() = to_real ? points : floorDiv(points, 2) + 1;
  const DType wanted = to_real ? toReal(input.dtype) : complexOf(input.dtype);
  if (wanted == DType::Undefined || isComplex(input.dtype) != to_real) return false;
  call.fresh(wanted, std::move(sizes));
  return true;
}

constexpr OpRow kRows[] = {
    {"linalg.cholesky", "input, *, upper", squareFactor},
    {"linalg.inv torch|Tensor.inverse", "A|input", squareFactor},
    {"linalg.det torch|Tensor.det", "A|input", determinant},
    {"linalg.solve", "A, B, *, left", solve},
    {"fft.rfft", "input, n, dim, norm", realSpectrum},
    {"fft.irfft", "input, n, dim, norm", realSpectrum, kToReal},
};

}  // namespace

std::span<const OpRow> linearAlgebraRows() { return kRows; }

}  // namespace stator::shapes
