// Collecting guards while tracing.
#include "base/check.h"
#include "base/mix.h"
#include "guards/guard.h"

namespace stator::guards {

namespace {

size_t address(const void* pointer) { return reinterpret_cast<size_t>(pointer) >> 4; }

// A type's version and the global state are facts of the process: the source says only where they came up.
bool ignoresSource(GuardKind kind) {
  const About about = rowOf(kind).about;
  return about == About::kClass || about == About::kProcess;
}

// What is made anew before each run of the graph is the same in every call, and not there yet when guards are asked.
bool isNewborn(const sources::Source* source) {
  return source != nullptr &&
         (source->kind == sources::SourceKind::kDrawn ||
          (source->base != nullptr && source->base->kind == sources::SourceKind::kDrawn));
}

size_t hashOf(const Guard& guard) {
  size_t hash =
      mix(static_cast<size_t>(guard.kind), ignoresSource(guard.kind) ? 0 : address(guard.source));
  hash = mix(hash, address(guard.other));
  hash = mix(hash, address(guard.expected.get()));
  return mix(hash, static_cast<size_t>(guard.number));
}

bool sameFact(const Guard& left, const Guard& right) {
  return left.kind == right.kind && (left.source == right.source || ignoresSource(left.kind)) &&
         left.other == right.other && left.expected.get() == right.expected.get() &&
         left.number == right.number;
}

}  // namespace

// Open addressing over positions in `guards_`. A slot may be stale after truncate: its guard is gone, or another one
// stands there, and then it does not compare equal.
struct GuardSet::Index {
  struct Slot {
    size_t hash = 0;
    uint32_t position = 0;  // plus one; 0: free
  };
  std::vector<Slot> slots = std::vector<Slot>(64);
  size_t used = 0;
  // (type, name) pairs seen, likewise.
  std::vector<std::pair<PyObject*, PyObject*>> pairs =
      std::vector<std::pair<PyObject*, PyObject*>>(64);
  size_t pairs_used = 0;

  template <class Same>
  uint32_t findOrAdd(size_t hash, uint32_t position, Same&& same) {
    if (used * 2 >= slots.size()) grow();
    const size_t mask = slots.size() - 1;
    size_t at = hash & mask;
    for (; slots[at].position != 0; at = (at + 1) & mask) {
      if (slots[at].hash == hash && same(slots[at].position - 1)) return slots[at].position - 1;
    }
    slots[at] = Slot{hash, position + 1};
    ++used;
    return position;
  }

  void grow() {
    std::vector<Slot> old = std::move(slots);
    slots.assign(old.size() * 2, Slot{});
    const size_t mask = slots.size() - 1;
    for (const Slot& slot : old) {
      if (slot.position == 0) continue;
      size_t at = slot.hash & mask;
      while (slots[at].position != 0) at = (at + 1) & mask;
      slots[at] = slot;
    }
  }

  bool addPair(PyObject* type, PyObject* name) {
    if (pairs_used * 2 >= pairs.size()) {
      auto old = std::move(pairs);
      pairs.assign(old.size() * 2, {});
      pairs_used = 0;
      for (auto& [old_type, old_name] : old) {
        if (old_type != nullptr) addPair(old_type, old_name);
      }
    }
    const size_t mask = pairs.size() - 1;
    size_t at = mix(address(type), address(name)) & mask;
    for (; pairs[at].first != nullptr; at = (at + 1) & mask) {
      if (pairs[at].first == type && pairs[at].second == name) return false;
    }
    pairs[at] = {type, name};
    ++pairs_used;
    return true;
  }
};

GuardSet::GuardSet() : index_(std::make_unique<Index>()) {}
GuardSet::~GuardSet() = default;

void GuardSet::add(Guard guard) {
  STATOR_CHECK(guard.source != nullptr || ignoresSource(guard.kind), "a guard without a source");
  if (isNewborn(guard.source) || isNewborn(guard.other)) return;
  const auto fresh = static_cast<uint32_t>(guards_.size());
  const size_t hash = hashOf(guard);
  const uint32_t position = index_->findOrAdd(hash, fresh, [&](uint32_t at) {
    return at < guards_.size() && sameFact(guards_[at], guard);
  });
  if (position != fresh) {
    // Asked for without names, the guard is about everything in the type.
    if (guard.kind == GuardKind::kTypeVersion && guard.names.empty())
      guards_[position].names.clear();
    return;
  }
  if (guard.kind == GuardKind::kGlobalState && !guard.state) {
    guard.state = std::make_shared<tensor::GlobalState>(tensor::GlobalState::now());
  }
  guards_.push_back(std::move(guard));
}

void GuardSet::addTypeLookup(const sources::Source* source, PyTypeObject* type, PyObject* name,
                             PyObject* result) {
  if (!index_->addPair(reinterpret_cast<PyObject*>(type), name)) return;
  Guard guard{GuardKind::kTypeVersion, source, nullptr, newRef(reinterpret_cast<PyObject*>(type))};
  const auto fresh = static_cast<uint32_t>(guards_.size());
  const uint32_t position = index_->findOrAdd(hashOf(guard), fresh, [&](uint32_t at) {
    return at < guards_.size() && sameFact(guards_[at], guard);
  });
  TypeLookup lookup{Ref<>::create(name), Ref<>::create(result)};
  if (position == fresh) {
    guard.names.push_back(std::move(lookup));
    guards_.push_back(std::move(guard));
  } else if (!guards_[position].names.empty()) {
    guards_[position].names.push_back(std::move(lookup));
  }
}

void GuardSet::ignoreGrads() {
  for (Guard& guard : guards_) {
    if (!guard.tensor) continue;
    auto relaxed = std::make_shared<tensor::TensorGuard>(*guard.tensor);
    relaxed->any_grad = true;
    guard.tensor = std::move(relaxed);
  }
}

void GuardSet::truncate(size_t size) {
  STATOR_CHECK(size <= guards_.size(), "guards cannot be added by truncating");
  for (size_t i = size; i < guards_.size(); ++i) {
    if (guards_[i].kind != GuardKind::kTypeVersion) continue;
    // Its names would be taken for known.
    index_->pairs.assign(64, {});
    index_->pairs_used = 0;
    break;
  }
  guards_.erase(guards_.begin() + static_cast<std::ptrdiff_t>(size), guards_.end());
}

}  // namespace stator::guards
