// Elementwise ops: operands broadcast, dtypes promote, strides follow the operands (shapes/dims.h).
#include "shapes/rules/pointwise.h"

namespace stator::shapes {

bool promotionKeepsOrder(std::initializer_list<const Arg*> operands) {
  const TensorMeta* first = nullptr;
  bool mixed = false;
  for (const Arg* operand : operands) {
    if (!operand->isTensor()) continue;
    if (first == nullptr) first = operand->tensor;
    mixed = mixed || operand->tensor->dtype != first->dtype;
  }
  if (!mixed) return true;
  bool all_plain = true;
  bool one_rank = true;
  for (const Arg* operand : operands) {
    if (!operand->isTensor()) continue;
    const TensorMeta& meta = *operand->tensor;
    one_rank = one_rank && meta.sizes.size() == first->sizes.size();
    if (hasPlainStrides(meta)) continue;
    all_plain = false;
    if (!isNonOverlappingDense(meta.sizes, meta.strides)) return false;
    for (Dim size : meta.sizes) {
      if (isOne(size)) return false;
    }
  }
  return all_plain || one_rank;
}

bool elementwise(std::initializer_list<const Arg*> operands, Dims& sizes, Dims& strides) {
  Layout layouts[4];
  size_t count = 0;
  for (const Arg* operand : operands) {
    if (!operand->isTensor()) continue;
    if (count == 0) {
      sizes = operand->tensor->sizes;
    } else if (!broadcastInto(sizes, operand->tensor->sizes)) {
      return false;
    }
    layouts[count++] = {&operand->tensor->sizes, &operand->tensor->strides};
  }
  // A number is a tensor of rank 0 to torch: its shape differs from that of any tensor with dims.
  static const Dims kNoDims;
  if (count < operands.size() && count < std::size(layouts)) {
    for (const Arg* operand : operands) {
      if (!operand->isNumber()) continue;
      layouts[count++] = {&kNoDims, &kNoDims};
      break;
    }
  }
  strides = elementwiseStrides(sizes, {layouts, count});
  return true;
}

bool acceptsDtype(uint32_t detail, DType common) {
  if ((detail & kNoBool) && common == DType::Bool) return false;
  if ((detail & kNoInteger) && isIntegral(common)) return false;
  if ((detail & kNoComplex) && isComplex(common)) return false;
  if ((detail & kOnlyIntegral) && !isIntegral(common)) return false;
  return true;
}

DType resultDtype(uint32_t detail, DType common, const State& state) {
  if (detail & kBoolOut) return DType::Bool;
  if ((detail & kFloatOut) && isIntegral(common)) return state.default_dtype;
  if (detail & kRealOut) return toReal(common);
  return common;
}

bool unary(Call& call) {
  const Arg& input = call[0];
  if (!input.isTensor() || !isOrdinary(input.tensor->dtype)) return false;
  const DType common = input.tensor->dtype;
  if (!acceptsDtype(call.detail(), common)) return false;
  const DType result = resultDtype(call.detail(), common, call.state);
  if (call.mode() == Mode::kInplace) {
    // abs_ of complex raises; logical_not_ and friends write their bool as the target's dtype.
    if (isComplex(common) && (call.detail() & kRealOut)) return false;
    const DType computed = (call.detail() & kBoolOut) ? common : result;
    return call.inplace(input, computed, input.tensor->sizes);
  }
  Dims sizes;
  Dims strides;
  if (!elementwise({&input}, sizes, strides)) return false;
  call.fresh(result, std::move(sizes), std::move(strides));
  return true;
}

bool havePlainLayouts(const Arg& left, const Arg& right) {
  for (const Arg* arg : {&left, &right}) {
    if (arg->isTensor() && !hasPlainStrides(*arg->tensor)) return false;
  }
  return true;
}

bool binary(Call& call) {
  const Arg& left = call[0];
  const Arg& right = call[1];
  const uint32_t detail = call.detail();
  const bool left_number = left.isNumber();
  const bool right_number = right.isNumber();
  if (!left.isTensor() && !(left_number && (detail & kNumberFirst) && right.isTensor()))
    return false;
  if (!right.isTensor() && !(right_number && (detail & kNumbers))) return false;
  if (call.mode() == Mode::kSwapped && left.isTensor() && right.isTensor()) return false;
  if ((detail & kPlainLayouts) && !havePlainLayouts(left, right)) return false;
  if (!promotionKeepsOrder({&left, &right})) return false;
  Promotion promotion(call.state);
  if (!promotion.add(left) || !promotion.add(right)) return false;
  const DType common = promotion.result();
  if (!acceptsDtype(detail, common)) return false;
  DType computed = resultDtype(detail, common, call.state);
  Dims sizes;
  Dims strides;
  if (!elementwise({&left, &right}, sizes, strides)) return false;
  const DType result = computed;
  if ((detail & kBoolOut) && call.mode() == Mode::kInplace) computed = DType::Bool;
  return call.finish(computed, result, std::move(sizes), std::move(strides));
}

}  // namespace stator::shapes
