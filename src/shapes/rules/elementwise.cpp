// The elementwise ops: arithmetic, comparisons, functions of one number, clamp, where.
#include "shapes/rules/pointwise.h"

namespace stator::shapes {

namespace {

bool isBoolOperand(const Arg& arg) {
  return arg.is(Arg::Kind::kBool) || (arg.isTensor() && arg.tensor->dtype == DType::Bool);
}

// add, sub: alpha may not be of a higher category than the result.
bool addLike(Call& call) {
  const Arg& alpha = call[2];
  if (alpha.given() && !alpha.is(Arg::Kind::kInt)) {
    Promotion promotion(call.state);
    if (!alpha.is(Arg::Kind::kFloat) || !promotion.add(call[0]) || !promotion.add(call[1]))
      return false;
    if (isIntegral(promotion.result())) return false;
  }
  return binary(call);
}

bool subLike(Call& call) {
  return !isBoolOperand(call[0]) && !isBoolOperand(call[1]) && addLike(call);
}

bool divide(Call& call) {
  const Arg& rounding = call[2];
  if (!rounding.given()) return binary(call);
  if (!rounding.is(Arg::Kind::kStr)) return false;
  Promotion promotion(call.state);
  if (!promotion.add(call[0]) || !promotion.add(call[1])) return false;
  const DType common = promotion.result();
  if (isComplex(common) || common == DType::Bool) return false;
  const std::string_view text = rounding.text();
  if (text != "floor" && text != "trunc") return false;
  if (!call[0].isTensor() || !(call[1].isTensor() || call[1].isNumber())) return false;
  if (!havePlainLayouts(call[0], call[1]) && call.mode() != Mode::kInplace) return false;
  Dims sizes;
  Dims strides;
  if (!elementwise({&call[0], &call[1]}, sizes, strides)) return false;
  return call.finish(common, common, std::move(sizes), std::move(strides));
}

bool power(Call& call) {
  const Arg& base = call[0];
  const Arg& exponent = call[1];
  Promotion promotion(call.state);
  if (!promotion.add(base) || !promotion.add(exponent)) return false;
  const DType common = promotion.result();
  if (exponent.is(Arg::Kind::kInt) && exponent.i < 0 && isIntegral(common)) return false;
  if (exponent.isNumber() && base.isTensor() && base.tensor->dtype != common &&
      !isNonOverlappingDense(base.tensor->sizes, base.tensor->strides)) {
    return false;  // the base is converted first, and a conversion orders the dims by another rule
  }
  if (base.isNumber()) {
    if (!exponent.isTensor() || call.mode() == Mode::kInplace || common == DType::Bool)
      return false;
    call.fresh(common, exponent.tensor->sizes);
    return true;
  }
  if (!exponent.isNumber() || call.mode() == Mode::kInplace) return binary(call);
  // The exponent is no operand of the iteration.
  if (!base.isTensor() || !acceptsDtype(call.detail(), common)) return false;
  Dims sizes;
  Dims strides;
  if (!elementwise({&base}, sizes, strides)) return false;
  call.fresh(common, std::move(sizes), std::move(strides));
  return true;
}

// clamp with numbers or tensors as bounds, one of which may be missing.
bool clamp(Call& call) {
  const Arg& input = call[0];
  const Arg& low = call[1];
  const Arg& high = call[2];
  if (!input.isTensor() || (!low.given() && !high.given())) return false;
  const bool tensors = low.isTensor() || high.isTensor();
  Promotion promotion(call.state);
  if (!promotion.add(input)) return false;
  for (const Arg* bound : {&low, &high}) {
    if (!bound->given()) continue;
    if (!promotion.add(*bound)) return false;
  }
  const DType common = promotion.result();
  if (common == DType::Bool || isComplex(common)) return false;
  if (!tensors && call.mode() == Mode::kPlain && common != input.tensor->dtype) {
    if (!isNonOverlappingDense(input.tensor->sizes, input.tensor->strides)) return false;
  }
  Dims sizes;
  Dims strides;
  if (!promotionKeepsOrder({&input, &low, &high})) return false;
  // Bounds that are numbers are no operands of the iteration.
  if (!(tensors ? elementwise({&input, &low, &high}, sizes, strides)
                : elementwise({&input}, sizes, strides))) {
    return false;
  }
  return call.finish(common, common, std::move(sizes), std::move(strides));
}

// addcmul, addcdiv, lerp: three operands (lerp's weight may be a number).
bool ternary(Call& call) {
  Promotion promotion(call.state);
  for (size_t i = 0; i < 3; ++i) {
    if (!call[i].isTensor() && !(i == 2 && (call.detail() & kNumbers) && call[i].isNumber()))
      return false;
    if (call[i].isTensor() && !promotion.add(call[i])) return false;
  }
  if (call.paramCount() > 3 && call[3].given() && !call[3].is(Arg::Kind::kInt) &&
      !call[3].is(Arg::Kind::kFloat)) {
    return false;
  }
  const DType common = promotion.result();
  if (!acceptsDtype(call.detail(), common)) return false;
  if (call.detail() & kNumbers) {  // lerp wants equal dtypes
    for (size_t i = 0; i < 3; ++i) {
      if (call[i].isTensor() && call[i].tensor->dtype != common) return false;
    }
    if (call[2].is(Arg::Kind::kComplex) && !isComplex(common)) return false;
  }
  if (call.paramCount() > 3 && call[3].is(Arg::Kind::kFloat) && isIntegral(common)) return false;
  if (!promotionKeepsOrder({&call[0], &call[1], &call[2]})) return false;
  Dims sizes;
  Dims strides;
  if (!elementwise({&call[0], &call[1], &call[2]}, sizes, strides)) return false;
  return call.finish(common, common, std::move(sizes), std::move(strides));
}

bool where(Call& call) {
  const Arg& condition = call[0];
  if (!condition.isTensor() || condition.tensor->dtype != DType::Bool) return false;
  Promotion promotion(call.state);
  for (size_t i : {1, 2}) {
    if (!call[i].isTensor() && !call[i].isNumber()) return false;
    if (!promotion.add(call[i])) return false;
  }
  if (!promotionKeepsOrder({&call[1], &call[2]})) return false;
  // Two numbers: a result of their own promotion, as if both were tensors of rank 0.
  const DType common = promotion.result();
  Dims sizes;
  Dims strides;
  if (!elementwise({&condition, &call[1], &call[2]}, sizes, strides)) return false;
  call.fresh(common, std::move(sizes), std::move(strides));
  return true;
}

// x.where(condition, other)
bool whereMethod(Call& call) {
  const Arg& condition = call[1];
  if (!call[0].isTensor() || !condition.isTensor() || condition.tensor->dtype != DType::Bool)
    return false;
  if (!call[2].isTensor() && !call[2].isNumber()) return false;
  Promotion promotion(call.state);
  if (!promotion.add(call[0]) || !promotion.add(call[2]) ||
      !promotionKeepsOrder({&call[0], &call[2]}))
    return false;
  Dims sizes;
  Dims strides;
  if (!elementwise({&condition, &call[0], &call[2]}, sizes, strides)) return false;
  call.fresh(promotion.result(), std::move(sizes), std::move(strides));
  return true;
}

bool positive(Call& call) {
  if (!call[0].isTensor() || call[0].tensor->dtype == DType::Bool) return false;
  call.same(call[0]);
  return true;
}

bool nanToNum(Call& call) {
  for (size_t i : {1, 2, 3}) {
    if (call[i].given() && !call[i].is(Arg::Kind::kFloat) && !call[i].is(Arg::Kind::kInt))
      return false;
  }
  return unary(call);
}

bool sameObject(Call& call) {  // resolve_conj and the like of a tensor without such bits
  if (!call[0].isTensor()) return false;
  call.same(call[0]);
  return true;
}

bool conjugate(Call& call) {
  return call[0].isTensor() && !isComplex(call[0].tensor->dtype) && sameObject(call);
}

bool notOfHalf(Call& call) {  // there is no kernel for a CPU
  return call[0].isTensor() && call[0].tensor->dtype != DType::Half &&
         call[0].tensor->dtype != DType::BFloat16 && unary(call);
}

// logit(input, eps)
bool logit(Call& call) {
  if (call[1].given() && !call[1].is(Arg::Kind::kFloat)) return false;
  return unary(call);
}

// isclose(input, other, rtol, atol, equal_nan)
bool isClose(Call& call) {
  for (size_t i : {2, 3}) {
    if (call[i].given() && !call[i].is(Arg::Kind::kFloat)) return false;
  }
  bool unused = false;
  if (!call[0].isTensor() || !call[1].isTensor() || !call.flagOr(4, false, unused)) return false;
  if (call[0].tensor->dtype != call[1].tensor->dtype) return false;
  if (!isContiguous(call[0].tensor->sizes, call[0].tensor->strides)) return false;
  if (!isContiguous(call[1].tensor->sizes, call[1].tensor->strides)) return false;
  return binary(call);
}

bool histc(Call& call) {
  int64_t bins = 100;
  if (!call[0].isTensor() || !isFloating(call[0].tensor->dtype) || !call.integerOr(1, 100, bins))
    return false;
  for (size_t i : {2, 3}) {
    if (call[i].given() && !call[i].is(Arg::Kind::kInt) && !call[i].is(Arg::Kind::kFloat))
      return false;
  }
  if (bins <= 0 || call.anyGrad()) return false;
  call.fresh(call[0].tensor->dtype, {bins});
  return true;
}

bool sameDtypes(Call& call) {  // heaviside
  return call[0].isTensor() && call[1].isTensor() &&
         call[0].tensor->dtype == call[1].tensor->dtype && binary(call);
}

// normal_, uniform_, ...: numbers only
bool randomFill(Call& call) {
  if (!call[0].isTensor()) return false;
  for (size_t i = 1; i < call.paramCount(); ++i) {
    if (call[i].given() && !call[i].is(Arg::Kind::kFloat) && !call[i].is(Arg::Kind::kInt))
      return false;
  }
  const TensorMeta& meta = *call[0].tensor;
  if (isComplex(meta.dtype) || (isIntegral(meta.dtype) && (call.detail() & kNoInteger)))
    return false;
  return call.inplace(call[0], meta.dtype, meta.sizes);
}

constexpr uint32_t kCommon = kScalarsAnywhere;
constexpr uint32_t kArithmetic = kCommon | kNumbers | kNumberFirst;
constexpr uint32_t kCompare = kArithmetic | kBoolOut;

constexpr OpRow kRows[] = {
    {"torch|Tensor.add Tensor.__add__|__radd__ operator.add !Tensor.add_|__iadd__ !operator.iadd",
     "input, other, *, alpha", addLike, kArithmetic},
    {"torch|Tensor.sub|subtract Tensor.__sub__ operator.sub ~Tensor.__rsub__ "
     "!Tensor.sub_|subtract_|__isub__ !operator.isub",
     "input, other, *, alpha", subLike, kArithmetic},
    {"torch|Tensor.mul|multiply Tensor.__mul__|__rmul__ operator.mul "
     "!Tensor.mul_|multiply_|__imul__ !operator.imul",
     "input, other", binary, kArithmetic},
    {"torch|Tensor.div|divide Tensor.__truediv__|__div__ operator.truediv "
     "~Tensor.__rtruediv__|__rdiv__ "
     "!Tensor.div_|divide_|__itruediv__|__idiv__ !operator.itruediv",
     "input, other, *, rounding_mode", divide, kArithmetic | kFloatOut},
    {"torch|Tensor.true_divide !Tensor.true_divide_", "input, other", binary,
     kArithmetic | kFloatOut},
    {"torch|Tensor.floor_divide Tensor.__floordiv__ operator.floordiv ~Tensor.__rfloordiv__ "
     "!Tensor.floor_divide_|__ifloordiv__ !operator.ifloordiv",
     "input, other", binary, kArithmetic | kNoBool | kNoComplex | kPlainLayouts},
    {"torch|Tensor.remainder Tensor.__mod__ operator.mod ~Tensor.__rmod__ "
     "!Tensor.remainder_|__imod__ !operator.imod",
     "input, other", binary, kArithmetic | kNoBool | kNoComplex},
    {"torch|Tensor.fmod !Tensor.fmod_", "input, other", binary,
     kCommon | kNumbers | kNoBool | kNoComplex},
    {"torch|Tensor.pow Tensor.__pow__ operator.pow ~Tensor.__rpow__ !Tensor.pow_|__ipow__ "
     "!operator.ipow",
     "input, exponent", power, kArithmetic | kNoBool},
    {"torch|Tensor.bitwise_and Tensor.__and__|__rand__ operator.and_ !Tensor.bitwise_and_|__iand__ "
     "!operator.iand",
     "input, other", binary, kArithmetic | kOnlyIntegral},
    {"torch|Tensor.bitwise_or Tensor.__or__|__ror__ operator.or_ !Tensor.bitwise_or_|__ior__ "
     "!operator.ior",
     "input, other", binary, kArithmetic | kOnlyIntegral},
    {"torch|Tensor.bitwise_xor Tensor.__xor__|__rxor__ operator.xor !Tensor.bitwise_xor_|__ixor__ "
     "!operator.ixor",
     "input, other", binary, kArithmetic | kOnlyIntegral},
    {"torch|Tensor.bitwise_left_shift|bitwise_right_shift Tensor.__lshift__|__rshift__ "
     "operator.lshift|rshift "
     "!Tensor.bitwise_left_shift_|bitwise_right_shift_",
     "input, other", binary, kCommon | kNumbers | kOnlyIntegral | kNoBool},
    {"torch|Tensor.eq|ne|not_equal Tensor.__eq__|__ne__ operator.eq|ne !Tensor.eq_|ne_",
     "input, other", binary, kCompare},
    {"torch|Tensor.lt|le|gt|ge|less|less_equal|greater|greater_equal "
     "Tensor.__lt__|__le__|__gt__|__ge__ "
     "operator.lt|le|gt|ge !Tensor.lt_|le_|gt_|ge_",
     "input, other", binary, kCompare | kNoComplex},
    {"torch|Tensor.logical_and|logical_or|logical_xor", "input, other", binary,
     kCommon | kBoolOut | kPlainLayouts},
    {"torch|Tensor.maximum|minimum", "input, other", binary, kCommon | kNoComplex},
    {"torch|Tensor.fmax|fmin", "input, other", binary, kCommon | kNoComplex},
    {"torch|Tensor.atan2|arctan2", "input, other", binary, kCommon | kFloatOut | kNoComplex},
    {"torch|Tensor.hypot|nextafter", "input, other", binary, kCommon | kNoInteger | kNoComplex},
    {"torch|Tensor.copysign|xlogy", "input, other", binary,
     kCommon | kNumbers | kFloatOut | kNoComplex | kPlainLayouts},

    {"torch|Tensor.exp|expm1|log|log2|log10|log1p|sqrt|rsqrt|sin|cos|tan|asin|acos|atan|sinh|cosh|"
     "tanh|asinh|acosh|"
     "atanh|sigmoid|reciprocal|arcsin|arccos|arctan|arcsinh|arccosh|arctanh|exp2|sinc "
     "special.expit|expm1|log1p|exp2|sinc "
     "!Tensor.exp_|expm1_|log_|log2_|log10_|log1p_|sqrt_|rsqrt_|sin_|cos_|tan_|asin_|acos_|atan_|"
     "sinh_|cosh_|tanh_|"
     "asinh_|acosh_|atanh_|sigmoid_|reciprocal_|exp2_|sinc_ "
     "!torch.exp_|sqrt_|rsqrt_|tanh_|sigmoid_",
     "input", unary, kFloatOut},
    {"torch|Tensor.erf|erfc|erfinv|lgamma|digamma|i0 "
     "special.erf|erfc|erfinv|gammaln|digamma|psi|i0|i0e|i1|i1e|ndtr|entr "
     "!Tensor.erf_|erfc_|erfinv_|lgamma_|digamma_|i0_",
     "input", unary, kFloatOut | kNoComplex},
    {"special.ndtri|log_ndtr|erfcx", "input", notOfHalf, kFloatOut | kNoComplex},
    {"torch|Tensor.deg2rad|rad2deg !Tensor.deg2rad_|rad2deg_", "input", unary,
     kFloatOut | kNoComplex},
    {"torch|Tensor.abs|absolute Tensor.__abs__ operator.abs !Tensor.abs_", "input", unary,
     kRealOut | kNoBool},
    {"torch|Tensor.neg|negative Tensor.__neg__ operator.neg !Tensor.neg_|negative_", "input", unary,
     kNoBool},
    {"torch|Tensor.positive Tensor.__pos__ operator.pos", "input", positive},
    {"torch|Tensor.sign !Tensor.sign_", "input", unary, kNoComplex},
    {"torch|Tensor.sgn !Tensor.sgn_", "input", unary},
    {"torch|Tensor.floor|ceil|trunc|fix !Tensor.floor_|ceil_|trunc_|fix_", "input", unary,
     kNoBool | kNoComplex},
    {"torch|Tensor.round special.round !Tensor.round_", "input, *, decimals", unary,
     kNoInteger | kNoComplex},
    {"torch|Tensor.round !Tensor.round_", "input", unary, kNoBool | kNoComplex},
    {"torch|Tensor.frac !Tensor.frac_", "input", unary, kNoInteger | kNoComplex},
    {"torch|Tensor.square !Tensor.square_", "input", unary, kNoBool},
    {"torch|Tensor.relu !Tensor.relu_ !torch.relu_", "input", unary, kNoBool | kNoComplex},
    {"torch|Tensor.bitwise_not Tensor.__invert__ operator.invert|inv !Tensor.bitwise_not_", "input",
     unary, kOnlyIntegral},
    {"torch|Tensor.logical_not !Tensor.logical_not_", "input", unary, kBoolOut},
    {"torch|Tensor.isnan|isinf|isfinite", "input", unary, kBoolOut},
    {"torch|Tensor.signbit|isposinf|isneginf", "input", unary, kBoolOut | kNoComplex},
    {"torch|Tensor.nan_to_num !Tensor.nan_to_num_", "input, nan, posinf, neginf", nanToNum,
     kNoComplex},

    {"torch|Tensor.clamp|clip !Tensor.clamp_|clip_ !torch.clamp_", "input, min, max", clamp,
     kCommon},
    {"torch|Tensor.logaddexp|logaddexp2", "input, other", binary,
     kCommon | kNoInteger | kNoComplex},
    {"torch|Tensor.gcd|lcm !Tensor.gcd_|lcm_", "input, other", binary,
     kCommon | kOnlyIntegral | kNoBool},
    {"torch|Tensor.heaviside", "input, values", sameDtypes, kCommon | kNoComplex},
    {"torch|Tensor.isclose", "input, other, rtol, atol, equal_nan", isClose, kBoolOut},
    {"torch|Tensor.logit special.logit", "input, eps", logit, kFloatOut | kNoComplex},
    {"torch|Tensor.histc", "input, bins, min, max", histc},
    {"torch|Tensor.resolve_conj|resolve_neg", "input", sameObject},
    {"torch|Tensor.conj", "input", conjugate},
    {"Tensor.normal_", "self, mean, std", randomFill, kRandomOp | kNoInteger},
    {"Tensor.uniform_", "self, from, to", randomFill, kRandomOp | kNoInteger},
    {"Tensor.exponential_", "self, lambd", randomFill, kRandomOp | kNoInteger},
    {"Tensor.bernoulli_", "self, p", randomFill, kRandomOp},
    {"torch|Tensor.clamp_min !Tensor.clamp_min_", "input, min", clamp, kCommon},
    {"torch|Tensor.clamp_max !Tensor.clamp_max_", "input, max", clamp, kCommon},
    {"torch|Tensor.addcmul !Tensor.addcmul_", "input, tensor1, tensor2, *, value", ternary,
     kCommon | kNoBool},
    {"torch|Tensor.addcdiv !Tensor.addcdiv_", "input, tensor1, tensor2, *, value", ternary,
     kCommon | kNoInteger},
    {"torch|Tensor.lerp !Tensor.lerp_", "input, end, weight", ternary,
     kCommon | kNoInteger | kNumbers},
    {"torch.where", "condition, input|self, other", where, kCommon},
    {"Tensor.where", "self, condition, other", whereMethod, kCommon},
};

}  // namespace

std::span<const OpRow> elementwiseRows() { return kRows; }

}  // namespace stator::shapes
