#include "shapes/call.h"

#include "base/check.h"
#include "base/text.h"
#include "shapes/fallback.h"
#include "symbolic/sym_int.h"

#include <charconv>

namespace stator::shapes {

namespace {

const Arg kAbsentArg;

std::string_view nameOf(PyObject* text) {
  if (utf8OrError(text) == nullptr) throw PythonError();
  return *utf8View(text);
}

bool parseDevice(std::string_view text, Place& place) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  if (name == "cpu") {
    place.type = DeviceType::CPU;
  } else if (name == "cuda") {
    place.type = DeviceType::CUDA;
  } else if (name == "meta") {
    place.type = DeviceType::Meta;
  } else {
    return false;
  }
  place.index = -1;
  if (colon == std::string_view::npos) return true;
  const std::string_view digits = text.substr(colon + 1);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), place.index);
  return error == std::errc() && end == digits.data() + digits.size();
}

}  // namespace

Signature parseSignature(const char* text) {
  Signature signature;
  std::string_view rest(text);
  bool keyword_only = false;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    std::string_view one = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    while (!one.empty() && one.front() == ' ') one.remove_prefix(1);
    if (one == "*") {
      keyword_only = true;
      continue;
    }
    Param param;
    param.keyword_only = keyword_only;
    if (one.front() == '*') {
      param.variadic = true;
      one.remove_prefix(1);
    }
    const size_t bar = one.find('|');
    param.name = one.substr(0, bar);
    if (bar != std::string_view::npos) param.other_name = one.substr(bar + 1);
    signature.push_back(param);
  }
  return signature;
}

int firstOccurrence(std::span<const Arg* const> tensors, const Arg& tensor) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i]->object == tensor.object) return static_cast<int>(i);
  }
  return static_cast<int>(tensor.i);
}

bool Call::bind(const Signature& signature, uint32_t detail, Mode mode, bool keywords_allowed) {
  STATOR_CHECK(signature.size() <= kMaxParams);
  detail_ = detail;
  mode_ = mode;
  param_count_ = static_cast<uint8_t>(signature.size());
  for (const Arg*& slot : slots_) slot = &kAbsentArg;
  const std::span<const Arg> positional = workspace_.positional();
  size_t next = 0;
  for (size_t i = 0; i < signature.size() && next < positional.size(); ++i) {
    const Param& param = signature[i];
    if (param.keyword_only) break;
    if (param.variadic) {
      if (next + 1 == positional.size() && positional[next].isSequence()) {
        slots_[i] = &positional[next];
      } else {
        Arg* rest = workspace_.allocate(1);
        *rest = Arg{};
        rest->kind = Arg::Kind::kTuple;
        rest->items = positional.data() + next;
        rest->count = static_cast<uint32_t>(positional.size() - next);
        slots_[i] = rest;
      }
      next = positional.size();
      break;
    }
    slots_[i] = &positional[next++];
  }
  if (next != positional.size()) return false;
  const std::span<const Arg> keywords = workspace_.keywords();
  if (!keywords.empty() && !keywords_allowed) return false;
  for (size_t k = 0; k < keywords.size(); ++k) {
    const std::string_view name = nameOf(workspace_.keywordName(k));
    size_t i = 0;
    while (i < signature.size() && signature[i].name != name && signature[i].other_name != name)
      ++i;
    if (i == signature.size() || slots_[i] != &kAbsentArg) return false;
    slots_[i] = &keywords[k];
  }
  if (mode == Mode::kSwapped) std::swap(slots_[0], slots_[1]);
  // `number += tensor`: the number has no in-place form, so the result is a new tensor.
  if (mode == Mode::kInplace && slots_[0]->isNumber()) mode_ = Mode::kPlain;
  return acceptsTensors();
}

bool Call::acceptsTensors() {
  any_grad_ = false;
  bool have_place = false;
  bool place_is_scalar = false;
  for (const Arg* arg : workspace_.tensors()) {
    const TensorMeta& meta = *arg->tensor;
    if (meta.layout != 0 || meta.is_conj || meta.is_neg || meta.is_wrapped_number) return false;
    if (isQuantized(meta.dtype)) return false;
    any_grad_ = any_grad_ || meta.requires_grad;
    if (detail_ & kMixedDevices) {
      if (!have_place) place_ = placeOf(meta);
      have_place = true;
      continue;
    }
    const bool is_scalar = meta.sizes.empty() && meta.device == DeviceType::CPU;
    if (!have_place) {
      place_ = placeOf(meta);
      have_place = true;
      place_is_scalar = is_scalar;
    } else if (!(placeOf(meta) == place_)) {
      if (!(detail_ & kScalarsAnywhere)) return false;
      if (place_is_scalar) {
        place_ = placeOf(meta);
        place_is_scalar = false;
      } else if (!is_scalar) {
        return false;
      }
    } else {
      place_is_scalar = place_is_scalar && is_scalar;
    }
  }
  return true;
}

bool Call::integer(size_t param, int64_t& value) const {
  if (!slots_[param]->isInt()) return false;
  value = slots_[param]->dim().value();
  return true;
}

bool Call::size(size_t param, Dim& value) const {
  if (!slots_[param]->isInt()) return false;
  value = slots_[param]->dim();
  return true;
}

bool Call::integerOr(size_t param, int64_t fallback, int64_t& value) const {
  value = fallback;
  return !slots_[param]->given() || integer(param, value);
}

bool Call::flagOr(size_t param, bool fallback, bool& value) const {
  value = fallback;
  if (slots_[param]->is(Arg::Kind::kAbsent)) return true;
  if (!slots_[param]->is(Arg::Kind::kBool)) return false;
  value = slots_[param]->i != 0;
  return true;
}

bool Call::dim(size_t param, size_t rank, int64_t& value) const {
  return integer(param, value) && wrapDim(value, rank);
}

bool Call::ints(size_t param, Dims& values) const {
  const Arg& arg = *slots_[param];
  values.clear();
  if (arg.isInt()) {
    values.push_back(arg.dim());
    return true;
  }
  if (!arg.isSequence()) return false;
  values.reserve(arg.count);
  for (const Arg& item : arg.elements()) {
    if (!item.isInt()) return false;
    values.push_back(item.dim());
  }
  return true;
}

bool Call::axes(size_t param, std::vector<int64_t>& values) const {
  Dims dims;
  if (!ints(param, dims)) return false;
  values.clear();
  for (Dim dim : dims) values.push_back(dim.value());
  return true;
}

void Call::constant(Dim value) { constant(symbolic::makeInt(value)); }

bool Call::dtypeOr(size_t param, DType fallback, DType& value) const {
  value = fallback;
  if (!slots_[param]->given()) return true;
  if (!slots_[param]->is(Arg::Kind::kDtype)) return false;
  value = slots_[param]->dtype();
  return true;
}

bool Call::placeOr(size_t param, Place fallback, Place& value) const {
  value = fallback;
  const Arg& arg = *slots_[param];
  if (!arg.given()) return true;
  if (arg.is(Arg::Kind::kDevice)) {
    value = {arg.device, arg.device_index};
  } else if (!arg.is(Arg::Kind::kStr) || !parseDevice(arg.text(), value)) {
    return false;
  }
  // Which CUDA device "cuda" means is the thread's business.
  return value.type == DeviceType::CPU || value.type == DeviceType::Meta || value.index >= 0;
}

bool Call::formatOr(size_t param, MemoryFormat fallback, MemoryFormat& value) const {
  value = fallback;
  if (!slots_[param]->given()) return true;
  if (!slots_[param]->is(Arg::Kind::kMemoryFormat)) return false;
  value = static_cast<MemoryFormat>(slots_[param]->i);
  return true;
}

TensorMeta& Call::freshNoGrad(DType dtype, Dims sizes, Dims strides) {
  TensorMeta& meta = out.outputs.emplace_back().meta;
  meta.storage_bytes = storageBytes(sizes, strides, itemSize(dtype));
  meta.sizes = std::move(sizes);
  meta.strides = std::move(strides);
  meta.dtype = dtype;
  meta.device = place_.type;
  meta.device_index = place_.index;
  meta.is_inference = state.inference;
  return meta;
}

TensorMeta& Call::fresh(DType dtype, Dims sizes, Dims strides) {
  TensorMeta& meta = freshNoGrad(dtype, std::move(sizes), std::move(strides));
  meta.requires_grad = gradFor(dtype);
  meta.is_leaf = !meta.requires_grad;
  return meta;
}

TensorMeta& Call::fresh(DType dtype, Dims sizes) {
  Dims strides = contiguousStrides(sizes);
  return fresh(dtype, std::move(sizes), std::move(strides));
}

TensorMeta& Call::view(const Arg& base, Dims sizes, Dims strides, Dim offset) {
  Output& output = out.outputs.emplace_back();
  const TensorMeta& from = *base.tensor;
  TensorMeta& meta = output.meta;
  meta.sizes = std::move(sizes);
  meta.strides = std::move(strides);
  meta.dtype = from.dtype;
  meta.device = from.device;
  meta.device_index = from.device_index;
  meta.storage_offset = offset;
  meta.storage_bytes = from.storage_bytes;
  meta.is_inference = from.is_inference;
  // Without grad mode a view still requires grad, but has no history: it counts as a leaf.
  meta.requires_grad = from.requires_grad;
  meta.is_leaf = !(meta.requires_grad && state.grad_enabled);
  output.alias_of = firstOccurrence(tensors(), base);
  return meta;
}

void Call::same(const Arg& tensor) {
  Output& output = out.outputs.emplace_back();
  output.meta = *tensor.tensor;
  output.meta.storage_id = 0;
  output.same_object_as = output.alias_of = firstOccurrence(tensors(), tensor);
}

void Call::writes(const Arg& tensor) {
  out.mutates = true;
  out.written_inputs.push_back(firstOccurrence(tensors(), tensor));
}

void Call::constant(Ref<> value) {
  if (!value) throw PythonError();
  Output& output = out.outputs.emplace_back();
  output.kind = Output::Kind::kConstant;
  output.constant = std::move(value);
}

bool Call::inplace(const Arg& target, DType computed, const Dims& shape) {
  const TensorMeta& meta = *target.tensor;
  if (meta.sizes != shape || meta.is_inference || state.inference) return false;
  if (!(placeOf(meta) == place_)) return false;
  // Results may not be squeezed into a lower category (float into int, complex into float, anything into bool).
  if (isComplex(computed) && !isComplex(meta.dtype)) return false;
  if (isFloating(computed) && isIntegral(meta.dtype)) return false;
  if (computed != DType::Bool && meta.dtype == DType::Bool) return false;
  if (mayOverlap(meta.sizes, meta.strides)) return false;
  bool others_need_grad = false;
  for (const Arg* other : tensors()) {
    if (other->object == target.object) continue;
    others_need_grad = others_need_grad || other->tensor->requires_grad;
    // Memory shared with another argument is an error unless both see exactly the same elements.
    const bool shares =
        other->tensor->storage_id != 0 && other->tensor->storage_id == meta.storage_id;
    if (shares && (other->tensor->sizes != meta.sizes || other->tensor->strides != meta.strides ||
                   other->tensor->storage_offset != meta.storage_offset)) {
      return false;
    }
  }
  if (meta.requires_grad && meta.is_leaf && state.grad_enabled) return false;
  if (others_need_grad && state.grad_enabled && !isDifferentiable(meta.dtype)) return false;
  same(target);
  writes(target);
  if (others_need_grad && state.grad_enabled && !meta.requires_grad) {
    TensorMeta& now = out.outputs.back().meta;
    now.requires_grad = true;
    now.is_leaf = false;
    out.changed_inputs.emplace_back(out.outputs.back().same_object_as, now);
  }
  return true;
}

bool Call::finish(DType computed, DType result, Dims sizes, Dims strides) {
  if (mode_ == Mode::kInplace) return slots_[0]->isTensor() && inplace(*slots_[0], computed, sizes);
  fresh(result, std::move(sizes), std::move(strides));
  return true;
}

bool Promotion::add(const Arg& arg) {
  switch (arg.kind) {
    case Arg::Kind::kTensor: {
      if (!isOrdinary(arg.tensor->dtype)) return false;
      DType& slot = arg.tensor->sizes.empty() ? without_dims_ : with_dims_;
      slot = promote(slot, arg.tensor->dtype);
      return true;
    }
    case Arg::Kind::kBool:
      numbers_ = promote(numbers_, DType::Bool);
      return true;
    case Arg::Kind::kInt:
    case Arg::Kind::kSymInt:
      numbers_ = promote(numbers_, DType::Long);
      return true;
    case Arg::Kind::kFloat:
    case Arg::Kind::kSymFloat:
      numbers_ = promote(numbers_, state_.default_dtype);
      return true;
    case Arg::Kind::kComplex:
      numbers_ = promote(numbers_, toComplex(state_.default_dtype));
      return true;
    default:
      return false;
  }
}

namespace {

// A lower class of operands changes the dtype only where its category is higher.
DType combine(DType higher, DType lower) {
  if (isComplex(higher)) return higher;
  if (isFloating(higher)) return isComplex(lower) ? toComplex(higher) : higher;
  if (higher == DType::Bool || isFloating(lower) || isComplex(lower)) return promote(higher, lower);
  return higher == DType::Undefined ? lower : higher;
}

}  // namespace

DType Promotion::result() const { return combine(with_dims_, combine(without_dims_, numbers_)); }

}  // namespace stator::shapes
