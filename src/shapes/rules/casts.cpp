// Conversions and copies: to() and its short forms, contiguous, clone, type_as, copy_.
#include "shapes/rules/pointwise.h"

namespace stator::shapes {

namespace {

Dims copiedStrides(const TensorMeta& meta, MemoryFormat format) {
  return format == MemoryFormat::Preserve ? denseStridesLike(meta.sizes, meta.strides)
                                          : stridesOf(meta.sizes, format);
}

bool formatFits(const TensorMeta& meta, MemoryFormat format) {
  if (format == MemoryFormat::ChannelsLast) return meta.sizes.size() == 4;
  if (format == MemoryFormat::ChannelsLast3d) return meta.sizes.size() == 5;
  return true;
}

bool addConverted(Call& call, DType dtype, Place place, bool copy, MemoryFormat format) {
  const TensorMeta& meta = *call[0].tensor;
  if (!formatFits(meta, format) || place.type == DeviceType::Meta ||
      meta.device == DeviceType::Meta)
    return false;
  if (place.type == DeviceType::CPU && place.index >= 0) return false;
  const bool keeps_format = format == MemoryFormat::Preserve || suggestedFormat(meta) == format;
  if (!copy && keeps_format && dtype == meta.dtype && place == placeOf(meta)) {
    call.same(call[0]);
    return true;
  }
  TensorMeta& result = call.fresh(dtype, meta.sizes, copiedStrides(meta, format));
  result.device = place.type;
  result.device_index = place.index;
  result.requires_grad = meta.requires_grad && call.state.grad_enabled && isDifferentiable(dtype);
  result.is_leaf = !result.requires_grad;
  return true;
}

bool isConvertible(DType from, DType to) {
  // Complex to real warns and drops a part; leave the message to torch.
  return isOrdinary(from) && isOrdinary(to) && !(isComplex(from) && !isComplex(to));
}

// to(dtype, non_blocking, copy), to(device, dtype, ...), to(other, ...), to(dtype=, device=).
bool convert(Call& call, size_t dtype_param, size_t device_param) {
  const TensorMeta& meta = *call[0].tensor;
  DType dtype = meta.dtype;
  Place place = placeOf(meta);
  bool copy = false;
  MemoryFormat format = MemoryFormat::Preserve;
  if (!call.dtypeOr(dtype_param, dtype, dtype) || !call.placeOr(device_param, place, place))
    return false;
  bool unused = false;
  if (!call.flagOr(3, false, unused) || !call.flagOr(4, false, copy)) return false;
  if (!call.formatOr(5, MemoryFormat::Preserve, format)) return false;
  if (!isConvertible(meta.dtype, dtype)) return false;
  return addConverted(call, dtype, place, copy, format);
}

bool toDevice(Call& call) { return call[0].isTensor() && convert(call, 2, 1); }
bool toDtype(Call& call) {
  return call[0].isTensor() && call[1].is(Arg::Kind::kDtype) && convert(call, 1, 2);
}

bool toOther(Call& call) {
  if (!call[0].isTensor() || !call[1].isTensor()) return false;
  bool unused = false;
  bool copy = false;
  MemoryFormat format = MemoryFormat::Preserve;
  if (!call.flagOr(2, false, unused) || !call.flagOr(3, false, copy)) return false;
  if (!call.formatOr(4, MemoryFormat::Preserve, format)) return false;
  if (!isConvertible(call[0].tensor->dtype, call[1].tensor->dtype)) return false;
  return addConverted(call, call[1].tensor->dtype, placeOf(*call[1].tensor), copy, format);
}

// float(), half(), ...: the dtype is the row's detail.
bool shortForm(Call& call) {
  if (!call[0].isTensor()) return false;
  const auto dtype = static_cast<DType>(call.detail() / kFirstFreeBit);
  MemoryFormat format = MemoryFormat::Preserve;
  if (!call.formatOr(1, format, format) || !isConvertible(call[0].tensor->dtype, dtype))
    return false;
  return addConverted(call, dtype, placeOf(*call[0].tensor), false, format);
}

bool typeOf(Call& call) {  // x.type(torch.float32)
  if (!call[0].isTensor() || !call[1].is(Arg::Kind::kDtype) || call[2].given()) return false;
  if (!isConvertible(call[0].tensor->dtype, call[1].dtype())) return false;
  return addConverted(call, call[1].dtype(), placeOf(*call[0].tensor), false,
                      MemoryFormat::Preserve);
}

bool toCpu(Call& call) {
  if (!call[0].isTensor()) return false;
  return addConverted(call, call[0].tensor->dtype, Place{}, false, MemoryFormat::Preserve);
}

bool contiguous(Call& call) {
  if (!call[0].isTensor()) return false;
  const TensorMeta& meta = *call[0].tensor;
  MemoryFormat format = MemoryFormat::Contiguous;
  if (!call.formatOr(1, format, format) || format == MemoryFormat::Preserve ||
      !formatFits(meta, format))
    return false;
  if (isContiguousIn(meta, format)) {
    call.same(call[0]);
  } else {
    call.fresh(meta.dtype, meta.sizes, stridesOf(meta.sizes, format));
  }
  return true;
}

bool clone(Call& call) {
  if (!call[0].isTensor()) return false;
  const TensorMeta& meta = *call[0].tensor;
  MemoryFormat format = MemoryFormat::Preserve;
  if (!call.formatOr(1, format, format) || !formatFits(meta, format)) return false;
  call.fresh(meta.dtype, meta.sizes, copiedStrides(meta, format));
  return true;
}

bool copyInto(Call& call) {
  bool unused = false;
  if (!call[0].isTensor() || !call[1].isTensor() || !call.flagOr(2, false, unused)) return false;
  const TensorMeta& target = *call[0].tensor;
  Dims sizes = target.sizes;
  if (!broadcastInto(sizes, call[1].tensor->sizes) || sizes != target.sizes) return false;
  if (isComplex(call[1].tensor->dtype) && !isComplex(target.dtype)) return false;
  // The value is converted, so the target's own dtype is what arrives.
  return call.inplace(call[0], target.dtype, target.sizes);
}

// fill_, zero_: no operand but a number.
bool fill(Call& call) {
  if (!call[0].isTensor()) return false;
  if (call.paramCount() > 1 && !call[1].isNumber()) return false;
  if (call.paramCount() > 1 && call[1].is(Arg::Kind::kComplex)) return false;
  return call.inplace(call[0], call[0].tensor->dtype, call[0].tensor->sizes);
}

// fill_diagonal_(value, wrap)
bool fillDiagonal(Call& call) {
  bool wraps = false;
  if (!call[0].isTensor() || call[0].tensor->sizes.size() != 2 || !call.flagOr(2, false, wraps))
    return false;
  const Arg& value = call[1];
  if (!value.is(Arg::Kind::kInt) && !value.is(Arg::Kind::kFloat) && !value.is(Arg::Kind::kBool))
    return false;
  const DType dtype = call[0].tensor->dtype;
  if (!isFloating(dtype) && value.is(Arg::Kind::kFloat)) return false;
  return call.inplace(call[0], dtype, call[0].tensor->sizes);
}

bool requiresGrad(Call& call) {
  bool value = true;
  if (!call[0].isTensor() || !call.flagOr(1, true, value)) return false;
  const TensorMeta& meta = *call[0].tensor;
  if (!meta.is_leaf || meta.is_inference || call.state.inference || !isDifferentiable(meta.dtype))
    return false;
  call.same(call[0]);
  if (meta.requires_grad != value) {
    TensorMeta& now = call.out.outputs.back().meta;
    now.requires_grad = value;
    call.out.mutates = true;
    call.out.changed_inputs.emplace_back(call.out.outputs.back().same_object_as, now);
  }
  return true;
}

constexpr uint32_t shortTo(DType dtype) { return static_cast<uint32_t>(dtype) * kFirstFreeBit; }

constexpr OpRow kRows[] = {
    {"Tensor.to", "self, dtype, unused_device, non_blocking, copy, memory_format", toDtype},
    {"Tensor.to", "self, device, dtype, non_blocking, copy, memory_format", toDevice},
    {"Tensor.to", "self, other, non_blocking, copy, memory_format", toOther, kMixedDevices},
    {"Tensor.type_as", "self, other", toOther, kMixedDevices},
    {"Tensor.type", "self, dtype, non_blocking", typeOf},
    {"Tensor.float", "self, *, memory_format", shortForm, shortTo(DType::Float)},
    {"Tensor.double", "self, *, memory_format", shortForm, shortTo(DType::Double)},
    {"Tensor.half", "self, *, memory_format", shortForm, shortTo(DType::Half)},
    {"Tensor.bfloat16", "self, *, memory_format", shortForm, shortTo(DType::BFloat16)},
    {"Tensor.long", "self, *, memory_format", shortForm, shortTo(DType::Long)},
    {"Tensor.int", "self, *, memory_format", shortForm, shortTo(DType::Int)},
    {"Tensor.short", "self, *, memory_format", shortForm, shortTo(DType::Short)},
    {"Tensor.char", "self, *, memory_format", shortForm, shortTo(DType::Char)},
    {"Tensor.byte", "self, *, memory_format", shortForm, shortTo(DType::Byte)},
    {"Tensor.bool", "self, *, memory_format", shortForm, shortTo(DType::Bool)},
    {"Tensor.cpu", "self", toCpu},
    {"Tensor.contiguous", "self, *, memory_format", contiguous},
    {"torch|Tensor.clone", "input, *, memory_format", clone},
    {"Tensor.copy_", "self, src, non_blocking", copyInto, kMixedDevices},
    {"Tensor.fill_", "self, value", fill},
    {"Tensor.fill_diagonal_", "self, fill_value, wrap", fillDiagonal},
    {"Tensor.zero_", "self", fill},
    {"Tensor.requires_grad_", "self, requires_grad", requiresGrad},
};

}  // namespace

std::span<const OpRow> castRows() { return kRows; }

}  // namespace stator::shapes
