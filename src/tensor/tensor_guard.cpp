#include "tensor/tensor_guard.h"

#include "base/check.h"
#include "base/hot.h"
#include "tensor/fake_modes.h"
#include "tensor/impl_fields.h"
#include "tensor/tensor_facts.h"

#include <ATen/ops/scalar_tensor.h>
#include <array>
#include <deque>
#include <torch/csrc/Device.h>
#include <utility>

namespace stator::tensor {

namespace {

// Marks that users put on tensors (mark_dynamic and friends), as attributes of the Python object.
constexpr std::array<const char*, 6> kMarks = {
    "_dynamo_dynamic_indices",  "_dynamo_weak_dynamic_indices",    "_dynamo_static_indices",
    "_dynamo_unbacked_indices", "_dynamo_strict_unbacked_indices", "_dynamo_dynamic_range"};

PyObject* markName(size_t i) {
  static std::array<PyObject*, kMarks.size()> names = {};
  if (names[i] == nullptr) names[i] = PyUnicode_InternFromString(kMarks[i]);
  return names[i];
}

uint64_t dimsOf(PyObject* set) {
  if (!PyAnySet_CheckExact(set)) return 0;
  uint64_t dims = 0;
  Py_ssize_t position = 0;
  PyObject* item = nullptr;
  Py_hash_t hash = 0;
  while (_PySet_NextEntry(set, &position, &item, &hash)) {
    if (!PyLong_CheckExact(item)) continue;
    long dim = PyLong_AsLong(item);
    if (dim == -1 && PyErr_Occurred()) PyErr_Clear();
    dims |= 2ull << (static_cast<unsigned long>(dim) % 9);
  }
  return dims;
}

uint64_t marksIn(const StatorView& view) {
  uint64_t marks = 0;
  for (size_t i = 0; i < kMarks.size(); ++i) {
    PyObject* name = markName(i);
    Py_ssize_t index = stator_view_find(&view, name, PyObject_Hash(name));
    if (index >= 0) marks |= (1 | dimsOf(stator_view_value(&view, index))) << (10 * i);
  }
  return marks;
}

}  // namespace

// Shared keys only grow, so "no mark is among the first n" stays true; nearly all tensors of a type share one set of
// keys.
STATOR_HOT bool keysHaveNoMarks(const StatorKeys* keys) {
  static const StatorKeys* clean_keys = nullptr;
  static Py_ssize_t clean_used = -1;
  if (keys == clean_keys && keys->used == clean_used) return true;
  StatorView view{};
  view.keys = keys;
  // any non-null value will do: only presence in the keys is asked
  view.entries = view.values = stator_keys_entries(keys);
  view.key_stride = view.value_stride = 2;
  for (size_t i = 0; i < kMarks.size(); ++i) {
    PyObject* name = markName(i);
    if (stator_view_find(&view, name, PyObject_Hash(name)) >= 0) return false;
  }
  clean_keys = keys;
  clean_used = keys->used;
  return true;
}

namespace {

STATOR_HOT uint64_t marksOf(PyObject* tensor) {
  StatorView view;
  if (stator_has_managed_dict(Py_TYPE(tensor))) {
    stator_view_managed(&view, tensor);
  } else if (!stator_view_object(&view, tensor)) {
    return 0;
  }
  if (view.keys == nullptr) return 0;
  if (view.keys->kind == 2 && keysHaveNoMarks(view.keys)) return 0;
  return marksIn(view);
}

std::string list(const std::vector<int64_t>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i != 0) text += ", ";
    text += values[i] < 0 ? "?" : std::to_string(values[i]);
  }
  return text + "]";
}

std::string dtypeName(int dtype) { return c10::toString(static_cast<c10::ScalarType>(dtype)); }

std::string pythonDtypeName(int dtype) {
  // torch's C++ names differ from the Python ones for a handful of dtypes.
  switch (static_cast<c10::ScalarType>(dtype)) {
    case c10::ScalarType::Float:
      return "float32";
    case c10::ScalarType::Double:
      return "float64";
    case c10::ScalarType::Half:
      return "float16";
    case c10::ScalarType::BFloat16:
      return "bfloat16";
    case c10::ScalarType::Int:
      return "int32";
    case c10::ScalarType::Long:
      return "int64";
    case c10::ScalarType::Short:
      return "int16";
    case c10::ScalarType::Char:
      return "int8";
    case c10::ScalarType::Byte:
      return "uint8";
    case c10::ScalarType::Bool:
      return "bool";
    case c10::ScalarType::ComplexFloat:
      return "complex64";
    case c10::ScalarType::ComplexDouble:
      return "complex128";
    default:
      return dtypeName(dtype);
  }
}

std::string deviceName(int type, int index) {
  std::string name = c10::DeviceTypeName(static_cast<c10::DeviceType>(type), /*lower_case=*/true);
  return index < 0 ? name : name + ":" + std::to_string(index);
}

const char* truth(bool value) { return value ? "True" : "False"; }

std::string keysName(uint64_t keys) {
  return c10::toString(c10::DispatchKeySet(c10::DispatchKeySet::RAW, keys));
}

}  // namespace

namespace {

enum class Field { kType, kDtype, kDevice, kKeys, kRank, kSize, kStride, kRequiresGrad, kMark };

template <class Differs>
inline bool sameShape(const TensorFacts& facts, const int64_t* sizes, const int64_t* strides,
                      Differs&& differs) {
  const int64_t* expected = facts.shape;
  if (!facts.dynamic) [[likely]] {
    int64_t difference = 0;
    for (uint32_t i = 0; i < facts.rank; ++i) difference |= expected[i] ^ sizes[i];
    for (uint32_t i = 0; i < facts.strides; ++i)
      difference |= expected[facts.rank + i] ^ strides[i];
    if (difference == 0) return true;
  }
  for (uint32_t i = 0; i < facts.rank; ++i) {
    if (expected[i] >= 0 && expected[i] != sizes[i]) return differs(Field::kSize, i);
  }
  expected += facts.rank;
  for (uint32_t i = 0; i < facts.strides; ++i) {
    if (expected[i] >= 0 && expected[i] != strides[i]) return differs(Field::kStride, i);
    if (expected[i] < -1) {
      const int64_t inner = -2 - expected[i];
      if (strides[i] != sizes[inner] * strides[inner]) return differs(Field::kStride, i);
    }
  }
  return true;
}

// The one body of check and explanation: `differs` gets the field that does not match, and returns false.
template <class Differs>
inline bool matches(const TensorFacts& facts, PyObject* object, Differs&& differs) {
  if (Py_TYPE(object) != facts.type) return differs(Field::kType, 0);
  const c10::TensorImpl& impl = implOf(object);
  const uint64_t word = ImplFields::dtypeAndDevice(impl);
  if (word != facts.dtype_and_device)
    return differs((word ^ facts.dtype_and_device) & 0xFFFF ? Field::kDtype : Field::kDevice, 0);
  const c10::impl::SizesAndStrides& shape = ImplFields::shape(impl);
  if (shape.size() != facts.rank) return differs(Field::kRank, 0);
  if (!sameShape(facts, shape.sizes_data(), shape.strides_data(), differs)) return false;
  if (!facts.any_grad && requiresGrad(impl) != facts.requires_grad)
    return differs(Field::kRequiresGrad, 0);
  if (ImplFields::keys(impl) != facts.keys) return differs(Field::kKeys, 0);
  // What is marked has to be dynamic here; an entry for marked tensors also serves others.
  if ((marksOf(object) & ~facts.marks) != 0) return differs(Field::kMark, 0);
  return true;
}

}  // namespace

bool isTensor(PyObject* object) {
  return THPVariableClass != nullptr &&
         PyType_IsSubtype(Py_TYPE(object), reinterpret_cast<PyTypeObject*>(THPVariableClass));
}

bool isExactTensor(PyObject* object) {
  return THPVariableClass != nullptr && THPVariable_CheckTypeExact(Py_TYPE(object));
}

std::shared_ptr<TensorGuard> TensorGuard::of(PyObject* tensor) {
  const c10::TensorImpl& impl = implOf(tensor);
  auto guard = std::make_shared<TensorGuard>();
  guard->type = Ref<PyTypeObject>::create(Py_TYPE(tensor));
  guard->dtype = static_cast<int>(c10::typeMetaToScalarType(impl.dtype()));
  const uint64_t word = ImplFields::dtypeAndDevice(impl);
  // Raw fields: a subclass's own idea of its device is not asked. Byte 4 tells whether there is a device at all.
  guard->device_type = static_cast<int8_t>(word >> 16);
  guard->device_index = static_cast<int8_t>(word >> 24);
  guard->requires_grad = tensor::requiresGrad(impl);
  guard->dispatch_keys = ImplFields::keys(impl);
  guard->is_view_of_inference = ImplFields::isInference(impl);
  const c10::impl::SizesAndStrides& shape = ImplFields::shape(impl);
  guard->sizes.assign(shape.sizes_data(), shape.sizes_data() + shape.size());
  guard->has_strides =
      !impl.key_set().has_any(c10::sparse_ks | c10::sparse_csr_ks | c10::mkldnn_ks);
  guard->strides.assign(shape.strides_data(), shape.strides_data() + shape.size());
  guard->dynamo_attributes = marksOf(tensor);
  return guard;
}

bool TensorGuard::check(PyObject* object) const {
  TensorFactsSet facts;
  return isTensor(object) && checkFacts(*facts.add(*this), object);
}

std::string TensorGuard::explain(PyObject* object) const {
  if (object == nullptr) return std::string("was a ") + type->tp_name + ", is missing";
  if (!isTensor(object))
    return std::string("was a ") + type->tp_name + ", is a " + Py_TYPE(object)->tp_name;
  TensorFactsSet packed;
  std::string text;
  const std::shared_ptr<const TensorGuard> seen = of(object);
  matches(*packed.add(*this), object, [&](Field field, size_t dim) {
    const std::string n = "(" + std::to_string(dim) + ")";
    auto differs = [&](const std::string& what, const std::string& was, const std::string& is) {
      text = what + ": was " + was + ", is " + is;
    };
    switch (field) {
      case Field::kType:
        differs("type", type->tp_name, seen->type->tp_name);
        break;
      case Field::kDtype:
        differs("dtype", pythonDtypeName(dtype), pythonDtypeName(seen->dtype));
        break;
      case Field::kDevice:
        differs("device", deviceName(device_type, device_index),
                deviceName(seen->device_type, seen->device_index));
        break;
      case Field::kKeys:
        differs("dispatch_keys", keysName(dispatch_keys), keysName(seen->dispatch_keys));
        break;
      case Field::kRank:
        differs("dim()", std::to_string(sizes.size()), std::to_string(seen->sizes.size()));
        break;
      case Field::kSize:
        differs("size" + n, std::to_string(sizes[dim]), std::to_string(seen->sizes[dim]));
        break;
      case Field::kStride:
        differs("stride" + n,
                strides[dim] < 0
                    ? "the size times the stride of dim " + std::to_string(-2 - strides[dim])
                    : std::to_string(strides[dim]),
                std::to_string(seen->strides[dim]));
        break;
      case Field::kRequiresGrad:
        differs("requires_grad", truth(requires_grad), truth(seen->requires_grad));
        break;
      case Field::kMark:
        differs("marks", std::to_string(dynamo_attributes),
                std::to_string(seen->dynamo_attributes));
        break;
    }
    return false;
  });
  return text;
}

std::string TensorGuard::text() const {
  std::string text = type->tp_name;
  text += ", " + pythonDtypeName(dtype) + ", " + list(sizes);
  if (has_strides) text += ", stride " + list(strides);
  text += ", " + deviceName(device_type, device_index);
  if (requires_grad && !any_grad) text += ", requires_grad";
  if (dynamo_attributes != 0) text += ", marked";
  return text;
}

struct TensorFactsSet::Storage {
  std::deque<TensorFacts> facts;
  std::deque<std::vector<int64_t>> shapes;
};

TensorFactsSet::TensorFactsSet() : storage_(std::make_unique<Storage>()) {}
TensorFactsSet::~TensorFactsSet() = default;

const TensorFacts* TensorFactsSet::add(const TensorGuard& guard) {
  const c10::Device device(static_cast<c10::DeviceType>(guard.device_type),
                           static_cast<c10::DeviceIndex>(guard.device_index));
  const std::optional<c10::Device> device_field(device);
  const caffe2::TypeMeta dtype_field =
      c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(guard.dtype));
  uint64_t word = 0;
  std::memcpy(&word, &dtype_field, 2);
  std::memcpy(reinterpret_cast<char*>(&word) + 2, &device_field, 3);
  std::vector<int64_t> shape = guard.sizes;
  if (guard.has_strides) shape.insert(shape.end(), guard.strides.begin(), guard.strides.end());
  bool dynamic = false;
  for (int64_t value : shape) dynamic |= value < 0;
  TensorFacts facts{guard.type.get(),
                    guard.dispatch_keys,
                    word,
                    guard.dynamo_attributes,
                    static_cast<uint32_t>(guard.sizes.size()),
                    static_cast<uint32_t>(guard.has_strides ? guard.strides.size() : 0),
                    guard.requires_grad && !guard.any_grad,
                    guard.any_grad,
                    dynamic,
                    nullptr};
  for (size_t i = 0; i < storage_->facts.size(); ++i) {
    const TensorFacts& known = storage_->facts[i];
    if (known.type == facts.type && known.keys == facts.keys &&
        known.dtype_and_device == facts.dtype_and_device && known.marks == facts.marks &&
        known.rank == facts.rank && known.strides == facts.strides &&
        known.requires_grad == facts.requires_grad && known.any_grad == facts.any_grad &&
        storage_->shapes[i] == shape) {
      return &known;
    }
  }
  storage_->shapes.push_back(std::move(shape));
  facts.shape = storage_->shapes.back().data();
  storage_->facts.push_back(facts);
  return &storage_->facts.back();
}

STATOR_HOT bool checkFacts(const TensorFacts& facts, PyObject* object) {
  return matches(facts, object, [](Field, size_t) { return false; });
}

TensorPlace TensorPlace::of(PyObject* tensor, const TensorFacts& facts) {
  const c10::TensorImpl& impl = implOf(tensor);
  if (facts.any_grad) return TensorPlace{&impl, &impl};
  const torch::autograd::AutogradMeta* meta = ImplFields::autograd(impl);
  return TensorPlace{&impl,
                     meta != nullptr ? static_cast<const void*>(&meta->requires_grad_) : &impl};
}

namespace {

inline void fetchImpl(const void* impl) {
  // The fields that count lie between bytes 24 and 176.
  __builtin_prefetch(static_cast<const char*>(impl) + 24);
  __builtin_prefetch(static_cast<const char*>(impl) + 88);
  __builtin_prefetch(static_cast<const char*>(impl) + 152);
}

constexpr size_t kAhead = 8;

// Tensors of one kind, which share what is asked of them: `kRank` dims, or any number of them (-1). Says at once that
// all is as it has to be for nearly all tensors; where something looks otherwise the exact check decides.
template <int kRank>
STATOR_HOT bool allOfOneKind(const TensorFacts& facts, const TensorPair* pairs, size_t count) {
  const uint32_t rank = kRank >= 0 ? static_cast<uint32_t>(kRank) : facts.rank;
  const bool managed = stator_has_managed_dict(facts.type);
  const StatorKeys* keys = managed ? stator_type_keys(facts.type) : nullptr;
  const bool exact = facts.dynamic || facts.strides != facts.rank || !managed ||
                     (keys != nullptr && !keysHaveNoMarks(keys));
  for (size_t i = 0; i < count; ++i) {
    PyObject* object = pairs[i].object;
    if (exact || Py_TYPE(object) != facts.type) [[unlikely]] {
      if (!checkFacts(facts, object)) return false;
      continue;
    }
    const c10::TensorImpl& impl = implOf(object);
    const c10::impl::SizesAndStrides& shape = ImplFields::shape(impl);
    uint64_t differs = (ImplFields::dtypeAndDevice(impl) ^ facts.dtype_and_device) |
                       (ImplFields::keys(impl) ^ facts.keys) | (shape.size() ^ rank) |
                       reinterpret_cast<uintptr_t>(stator_managed_dict(object));
    if (differs == 0) [[likely]] {
      const int64_t* sizes = shape.sizes_data();
      const int64_t* strides = shape.strides_data();
      for (uint32_t dim = 0; dim < rank; ++dim)
        differs |= static_cast<uint64_t>((sizes[dim] ^ facts.shape[dim]) |
                                         (strides[dim] ^ facts.shape[rank + dim]));
    }
    if (!facts.any_grad) {
      const torch::autograd::AutogradMeta* meta = ImplFields::autograd(impl);
      const bool leaf_that_requires = meta != nullptr && meta->requires_grad_;
      differs |= facts.requires_grad
                     ? !leaf_that_requires
                     : meta != nullptr && (leaf_that_requires || meta->grad_fn_ || meta->is_view_);
    }
    if (differs != 0 && !checkFacts(facts, object)) [[unlikely]]
      return false;
  }
  return true;
}

STATOR_HOT bool oneKind(const TensorFacts& facts, const TensorPair* pairs, size_t count) {
  switch (facts.rank) {
    case 1:
      return allOfOneKind<1>(facts, pairs, count);
    case 2:
      return allOfOneKind<2>(facts, pairs, count);
    default:
      return allOfOneKind<-1>(facts, pairs, count);
  }
}

}  // namespace

STATOR_HOT bool checkAllFacts(const TensorPair* pairs, size_t count, bool fetch) {
  if (fetch) {
    // None yet if it is not what it has to be: anything may be in a tensor's place.
    auto impl_at = [&](size_t at) -> const c10::TensorImpl* {
      if (at >= count || Py_TYPE(pairs[at].object) != pairs[at].facts->type) return nullptr;
      return &implOf(pairs[at].object);
    };
    for (size_t i = 0; i < count; ++i) {
      // Object, TensorImpl and autograd meta, each found through the one before.
      if (i + 3 * kAhead < count) __builtin_prefetch(pairs[i + 3 * kAhead].object);
      if (const c10::TensorImpl* impl = impl_at(i + 2 * kAhead)) fetchImpl(impl);
      if (const c10::TensorImpl* impl = impl_at(i + kAhead)) {
        if (auto* meta = ImplFields::autograd(*impl)) __builtin_prefetch(&meta->requires_grad_);
      }
      if (!checkFacts(*pairs[i].facts, pairs[i].object)) return false;
    }
    return true;
  }
  for (size_t i = 0; i < count;) {
    size_t end = i + 1;
    while (end < count && pairs[end].facts == pairs[i].facts) ++end;
    if (!oneKind(*pairs[i].facts, pairs + i, end - i)) return false;
    i = end;
  }
  return true;
}

PyObject* gradOf(PyObject* tensor) {
  if (!isTensor(tensor)) return nullptr;
  const at::Tensor& own = THPVariable_Unpack(tensor);
  const at::Tensor& grad = own.unsafeGetTensorImpl()->grad();
  if (grad.defined()) return THPVariable_Wrap(grad);
  // torch warns of the question: of no leaf, and not retained.
  return own.is_leaf() || own.retains_grad() ? Py_NewRef(Py_None) : nullptr;
}

PyObject* ofFloat(double number) {
  HANDLE_TH_ERRORS
  return THPVariable_Wrap(
      at::scalar_tensor(number, at::TensorOptions(at::kDouble).device(at::kCPU)));
  END_HANDLE_TH_ERRORS
}

PyObject* numberOf(PyObject* object, int64_t index) {
  if (!isTensor(object)) return nullptr;
  const at::Tensor& tensor = THPVariable_Unpack(object);
  const bool plain = tensor.is_cpu() && tensor.layout() == at::kStrided && !tensor.is_conj() &&
                     !tensor.is_neg() && !tensor._is_zerotensor() && !tensor.is_quantized() &&
                     !tensor.unsafeGetTensorImpl()->is_python_dispatch() &&
                     tensor.unsafeGetTensorImpl()->has_storage();
  if (!plain || index >= tensor.numel()) return nullptr;
  int64_t offset = 0;
  for (int64_t dim = tensor.dim(); dim-- > 0;) {
    offset += index % tensor.size(dim) * tensor.stride(dim);
    index /= tensor.size(dim);
  }
  const char* at = static_cast<const char*>(tensor.const_data_ptr()) +
                   offset * static_cast<int64_t>(tensor.itemsize());
  auto read = [&]<class T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (tensor.scalar_type()) {
    case at::kBool:
      return PyBool_FromLong(*at != 0);
    case at::kByte:
      return PyLong_FromLong(read(uint8_t{}));
    case at::kChar:
      return PyLong_FromLong(read(int8_t{}));
    case at::kShort:
      return PyLong_FromLong(read(int16_t{}));
    case at::kInt:
      return PyLong_FromLong(read(int32_t{}));
    case at::kLong:
      return PyLong_FromLongLong(read(int64_t{}));
    case at::kHalf:
      return PyFloat_FromDouble(static_cast<double>(read(at::Half{})));
    case at::kBFloat16:
      return PyFloat_FromDouble(static_cast<double>(read(at::BFloat16{})));
    case at::kFloat:
      return PyFloat_FromDouble(static_cast<double>(read(float{})));
    case at::kDouble:
      return PyFloat_FromDouble(read(double{}));
    default:
      return nullptr;
  }
}

PyObject* sizeOf(PyObject* tensor, int64_t dim) {
  if (!isTensor(tensor)) return nullptr;
  if (hasSymbolicSizes(tensor)) return numberForNow(tensor, dim);
  if (dim == -1) return PyLong_FromLongLong(THPVariable_Unpack(tensor).storage_offset());
  const c10::impl::SizesAndStrides& shape = ImplFields::shape(implOf(tensor));
  const bool stride = dim < -1;
  if (stride) dim = -2 - dim;
  if (static_cast<size_t>(dim) >= shape.size()) return nullptr;
  return PyLong_FromLongLong(stride ? shape.strides_data()[dim] : shape.sizes_data()[dim]);
}

bool isDevice(PyObject* object) { return THPDevice_Check(object); }

bool sameDevice(PyObject* left, PyObject* right) {
  return reinterpret_cast<THPDevice*>(left)->device == reinterpret_cast<THPDevice*>(right)->device;
}

}  // namespace stator::tensor
