// The global state that captured code depends on.
#include "base/hot.h"
#include "base/imports.h"
#include "base/text.h"
#include "python/objects.h"
#include "tensor/devices.h"
#include "tensor/reveal.h"
#include "tensor/tensor_guard.h"

#include <ATen/Context.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <cstring>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/jit/frontend/tracer.h>

namespace stator::tensor {

struct FlagsField {
  using Owner = at::Context;
  friend const auto& revealed(FlagsField, const Owner&);
};
struct PrecisionsField {
  using Owner = at::Context;
  friend const auto& revealed(PrecisionsField, const Owner&);
};
template struct Reveal<FlagsField, &at::Context::enabled_cudnn>;
template struct Reveal<PrecisionsField, &at::Context::fp32_precision>;

namespace {

using at::Float32Backend;
using at::Float32Op;

// What each word holds.
enum Word { kModes, kIncluded, kExcluded, kFlags, kPrecision, kAutocast, kAutocastDtypes, kStacks };

struct Flag {
  const char* name;
  bool (*read)(const at::Context&);
};

const Flag kContextFlags[] = {
    {"torch.are_deterministic_algorithms_enabled()",
     [](const at::Context& c) { return c.deterministicAlgorithms(); }},
    {"torch.is_deterministic_algorithms_warn_only_enabled()",
     [](const at::Context& c) { return c.deterministicAlgorithmsWarnOnly(); }},
    {"torch.utils.deterministic.fill_uninitialized_memory",
     [](const at::Context& c) { return c.deterministicFillUninitializedMemory(); }},
    {"torch.backends.cudnn.enabled", [](const at::Context& c) { return c.userEnabledCuDNN(); }},
    {"torch.backends.cudnn.benchmark", [](const at::Context& c) { return c.benchmarkCuDNN(); }},
    {"torch.backends.cudnn.deterministic",
     [](const at::Context& c) { return c.deterministicCuDNN(); }},
    {"torch.backends.mkldnn.enabled", [](const at::Context& c) { return c.userEnabledMkldnn(); }},
    {"torch.backends.mkldnn.deterministic",
     [](const at::Context& c) { return c.deterministicMkldnn(); }},
    {"torch.backends.cuda.flash_sdp_enabled()",
     [](const at::Context& c) { return c.userEnabledFlashSDP(); }},
    {"torch.backends.cuda.mem_efficient_sdp_enabled()",
     [](const at::Context& c) { return c.userEnabledMemEfficientSDP(); }},
    {"torch.backends.cuda.math_sdp_enabled()",
     [](const at::Context& c) { return c.userEnabledMathSDP(); }},
    {"torch.backends.cuda.cudnn_sdp_enabled()",
     [](const at::Context& c) { return c.userEnabledCuDNNSDP(); }},
    {"torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()",
     [](const at::Context& c) { return c.allowFP16BF16ReductionMathSDP(); }},
    {"torch.backends.cuda.matmul.allow_fp16_accumulation",
     [](const at::Context& c) { return c.allowFP16AccumulationCuBLAS(); }},
    {"torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
     [](const at::Context& c) {
       return c.allowFP16ReductionCuBLAS() ==
              at::CuBLASReductionOption::AllowReducedPrecisionWithSplitK;
     }},
    {"torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
     [](const at::Context& c) {
       return c.allowBF16ReductionCuBLAS() ==
              at::CuBLASReductionOption::AllowReducedPrecisionWithSplitK;
     }},
    {"torch.backends.cpu.allow_fp16_reduced_precision_reduction",
     [](const at::Context& c) { return c.allowFP16ReductionCPU(); }},
};

struct Precision {
  const char* name;
  Float32Backend backend;
  Float32Op op;
};

// set_float32_matmul_precision, allow_tf32 and fp32_precision all end in these.
constexpr Precision kPrecisions[] = {
    {"torch.backends.fp32_precision", Float32Backend::GENERIC, Float32Op::ALL},
    {"torch.get_float32_matmul_precision() (CUDA)", Float32Backend::CUDA, Float32Op::MATMUL},
    {"torch.get_float32_matmul_precision() (CPU)", Float32Backend::MKLDNN, Float32Op::MATMUL},
    {"torch.backends.cudnn.conv.fp32_precision", Float32Backend::CUDA, Float32Op::CONV},
    {"torch.backends.cudnn.rnn.fp32_precision", Float32Backend::CUDA, Float32Op::RNN},
    {"torch.backends.mkldnn.conv.fp32_precision", Float32Backend::MKLDNN, Float32Op::CONV},
    {"torch.backends.mkldnn.rnn.fp32_precision", Float32Backend::MKLDNN, Float32Op::RNN},
};

// The flags as they were last translated into words, so that they are asked for only when a byte among them has
// changed: at::Context tells them one call each, every call into another cold page. They lie side by side from
// `enabled_cudnn` on, the precisions in a map whose nodes never move.
class FlagsCache {
 public:
  void read(const at::Context& context, uint64_t* words) {
    if (!current(context)) [[unlikely]]
      refresh(context);
    words[kFlags] = flags_;
    words[kPrecision] = precision_;
  }

 private:
  static const char* begin(const at::Context& context) {
    return reinterpret_cast<const char*>(&revealed(FlagsField(), context));
  }
  static size_t size(const at::Context& context) {
    return static_cast<size_t>(
        reinterpret_cast<const char*>(&revealed(PrecisionsField(), context)) - begin(context));
  }
  bool current(const at::Context& context) const {
    if (size_ != size(context) || std::memcmp(bytes_, begin(context), size_) != 0) return false;
    for (size_t i = 0; i < values_count_; ++i) {
      if (*values_[i] != seen_[i]) return false;
    }
    return values_count_ == revealed(PrecisionsField(), context).size();
  }
  void refresh(const at::Context& context) {
    flags_ = precision_ = 0;
    for (size_t i = 0; i < std::size(kContextFlags); ++i)
      flags_ |= static_cast<uint64_t>(kContextFlags[i].read(context)) << i;
    for (size_t i = 0; i < std::size(kPrecisions); ++i) {
      precision_ |=
          static_cast<uint64_t>(context.float32Precision(kPrecisions[i].backend, kPrecisions[i].op))
          << (4 * i);
    }
    const auto& precisions = revealed(PrecisionsField(), context);
    size_ = size(context);
    if (size_ > sizeof bytes_ || precisions.size() > std::size(values_)) {
      size_ = 0;  // another layout than expected: translated anew each time
      return;
    }
    std::memcpy(bytes_, begin(context), size_);
    values_count_ = 0;
    for (const auto& [key, value] : precisions) {
      values_[values_count_] = &value;
      seen_[values_count_++] = value;
    }
  }

  char bytes_[512] = {};
  size_t size_ = 0;
  const at::Float32Precision* values_[16] = {};
  at::Float32Precision seen_[16] = {};
  size_t values_count_ = 0;
  uint64_t flags_ = 0;
  uint64_t precision_ = 0;
};

constexpr const char* kPrecisionNames[] = {"none", "ieee", "tf32", "bf16", "default"};

void readAutocast(uint64_t* words, c10::DispatchKeySet excluded) {
  // Autocast is on for a device exactly when its key is not excluded, and all are at start.
  const c10::DispatchKeySet off = excluded & c10::autocast_dispatch_keyset;
  if (off == c10::autocast_dispatch_keyset) return;
  words[kAutocast] = at::autocast::is_autocast_cache_enabled() ? 1ull << 63 : 0;
  for (size_t i = 0; i < at::autocast::_AUTOCAST_SUPPORTED_DEVICES.size(); ++i) {
    const at::DeviceType device = at::autocast::_AUTOCAST_SUPPORTED_DEVICES[i];
    if (!at::autocast::is_autocast_enabled(device)) continue;
    words[kAutocast] |= 1ull << i;
    words[kAutocastDtypes] |= static_cast<uint64_t>(at::autocast::get_autocast_dtype(device))
                              << (6 * i);
  }
}

void addMode(PyObject* list, PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  Ref<> item = newRef(reinterpret_cast<PyObject*>(type));
  if (std::strcmp(type->tp_name, "DeviceContext") == 0) {
    static PyObject* name = PyUnicode_InternFromString("device");
    PyObject* device = nullptr;
    if (stator_object_lookup(object, name, &device) == STATOR_FOUND)
      item = stealRef(PyTuple_Pack(2, item.get(), device));
  }
  PyList_Append(list, item.get());
}

// Which transforms of torch.func are under way, outermost first, as torch's own comparison of them has it. Its header
// of the stack needs a library that torch does not ship; the dispatch keys tell whether there is one at all.
Ref<> transformStack() {
  Ref<> module = stealRef(importModule("stator._transforms"));
  Ref<> text =
      stealRef(module ? PyObject_CallMethod(module.get(), "stack_text", nullptr) : nullptr);
  if (!text) {
    PyErr_Clear();
    return newRef(Py_None);  // equal to no stack
  }
  return text;
}

bool isTransformStack(PyObject* mode) {
  return PyUnicode_CheckExact(mode) && PyUnicode_GET_LENGTH(mode) > 0 &&
         PyUnicode_READ_CHAR(mode, 0) == '[';
}

Ref<> activeModes(int64_t function_modes, int64_t dispatch_modes, bool transforms,
                  const std::optional<std::string>& no_saved_hooks) {
  Ref<> list = stealRef(PyList_New(0));
  for (int64_t i = 0; i < function_modes; ++i) {
    addMode(list.get(), at::impl::PythonTorchFunctionTLS::get_stack_at(i)->ptr(getPyInterpreter()));
  }
  for (int64_t i = 0; i < dispatch_modes; ++i) {
    addMode(list.get(), c10::impl::TorchDispatchModeTLS::get_stack_at(i)->ptr(getPyInterpreter()));
  }
  if (transforms) PyList_Append(list.get(), transformStack().get());
  if (no_saved_hooks) {
    Ref<> message = stealRef(PyUnicode_DecodeUTF8(
        no_saved_hooks->data(), static_cast<Py_ssize_t>(no_saved_hooks->size()), "replace"));
    PyList_Append(list.get(), message.get());
  }
  return stealRef(PyList_AsTuple(list.get()));
}

bool sameMode(PyObject* left, PyObject* right) {
  if (left == right) return left != Py_None;
  if (PyUnicode_CheckExact(left) && PyUnicode_CheckExact(right))
    return PyUnicode_Compare(left, right) == 0;
  if (!PyTuple_CheckExact(left) || !PyTuple_CheckExact(right)) return false;
  if (PyTuple_GET_ITEM(left, 0) != PyTuple_GET_ITEM(right, 0)) return false;
  PyObject* a = PyTuple_GET_ITEM(left, 1);
  PyObject* b = PyTuple_GET_ITEM(right, 1);
  return a == b || (isDevice(a) && isDevice(b) && sameDevice(a, b));
}

STATOR_HOT bool sameModes(const Ref<>& left, const Ref<>& right) {
  if (!left || !right) return !left && !right;
  if (PyTuple_GET_SIZE(left.get()) != PyTuple_GET_SIZE(right.get())) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(left.get()); ++i) {
    if (!sameMode(PyTuple_GET_ITEM(left.get(), i), PyTuple_GET_ITEM(right.get(), i))) return false;
  }
  return true;
}

std::string truth(uint64_t value) { return value ? "True" : "False"; }
std::string differs(const std::string& what, const std::string& was, const std::string& is) {
  return what + ": was " + was + ", is " + is;
}
std::string dtypeText(uint64_t dtype) { return c10::toString(static_cast<c10::ScalarType>(dtype)); }

std::string transformsText(const Ref<>& modes) {
  for (Py_ssize_t i = 0; modes && i < PyTuple_GET_SIZE(modes.get()); ++i) {
    PyObject* mode = PyTuple_GET_ITEM(modes.get(), i);
    if (isTransformStack(mode)) return utf8(mode);
  }
  return "[]";
}

std::string modesText(const Ref<>& modes) {
  if (!modes) return "none";
  std::string text;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(modes.get()); ++i) {
    PyObject* mode = PyTuple_GET_ITEM(modes.get(), i);
    if (i != 0) text += ", ";
    if (PyType_Check(mode)) {
      text += reinterpret_cast<PyTypeObject*>(mode)->tp_name;
      continue;
    }
    if (isTransformStack(mode)) {
      text += std::string("transforms of torch.func ") + utf8(mode);
      continue;
    }
    if (PyUnicode_CheckExact(mode)) {
      text += std::string("no saved-tensor hooks: ") + utf8(mode);
      continue;
    }
    Ref<> device = stealRef(PyObject_Str(PyTuple_GET_ITEM(mode, 1)));
    const char* name = device ? utf8OrNull(device.get()) : nullptr;
    if (name == nullptr) PyErr_Clear();
    text += std::string("device ") + (name ? name : "?");
  }
  return text;
}

}  // namespace

STATOR_HOT bool jitTraces() { return torch::jit::tracer::isTracing(); }

STATOR_HOT bool transformsActive() {
  return c10::impl::tls_local_dispatch_key_set().included_.has(
      c10::DispatchKey::FuncTorchDynamicLayerFrontMode);
}

STATOR_HOT bool callsAreWatched() {
  const c10::DispatchKeySet included = c10::impl::tls_local_dispatch_key_set().included_;
  if (!at::SavedTensorDefaultHooks::get_tls_state().stack.empty()) return true;
  if (included.has(c10::DispatchKey::Python) && c10::impl::TorchDispatchModeTLS::stack_len() != 0)
    return true;
  return false;
}

STATOR_HOT GlobalState GlobalState::now() {
  GlobalState state;
  uint64_t* words = state.words;
  const c10::AutogradState& autograd = c10::AutogradState::get_tls_state();
  const std::optional<std::string>& no_saved_hooks =
      at::SavedTensorDefaultHooks::get_tls_state().disabled_error_message;
  words[kModes] = static_cast<uint64_t>(autograd.get_grad_mode()) |
                  static_cast<uint64_t>(autograd.get_inference_mode()) << 1 |
                  static_cast<uint64_t>(autograd.get_fw_grad_mode()) << 2 |
                  static_cast<uint64_t>(no_saved_hooks.has_value()) << 3 |
                  static_cast<uint64_t>(at::impl::PythonTorchFunctionTLS::get_disabled_state())
                      << 4 |
                  static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()) << 8 |
                  static_cast<uint64_t>(currentDevice()) << 16;
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  words[kIncluded] = keys.included_.raw_repr();
  words[kExcluded] = keys.excluded_.raw_repr();
  static FlagsCache flags;  // under the GIL
  static const at::Context& context = at::globalContext();
  flags.read(context, words);
  readAutocast(words, keys.excluded_);
  const auto function_modes = at::impl::PythonTorchFunctionTLS::stack_len();
  // Pushing a dispatch mode includes the Python key.
  const int64_t dispatch_modes = keys.included_.has(c10::DispatchKey::Python)
                                     ? c10::impl::TorchDispatchModeTLS::stack_len()
                                     : 0;
  words[kStacks] = static_cast<uint64_t>(function_modes) | static_cast<uint64_t>(dispatch_modes)
                                                               << 16;
  const bool transforms = keys.included_.has(c10::DispatchKey::FuncTorchDynamicLayerFrontMode);
  if (function_modes + dispatch_modes != 0 || no_saved_hooks || transforms) [[unlikely]]
    state.modes = activeModes(function_modes, dispatch_modes, transforms, no_saved_hooks);
  return state;
}

STATOR_HOT bool GlobalState::equals(const GlobalState& other) const {
  return std::memcmp(words, other.words, sizeof words) == 0 && sameModes(modes, other.modes);
}

std::string GlobalState::transforms() const {
  const std::string stack = transformsText(modes);
  return stack == "[]" ? "" : "torch._functorch.pyfunctorch.compare_functorch_state(" + stack + ")";
}

std::string GlobalState::difference(const GlobalState& now) const {
  auto changed = [&](Word word) { return words[word] ^ now.words[word]; };
  // They change more than themselves: grad mode, dispatch keys, hooks.
  const std::string transforms = transformsText(modes), transforms_now = transformsText(now.modes);
  if (transforms != transforms_now)
    return differs("torch._functorch.pyfunctorch.compare_functorch_state(" + transforms + ")",
                   "True", "False (" + transforms_now + ")");
  if (uint64_t bits = changed(kModes)) {
    const uint64_t was = words[kModes], is = now.words[kModes];
    if (bits & 2)
      return differs("torch.is_inference_mode_enabled()", truth(was & 2), truth(is & 2));
    if (bits & 1) return differs("torch.is_grad_enabled()", truth(was & 1), truth(is & 1));
    if (bits & 8)
      return differs("torch._C._autograd._saved_tensors_hooks_is_enabled()", truth(!(was & 8)),
                     truth(!(is & 8)));
    if (bits & 4) return differs("forward-mode AD enabled", truth(was & 4), truth(is & 4));
    if (bits & 0xF0)
      return differs("torch function disabled state", std::to_string(was >> 4 & 15),
                     std::to_string(is >> 4 & 15));
    if (bits & 0xFF00)
      return differs("torch.get_default_dtype()", dtypeText(was >> 8 & 255),
                     dtypeText(is >> 8 & 255));
    return differs("torch.accelerator.current_device_index()", std::to_string(was >> 16),
                   std::to_string(is >> 16));
  }
  if (changed(kStacks) || !sameModes(modes, now.modes))
    return differs("active torch function and dispatch modes", modesText(modes),
                   modesText(now.modes));
  if (uint64_t bits = changed(kAutocast)) {
    if (bits == 1ull << 63) {
      return differs("torch.is_autocast_cache_enabled()", truth(words[kAutocast] >> 63),
                     truth(now.words[kAutocast] >> 63));
    }
    const int i = __builtin_ctzll(bits);  // the cache flag is the highest
    const std::string device =
        c10::DeviceTypeName(at::autocast::_AUTOCAST_SUPPORTED_DEVICES[i], true);
    return differs("torch.is_autocast_enabled('" + device + "')", truth(words[kAutocast] >> i & 1),
                   truth(now.words[kAutocast] >> i & 1));
  }
  if (uint64_t bits = changed(kAutocastDtypes)) {
    const int i = __builtin_ctzll(bits) / 6;
    const std::string device =
        c10::DeviceTypeName(at::autocast::_AUTOCAST_SUPPORTED_DEVICES[i], true);
    return differs("torch.get_autocast_dtype('" + device + "')",
                   dtypeText(words[kAutocastDtypes] >> (6 * i) & 63),
                   dtypeText(now.words[kAutocastDtypes] >> (6 * i) & 63));
  }
  if (uint64_t bits = changed(kFlags)) {
    const int i = __builtin_ctzll(bits);
    return differs(kContextFlags[i].name, truth(words[kFlags] >> i & 1),
                   truth(now.words[kFlags] >> i & 1));
  }
  if (uint64_t bits = changed(kPrecision)) {
    const int i = __builtin_ctzll(bits) / 4;
    return differs(kPrecisions[i].name, kPrecisionNames[words[kPrecision] >> (4 * i) & 15],
                   kPrecisionNames[now.words[kPrecision] >> (4 * i) & 15]);
  }
  if (changed(kIncluded) || changed(kExcluded)) {
    return differs(
        "the thread's dispatch keys",
        std::to_string(words[kIncluded]) + "/" + std::to_string(words[kExcluded]),
        std::to_string(now.words[kIncluded]) + "/" + std::to_string(now.words[kExcluded]));
  }
  return "";
}

}  // namespace stator::tensor
