#include "tensor/steady_tensors.h"

#include "base/hot.h"
#include "tensor/impl_fields.h"
#include "tensor/tensor_facts.h"

#include <ATen/ops/empty.h>
#include <algorithm>

namespace stator::tensor {

namespace {

constexpr size_t kLine = 64;
constexpr uint32_t kInlineDims = 5;
// Below every address: a word that is less is a size and not the address of sizes that lie elsewhere, as those of many
// dims do.
constexpr int64_t kLeastAddress = 1 << 16;

size_t lineOf(const void* address) { return reinterpret_cast<uintptr_t>(address) & ~(kLine - 1); }

// Where the words lie, in words from the start of a TensorImpl. The sizes lie behind their number, the strides behind
// kInlineDims sizes.
struct Layout {
  size_t rank, sizes, strides, numel, dtype, keys;
  uint64_t flag_bits = 0, flag = 0;  // in the word of the dtype: contiguous
  bool known = false;                // the words are what they are taken to be
};

struct LayoutFields : ImplFields {
  template <class T>
  static size_t wordOf(const c10::TensorImpl& impl, const T& field) {
    return static_cast<size_t>(reinterpret_cast<const char*>(&field) -
                               reinterpret_cast<const char*>(&impl)) /
           sizeof(uint64_t);
  }
  static Layout find() {
    const at::Tensor contiguous = at::empty({2, 3});
    const at::Tensor other = contiguous.t();
    const c10::TensorImpl& impl = *contiguous.unsafeGetTensorImpl();
    const c10::impl::SizesAndStrides& shape = ImplFields::shape(impl);
    Layout layout{wordOf(impl, shape),
                  wordOf(impl, *shape.sizes_data()),
                  wordOf(impl, *shape.strides_data()),
                  wordOf(impl, impl.*(&LayoutFields::numel_)),
                  wordOf(impl, impl.*(&LayoutFields::data_type_)),
                  wordOf(impl, impl.*(&LayoutFields::key_set_))};
    const auto* words = reinterpret_cast<const uint64_t*>(&impl);
    const auto* others = reinterpret_cast<const uint64_t*>(other.unsafeGetTensorImpl());
    layout.flag_bits = (words[layout.dtype] ^ others[layout.dtype]) & ~kDtypeAndDevice;
    layout.flag = words[layout.dtype] & layout.flag_bits;
    layout.known = layout.sizes == layout.rank + 1 &&
                   layout.strides == layout.sizes + kInlineDims && words[layout.rank] == 2 &&
                   words[layout.numel] == 6 && layout.flag_bits != 0;
    return layout;
  }
};

// A leaf, or nothing that autograd knows of: no other tensor answers for it.
inline bool asksNobodyElse(const c10::TensorImpl& impl, bool requires_grad) {
  const torch::autograd::AutogradMeta* meta = ImplFields::autograd(impl);
  if (requires_grad) return meta != nullptr && meta->requires_grad_;
  return meta == nullptr || !(meta->requires_grad_ || meta->grad_fn_ || meta->is_view_);
}

inline bool isSame(PyObject* object, const uint64_t* impl, PyTypeObject* type) {
  return reinterpret_cast<const uint64_t*>(&implOf(object)) == impl && Py_TYPE(object) == type;
}

}  // namespace

void SteadyTensors::Kind::look(const uint64_t* impl, size_t word_at) {
  at[count] = static_cast<uint8_t>(word_at);
  word[count++] = impl[word_at];
}

bool SteadyTensors::Kind::sameAs(const Kind& other) const {
  return type == other.type && keys == other.keys && keys_used == other.keys_used &&
         asks_grad == other.asks_grad && requires_grad == other.requires_grad &&
         count == other.count && at == other.at && word == other.word;
}

bool SteadyTensors::add(PyObject* tensor, const TensorFacts& facts) {
  static const Layout layout = LayoutFields::find();
  PyTypeObject* type = Py_TYPE(tensor);
  const c10::TensorImpl& impl = implOf(tensor);
  const c10::impl::SizesAndStrides& shape = ImplFields::shape(impl);
  const size_t rank = shape.size();
  if (!layout.known || rank > kInlineDims || facts.strides != facts.rank ||
      !stator_has_managed_dict(type) || stator_managed_dict(tensor) != nullptr)
    return false;
  const StatorKeys* keys = stator_type_keys(type);
  // A full set of keys takes no more: the next attribute would give the object keys of its own.
  if (keys == nullptr || keys->usable <= 0 || !keysHaveNoMarks(keys)) return false;
  if (!facts.any_grad && !asksNobodyElse(impl, facts.requires_grad)) return false;
  Kind kind;
  kind.type = type;
  kind.keys = keys;
  kind.keys_used = keys->used;
  kind.asks_grad = !facts.any_grad;
  kind.requires_grad = facts.requires_grad;
  const auto* words = reinterpret_cast<const uint64_t*>(&impl);
  const int64_t* sizes = shape.sizes_data();
  const bool all_count = std::all_of(sizes, sizes + rank, [](int64_t size) { return size > 1; });
  // The number of dims: itself, or the product of the sizes and that the size behind the last one is not 1. The line
  // tells.
  const bool by_product = rank > 0 && rank < kInlineDims && all_count && sizes[rank] != 1 &&
                          sizes[0] < kLeastAddress &&
                          lineOf(words + layout.rank) != lineOf(words + layout.sizes) &&
                          lineOf(words + layout.numel) == lineOf(words + layout.dtype);
  kind.look(words, by_product ? layout.numel : layout.rank);
  for (size_t dim = 0; dim < rank + (by_product ? 1 : 0); ++dim)
    kind.look(words, layout.sizes + dim);
  kind.look(words, layout.dtype);  // with the flags
  kind.look(words, layout.keys);
  if (!all_count || (words[layout.dtype] & layout.flag_bits) != layout.flag) {
    for (size_t dim = 0; dim < rank; ++dim) kind.look(words, layout.strides + dim);
  }
  auto known = std::find_if(kinds_.begin(), kinds_.end(),
                            [&](const Kind& other) { return kind.sameAs(other); });
  if (known == kinds_.end()) {
    kind.findStretches();
    known = kinds_.insert(kinds_.end(), std::move(kind));
  }
  known->places.push_back(Place{tensor, words});
  return true;
}

void SteadyTensors::sort() {
  for (Kind& kind : kinds_) {
    std::sort(kind.places.begin(), kind.places.end(),
              [](const Place& left, const Place& right) { return left.impl < right.impl; });
    for (const Place& place : kind.places) {
      objects_.push_back(Sorted{place.object, &place, &kind});
      impls_.push_back(Sorted{place.impl, &place, &kind});
    }
  }
  auto by_address = [](const Sorted& left, const Sorted& right) {
    return left.address < right.address;
  };
  std::sort(objects_.begin(), objects_.end(), by_address);
  std::sort(impls_.begin(), impls_.end(), by_address);
}

void SteadyTensors::clear() {
  kinds_.clear();
  objects_.clear();
  impls_.clear();
}

void SteadyTensors::lines(std::vector<uintptr_t>& into) const {
  auto add = [&](const void* address) { into.push_back(reinterpret_cast<uintptr_t>(address)); };
  for (const Sorted& object : objects_) {
    add(&object);
    add(object.address);
    add(&reinterpret_cast<const THPVariable*>(object.address)->cdata);
  }
  for (const Sorted& sorted : impls_) {
    const Kind& kind = *sorted.kind;
    add(&sorted);
    add(sorted.place);
    for (uint32_t i = 0; i < kind.count; ++i) add(sorted.place->impl + kind.at[i]);
    if (!kind.asks_grad) continue;
    const auto& impl = *static_cast<const c10::TensorImpl*>(sorted.address);
    add(&revealed(AutogradMetaField(), impl));
    if (const torch::autograd::AutogradMeta* meta = ImplFields::autograd(impl)) {
      add(&meta->requires_grad_);
      if (!kind.requires_grad) add(&meta->grad_fn_);
    }
  }
}

STATOR_HOT bool SteadyTensors::Kind::wordsAreIn(const uint64_t* impl) const {
  uint64_t differs = 0;
  for (uint32_t i = 0; i < count; ++i) differs |= impl[at[i]] ^ word[i];
  if (asks_grad)
    differs |= !asksNobodyElse(*reinterpret_cast<const c10::TensorImpl*>(impl), requires_grad);
  return differs == 0;
}

namespace {

using Words [[gnu::vector_size(32), gnu::aligned(8), gnu::may_alias]] = uint64_t;

[[gnu::always_inline]] inline const Words& wordsAt(const uint64_t* at) {
  return *reinterpret_cast<const Words*>(at);
}

}  // namespace

void SteadyTensors::Kind::findStretches() {
  constexpr uint32_t kMostFirst = kImplBytes / sizeof(uint64_t) - 4;
  const auto [least, most] = std::minmax_element(at.begin(), at.begin() + count);
  stretches[0].first = std::min<uint32_t>(*least, kMostFirst);
  stretches[1].first = std::min<uint32_t>(std::max<uint32_t>(*most, 3) - 3, kMostFirst);
  wide = true;
  for (uint32_t i = 0; i < count; ++i) {
    bool covered = false;
    for (Stretch& stretch : stretches) {
      if (!stretch.covers(at[i])) continue;
      stretch.word[at[i] - stretch.first] = word[i];
      stretch.mask[at[i] - stretch.first] = ~uint64_t{0};
      covered = true;
    }
    wide = wide && covered;
  }
}

template <bool kAsksGrad>
[[gnu::always_inline]] inline bool SteadyTensors::Kind::stretchesAreIn() const {
  const Words first = wordsAt(stretches[0].word.data()), last = wordsAt(stretches[1].word.data());
  const Words in_first = wordsAt(stretches[0].mask.data());
  const Words in_last = wordsAt(stretches[1].mask.data());
  const uint32_t first_at = stretches[0].first, last_at = stretches[1].first;
  Words differs = {};
  for (const Place& place : places) {
    // The object has the same TensorImpl, which therefore lives.
    if (!isSame(place.object, place.impl, type)) [[unlikely]]
      return false;
    differs |= (wordsAt(place.impl + first_at) ^ first) & in_first;
    differs |= (wordsAt(place.impl + last_at) ^ last) & in_last;
    if (kAsksGrad && !asksNobodyElse(*reinterpret_cast<const c10::TensorImpl*>(place.impl),
                                     requires_grad)) [[unlikely]]
      return false;
  }
  return (differs[0] | differs[1] | differs[2] | differs[3]) == 0;
}

#if defined(__x86_64__)
// Where the processor has registers for a whole stretch.
#define STATOR_WIDE [[gnu::target("avx2")]]
#else
#define STATOR_WIDE
#endif

STATOR_HOT STATOR_WIDE bool SteadyTensors::Kind::stretchesAreSame() const {
  return asks_grad ? stretchesAreIn<true>() : stretchesAreIn<false>();
}

STATOR_HOT bool SteadyTensors::Kind::asTheyWere() const {
#if defined(__x86_64__)
  static const bool has_wide = __builtin_cpu_supports("avx2") != 0;
#else
  constexpr bool has_wide = true;
#endif
  if (keys->used != keys_used || keys->usable <= 0) return false;
  if (wide && has_wide) [[likely]]
    return stretchesAreSame();
  for (const Place& place : places) {
    if (!isSame(place.object, place.impl, type) || !wordsAreIn(place.impl)) [[unlikely]]
      return false;
  }
  return true;
}

STATOR_HOT bool SteadyTensors::inOrder() const {
  for (const Sorted& object : objects_) {
    const Kind& kind = *object.kind;
    if (!isSame(object.place->object, object.place->impl, kind.type) ||
        kind.keys->used != kind.keys_used || kind.keys->usable <= 0)
      return false;
  }
  for (const Sorted& impl : impls_) {
    if (!impl.kind->wordsAreIn(impl.place->impl)) return false;
  }
  return true;
}

STATOR_HOT bool SteadyTensors::asTheyWere(bool cold) const {
  if (cold) return inOrder();
  return std::all_of(kinds_.begin(), kinds_.end(),
                     [](const Kind& kind) { return kind.asTheyWere(); });
}

}  // namespace stator::tensor
