#include "shapes/memo.h"

#include "base/stack_room.h"
#include "base/text.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace stator::shapes {

namespace {

// A process that asks for more than this many different calls starts anew: the memo is a cache, not a record.
constexpr size_t kMaxEntries = 1 << 18;

uint64_t mix(uint64_t hash, uint64_t word) {
  const unsigned __int128 wide =
      static_cast<unsigned __int128>(hash ^ word ^ 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
  return static_cast<uint64_t>(wide) ^ static_cast<uint64_t>(wide >> 64);
}

}  // namespace

void MemoKey::put(uint64_t word) {
  hash_ = mix(hash_, word);
  if (count_ < std::size(inline_)) {
    inline_[count_] = word;
  } else {
    if (spilled_.empty()) spilled_.assign(std::begin(inline_), std::end(inline_));
    spilled_.push_back(word);
  }
  ++count_;
}

void MemoKey::putText(std::string_view text) {
  put(text.size());
  for (size_t i = 0; i < text.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + i, std::min<size_t>(8, text.size() - i));
    put(word);
  }
}

void MemoKey::putTensor(const Arg& arg, const Workspace& workspace) {
  const TensorMeta& meta = *arg.tensor;
  uint64_t same_object = static_cast<uint64_t>(arg.i);
  uint64_t same_storage = same_object;
  for (const Arg* earlier : workspace.tensors().first(static_cast<size_t>(arg.i))) {
    const bool shares = meta.storage_id != 0 && earlier->tensor->storage_id == meta.storage_id;
    if (shares) same_storage = std::min(same_storage, static_cast<uint64_t>(earlier->i));
    if (earlier->object == arg.object) {
      same_object = static_cast<uint64_t>(earlier->i);
      break;
    }
  }
  const auto kind = static_cast<uint64_t>(Arg::Kind::kTensor);
  put(kind | same_object << 8 | same_storage << 36);
  if (same_object != static_cast<uint64_t>(arg.i)) return;
  uint64_t flags = 0;
  for (bool flag : {meta.requires_grad, meta.is_leaf, meta.is_wrapped_number, meta.is_conj,
                    meta.is_neg, meta.is_inference, meta.is_parameter}) {
    flags = flags << 1 | static_cast<uint64_t>(flag);
  }
  put(static_cast<uint64_t>(static_cast<uint8_t>(meta.dtype)) |
      static_cast<uint64_t>(static_cast<uint8_t>(meta.device)) << 8 |
      static_cast<uint64_t>(static_cast<uint16_t>(meta.device_index)) << 16 |
      static_cast<uint64_t>(static_cast<uint8_t>(meta.layout)) << 32 | flags << 40 |
      static_cast<uint64_t>(meta.sizes.size()) << 48);
  put(static_cast<uint64_t>(meta.storage_offset.bits()));
  put(static_cast<uint64_t>(meta.storage_bytes.bits()));
  for (Dim size : meta.sizes) put(static_cast<uint64_t>(size.bits()));
  for (Dim stride : meta.strides) put(static_cast<uint64_t>(stride.bits()));
}

void MemoKey::putArg(const Arg& arg, const Workspace& workspace) {
  needStack();
  using Kind = Arg::Kind;
  const auto kind = static_cast<uint64_t>(arg.kind);
  switch (arg.kind) {
    case Kind::kTensor:
      putTensor(arg, workspace);
      return;
    case Kind::kTuple:
    case Kind::kList:
    case Kind::kSlice:
      put(kind | static_cast<uint64_t>(arg.count) << 8);
      for (const Arg& item : arg.elements()) putArg(item, workspace);
      return;
    case Kind::kStr:
      put(kind);
      putText(arg.text());
      return;
    case Kind::kFloat:
      put(kind);
      put(std::bit_cast<uint64_t>(arg.f));
      return;
    case Kind::kComplex: {
      const Py_complex value = PyComplex_AsCComplex(arg.object);
      put(kind);
      put(std::bit_cast<uint64_t>(value.real));
      put(std::bit_cast<uint64_t>(value.imag));
      return;
    }
    case Kind::kDevice:
      put(kind | static_cast<uint64_t>(static_cast<uint8_t>(arg.device)) << 8 |
          static_cast<uint64_t>(static_cast<uint16_t>(arg.device_index)) << 16);
      return;
    case Kind::kInt:
    case Kind::kSymInt:
    case Kind::kBool:
    case Kind::kDtype:
    case Kind::kLayout:
    case Kind::kMemoryFormat:
      put(kind);
      put(static_cast<uint64_t>(arg.i));
      return;
    default:
      put(kind);
      return;
  }
}

void MemoKey::putState(const State& state) {
  uint64_t flags = 0;
  for (bool flag : {state.grad_enabled, state.inference, state.autocast_cpu, state.autocast_cuda,
                    state.deterministic}) {
    flags = flags << 1 | static_cast<uint64_t>(flag);
  }
  put(flags | static_cast<uint64_t>(static_cast<uint8_t>(state.default_dtype)) << 8 |
      static_cast<uint64_t>(static_cast<uint8_t>(state.default_device)) << 16 |
      static_cast<uint64_t>(static_cast<uint16_t>(state.default_device_index)) << 24 |
      static_cast<uint64_t>(static_cast<uint8_t>(state.autocast_cpu_dtype)) << 40 |
      static_cast<uint64_t>(static_cast<uint8_t>(state.autocast_cuda_dtype)) << 48);
  put(state.other);
}

MemoKey::MemoKey(PyObject* target, const Workspace& workspace, const State& state) {
  put(reinterpret_cast<uintptr_t>(target));
  putState(state);
  put(workspace.positional().size() | workspace.keywords().size() << 32);
  for (const Arg& arg : workspace.positional()) putArg(arg, workspace);
  for (size_t i = 0; i < workspace.keywords().size(); ++i) {
    putText(utf8(workspace.keywordName(i)));
    putArg(workspace.keywords()[i], workspace);
  }
}

const Inferred* Memo::find(const MemoKey& key) const {
  const auto found = entries_.find(key.hash());
  if (found == entries_.end()) return nullptr;
  const std::span<const uint64_t> words = key.words();
  for (const Entry* entry = found->second.get(); entry != nullptr; entry = entry->next.get()) {
    if (entry->words.size() == words.size() &&
        std::memcmp(entry->words.data(), words.data(), words.size_bytes()) == 0) {
      return &entry->inferred;
    }
  }
  return nullptr;
}

const Inferred* Memo::add(const MemoKey& key, PyObject* target, Inferred inferred) {
  if (size_ >= kMaxEntries) clear();
  auto entry = std::make_unique<Entry>();
  entry->words.assign(key.words().begin(), key.words().end());
  entry->target = newRef(target);
  entry->inferred = std::move(inferred);
  std::unique_ptr<Entry>& slot = entries_[key.hash()];
  entry->next = std::move(slot);
  slot = std::move(entry);
  ++size_;
  return &slot->inferred;
}

void Memo::clear() {
  entries_.clear();
  size_ = 0;
}

}  // namespace stator::shapes
