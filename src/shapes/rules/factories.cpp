// New tensors from sizes and numbers, and the *_like and new_* forms.
#include "shapes/rules/pointwise.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace stator::shapes {

namespace {

struct Options {
  DType dtype = DType::Float;
  Place place;
  bool requires_grad = false;
};

// dtype, layout, device, pin_memory, requires_grad stand side by side in the signatures, from `first` on.
bool readOptions(const Call& call, size_t first, DType dtype, Place place, Options& options) {
  if (!call.dtypeOr(first, dtype, options.dtype)) return false;
  if (call[first + 1].given() &&
      !(call[first + 1].is(Arg::Kind::kLayout) && call[first + 1].i == 0))
    return false;
  if (!call.placeOr(first + 2, place, options.place)) return false;
  bool pinned = false;
  if (call[first + 3].given() && (!call.flagOr(first + 3, false, pinned) || pinned)) return false;
  if (!call.flagOr(first + 4, false, options.requires_grad)) return false;
  if (options.requires_grad && (!isDifferentiable(options.dtype) || call.state.inference))
    return false;
  // "cpu:0" is another spelling that torch keeps, and a meta factory has no place in a program's data flow.
  if (options.place.type == DeviceType::CPU && options.place.index >= 0) return false;
  return options.place.type != DeviceType::Meta && isOrdinary(options.dtype);
}

bool addFactory(Call& call, Dims sizes, Dims strides, const Options& options) {
  for (Dim size : sizes) {
    if (isNegative(size)) return false;
  }
  TensorMeta& meta = call.freshNoGrad(options.dtype, std::move(sizes), std::move(strides));
  meta.device = options.place.type;
  meta.device_index = options.place.index;
  meta.requires_grad = options.requires_grad;
  return true;
}

bool addFactory(Call& call, Dims sizes, const Options& options) {
  Dims strides = contiguousStrides(sizes);
  return addFactory(call, std::move(sizes), std::move(strides), options);
}

Place defaultPlace(const Call& call) {
  return {call.state.default_device, call.state.default_device_index};
}

// zeros, ones, empty, rand, randn: *size, dtype, layout, device, pin_memory, requires_grad
bool fromSizes(Call& call) {
  Dims sizes;
  Options options;
  if (!call[0].isSequence() || !call.ints(0, sizes)) return false;
  if (!readOptions(call, 1, call.state.default_dtype, defaultPlace(call), options)) return false;
  if ((call.detail() & kRandomOp) && isIntegral(options.dtype)) return false;
  return addFactory(call, std::move(sizes), options);
}

DType dtypeOfNumber(const Call& call, const Arg& number) {
  switch (number.kind) {
    case Arg::Kind::kBool:
      return DType::Bool;
    case Arg::Kind::kInt:
    case Arg::Kind::kSymInt:
      return DType::Long;
    case Arg::Kind::kFloat:
    case Arg::Kind::kSymFloat:
      return call.state.default_dtype;
    case Arg::Kind::kComplex:
      return toComplex(call.state.default_dtype);
    default:
      return DType::Undefined;
  }
}

// Whether torch puts the number into a tensor of the dtype, or raises.
bool holds(DType dtype, const Arg& number) {
  if (isComplex(dtype) || number.is(Arg::Kind::kBool)) return true;
  if (number.is(Arg::Kind::kComplex)) return false;
  const bool is_float = number.is(Arg::Kind::kFloat);
  if (!is_float && !number.is(Arg::Kind::kInt)) return true;  // a symbol
  const double value = is_float ? number.f : static_cast<double>(number.i);
  if (!std::isfinite(value)) return isFloating(dtype);
  switch (dtype) {
    case DType::Byte:
      return value >= 0 && value <= 255;
    case DType::Char:
      return std::abs(value) <= 127;
    case DType::Short:
      return std::abs(value) <= 32767;
    case DType::Int:
      return std::abs(value) <= 2147483647;
    case DType::Long:
      return !is_float || std::abs(value) < 9e18;
    case DType::Half:
      return std::abs(value) <= 65504;
    case DType::Float:
    case DType::BFloat16:
      return std::abs(value) <= std::numeric_limits<float>::max();
    default:
      return true;
  }
}

// full(size, fill_value, ...)
bool full(Call& call) {
  Dims sizes;
  Options options;
  if (!call[0].isSequence() || !call.ints(0, sizes) || !call[1].isNumber()) return false;
  if (!readOptions(call, 2, dtypeOfNumber(call, call[1]), defaultPlace(call), options) ||
      !holds(options.dtype, call[1]))
    return false;
  return addFactory(call, std::move(sizes), options);
}

// The number of steps from start to end; false where doubles could not be trusted to count exactly.
bool countSteps(const Arg& start, const Arg& end, const Arg& step, Dim& count) {
  const auto is_int = [](const Arg& arg) { return !arg.given() || arg.isInt(); };
  const auto value = [](const Arg& arg, double fallback) {
    if (!arg.given()) return fallback;
    return arg.is(Arg::Kind::kFloat) ? arg.f : static_cast<double>(arg.dim().value());
  };
  if (is_int(start) && is_int(end) && is_int(step)) {
    const Dim from = start.given() ? start.dim() : Dim(0);
    const Dim by = step.given() ? step.dim().value() : 1;
    const Dim distance = end.dim() - from;
    if (by == 0 || (by > 0 ? distance < 0 : distance > 0)) return false;
    count = ceilDiv(distance, by);
    return true;
  }
  const double from = value(start, 0);
  const double by = value(step, 1);
  const double to = value(end, 0);
  if (by == 0 || !std::isfinite(from) || !std::isfinite(to) || !std::isfinite(by)) return false;
  if ((to - from) * by < 0) return false;
  count = static_cast<int64_t>(std::ceil((to - from) / by));
  return true;
}

bool addRange(Call& call, const Arg& start, const Arg& end, const Arg& step, size_t options_param) {
  DType dtype = DType::Long;
  for (const Arg* arg : {&start, &end, &step}) {
    if (!arg->given()) continue;
    if (!arg->isInt() && !arg->is(Arg::Kind::kFloat)) return false;
    if (arg->is(Arg::Kind::kFloat)) dtype = call.state.default_dtype;
  }
  Options options;
  if (!readOptions(call, options_param, dtype, defaultPlace(call), options)) return false;
  // A fraction counted in an integer dtype loses its fraction first.
  if (dtype != DType::Long && isIntegral(options.dtype)) return false;
  if (options.dtype == DType::Bool || isComplex(options.dtype)) return false;
  Dim count = 0;
  return countSteps(start, end, step, count) && addFactory(call, {count}, options);
}

const Arg kNothing;
bool arangeEnd(Call& call) {
  return call[0].given() && addRange(call, kNothing, call[0], kNothing, 1);
}
bool arangeSteps(Call& call) {
  return call[0].given() && call[1].given() && addRange(call, call[0], call[1], call[2], 3);
}

// linspace(start, end, steps, ...)
bool linspace(Call& call) {
  Dim steps = 0;
  for (size_t i : {0, 1}) {
    if (!call[i].is(Arg::Kind::kInt) && !call[i].is(Arg::Kind::kFloat)) return false;
  }
  Options options;
  if (!call.size(2, steps) || isNegative(steps)) return false;
  if (!readOptions(call, 3, call.state.default_dtype, defaultPlace(call), options)) return false;
  return addFactory(call, {steps}, options);
}

bool eye(Call& call) {
  Dim rows = 0;
  if (!call.size(0, rows) || isNegative(rows)) return false;
  Dim columns = rows;
  if (!call[1].is(Arg::Kind::kAbsent) && !call[1].is(Arg::Kind::kNone) &&
      (!call.size(1, columns) || isNegative(columns)))
    return false;
  Options options;
  if (!readOptions(call, 2, call.state.default_dtype, defaultPlace(call), options)) return false;
  return addFactory(call, {rows, columns}, options);
}

// randint(low, high, size): dtype is int64 unless given
bool addRandint(Call& call, size_t size_param) {
  Dims sizes;
  Options options;
  for (size_t i = 0; i < size_param; ++i) {
    if (!call[i].is(Arg::Kind::kInt)) return false;
  }
  if (size_param == 2 && call[0].i >= call[1].i) return false;
  if (size_param == 1 && call[0].i <= 0) return false;
  if (!call[size_param].isSequence() || !call.ints(size_param, sizes)) return false;
  if (!readOptions(call, size_param + 1, DType::Long, defaultPlace(call), options)) return false;
  return addFactory(call, std::move(sizes), options);
}
bool randintHigh(Call& call) { return addRandint(call, 1); }
bool randintLowHigh(Call& call) { return addRandint(call, 2); }

bool randperm(Call& call) {
  int64_t count = 0;
  Options options;
  if (!call.integer(0, count) || !readOptions(call, 1, DType::Long, defaultPlace(call), options))
    return false;
  return addFactory(call, {count}, options);
}

// zeros_like(input, dtype, layout, device, pin_memory, requires_grad, memory_format), with a fill value in front for
// full_like
bool addLike(Call& call, size_t first) {
  if (!call[0].isTensor()) return false;
  const TensorMeta& meta = *call[0].tensor;
  Options options;
  MemoryFormat format = MemoryFormat::Preserve;
  if (!readOptions(call, first, meta.dtype, placeOf(meta), options)) return false;
  if (!call.formatOr(first + 5, format, format)) return false;
  if ((call.detail() & kRandomOp) && isIntegral(options.dtype)) return false;
  if (format == MemoryFormat::ChannelsLast && meta.sizes.size() != 4) return false;
  if (format == MemoryFormat::ChannelsLast3d && meta.sizes.size() != 5) return false;
  if (isZero(meta.numel()) && !hasPlainStrides(meta)) return false;
  Dims strides = format == MemoryFormat::Preserve ? denseStridesLike(meta.sizes, meta.strides)
                                                  : stridesOf(meta.sizes, format);
  return addFactory(call, meta.sizes, std::move(strides), options);
}
bool like(Call& call) { return addLike(call, 1); }
bool fullLike(Call& call) {
  return call[1].isNumber() && addLike(call, 2) && holds(call.out.outputs[0].meta.dtype, call[1]);
}

// x.new_zeros(*size, dtype, layout, device, pin_memory, requires_grad)
bool newSizes(Call& call) {
  if (!call[0].isTensor()) return false;
  Dims sizes;
  Options options;
  if (!call[1].isSequence() || !call.ints(1, sizes)) return false;
  if (!readOptions(call, 2, call[0].tensor->dtype, placeOf(*call[0].tensor), options)) return false;
  return addFactory(call, std::move(sizes), options);
}

bool newFull(Call& call) {
  if (!call[0].isTensor() || !call[2].isNumber()) return false;
  Dims sizes;
  Options options;
  if (!call[1].isSequence() || !call.ints(1, sizes)) return false;
  if (!readOptions(call, 3, call[0].tensor->dtype, placeOf(*call[0].tensor), options)) return false;
  return holds(options.dtype, call[2]) && addFactory(call, std::move(sizes), options);
}

// Whether nested lists of numbers have this shape, and what the numbers promote to.
bool nestedFits(const Call& call, const Arg& data, const Dims& sizes, DType& dtype, size_t depth) {
  if (!data.isSequence()) {
    const DType number = dtypeOfNumber(call, data);
    if (number == DType::Undefined || depth != sizes.size()) return false;
    dtype = promote(dtype, number);
    return true;
  }
  if (depth >= sizes.size() || !same(sizes[depth], data.count) || data.count == 0) return false;
  for (const Arg& item : data.elements()) {
    if (!nestedFits(call, item, sizes, dtype, depth + 1)) return false;
  }
  return true;
}

// The shape of numbers, or of nested lists of them, and what they promote to.
bool readData(const Call& call, const Arg& data, Dims& sizes, DType& dtype) {
  dtype = DType::Undefined;
  if (!data.isSequence()) {
    dtype = dtypeOfNumber(call, data);
    return dtype != DType::Undefined;
  }
  // The first element's depth fixes the rank.
  const Arg* inner = &data;
  while (inner->isSequence() && inner->count > 0) {
    sizes.push_back(inner->count);
    inner = inner->items;
  }
  if (data.count > 0) return nestedFits(call, data, sizes, dtype, 0);
  sizes.push_back(0);
  dtype = call.state.default_dtype;
  return true;
}

bool holdsAll(DType dtype, const Arg& data) {
  if (!data.isSequence()) return holds(dtype, data);
  return std::all_of(data.elements().begin(), data.elements().end(),
                     [&](const Arg& item) { return holdsAll(dtype, item); });
}

// torch.tensor(data, dtype, device, pin_memory, requires_grad)
bool tensorOf(Call& call) {
  Dims sizes;
  DType dtype = DType::Undefined;
  Options options;
  return readData(call, call[0], sizes, dtype) &&
         readOptions(call, 1, dtype, defaultPlace(call), options) &&
         holdsAll(options.dtype, call[0]) && addFactory(call, std::move(sizes), options);
}

// x.new_tensor(data, dtype, device, requires_grad): of x's dtype
bool newTensor(Call& call) {
  Dims sizes;
  DType dtype = DType::Undefined;
  Options options;
  if (!call[0].isTensor() || !readData(call, call[1], sizes, dtype)) return false;
  const TensorMeta& like = *call[0].tensor;
  return readOptions(call, 2, like.dtype, placeOf(like), options) &&
         holdsAll(options.dtype, call[1]) && addFactory(call, std::move(sizes), options);
}

// torch.as_tensor(data, dtype, device): a tensor stays what it is
bool asTensor(Call& call) {
  Options options;
  if (call[0].isTensor()) {
    const TensorMeta& given = *call[0].tensor;
    if (!call.dtypeOr(1, given.dtype, options.dtype) ||
        !call.placeOr(2, placeOf(given), options.place) || options.dtype != given.dtype ||
        !(options.place == placeOf(given)))
      return false;
    call.same(call[0]);
    return true;
  }
  Dims sizes;
  DType dtype = DType::Undefined;
  if (!readData(call, call[0], sizes, dtype) || !call.dtypeOr(1, dtype, options.dtype) ||
      !call.placeOr(2, defaultPlace(call), options.place))
    return false;
  if (options.place.type == DeviceType::CPU && options.place.index >= 0) return false;
  if (options.place.type == DeviceType::Meta || !isOrdinary(options.dtype)) return false;
  return holdsAll(options.dtype, call[0]) && addFactory(call, std::move(sizes), options);
}

#define STATOR_FACTORY_OPTIONS "dtype, layout, device, pin_memory, requires_grad"

constexpr OpRow kRows[] = {
    {"torch.zeros|ones|empty", "*size, *, " STATOR_FACTORY_OPTIONS, fromSizes},
    {"torch.rand|randn", "*size, *, " STATOR_FACTORY_OPTIONS, fromSizes, kRandomOp},
    {"torch.full", "size, fill_value, *, " STATOR_FACTORY_OPTIONS, full},
    {"torch.arange", "end, *, " STATOR_FACTORY_OPTIONS, arangeEnd},
    {"torch.arange", "start, end, step, *, " STATOR_FACTORY_OPTIONS, arangeSteps},
    {"torch.linspace", "start, end, steps, *, " STATOR_FACTORY_OPTIONS, linspace},
    {"torch.eye", "n, m, *, " STATOR_FACTORY_OPTIONS, eye},
    {"torch.randint", "high, size, *, " STATOR_FACTORY_OPTIONS, randintHigh, kRandomOp},
    {"torch.randint", "low, high, size, *, " STATOR_FACTORY_OPTIONS, randintLowHigh, kRandomOp},
    {"torch.randperm", "n, *, " STATOR_FACTORY_OPTIONS, randperm, kRandomOp},
    {"torch.zeros_like|ones_like|empty_like", "input, *, " STATOR_FACTORY_OPTIONS ", memory_format",
     like},
    {"torch.rand_like|randn_like", "input, *, " STATOR_FACTORY_OPTIONS ", memory_format", like,
     kRandomOp},
    {"torch.full_like", "input, fill_value, *, " STATOR_FACTORY_OPTIONS ", memory_format",
     fullLike},
    {"Tensor.new_zeros|new_ones|new_empty", "self, *size, *, " STATOR_FACTORY_OPTIONS, newSizes},
    {"Tensor.new_full", "self, size, fill_value, *, " STATOR_FACTORY_OPTIONS, newFull},
    {"torch.tensor", "data, *, " STATOR_FACTORY_OPTIONS, tensorOf},
    {"Tensor.new_tensor", "self, data, *, " STATOR_FACTORY_OPTIONS, newTensor},
    {"torch.as_tensor", "data, *, dtype, device", asTensor},
};

}  // namespace

std::span<const OpRow> factoryRows() { return kRows; }

}  // namespace stator::shapes
