// Interning: one thing has one source.
#include "base/check.h"
#include "base/mix.h"
#include "python/objects.h"
#include "sources/short_lived.h"
#include "sources/source.h"

namespace stator::sources {

namespace {

// Plain keys (str, int, ...) by type and value, everything else by identity.
size_t hashOfKey(PyObject* key) {
  if (key == nullptr) return 0;
  if (!stator_is_plain_key(key)) return reinterpret_cast<size_t>(key) >> 4;
  return mix(static_cast<size_t>(PyObject_Hash(key)), reinterpret_cast<size_t>(Py_TYPE(key)));
}

bool sameKey(PyObject* left, PyObject* right) {
  if (left == right) return true;
  if (left == nullptr || right == nullptr || Py_TYPE(left) != Py_TYPE(right)) return false;
  if (!stator_is_plain_key(left) || !stator_is_plain_key(right)) return false;
  // Equal tuples may hold 1 and True: as keys of a dict they are one.
  int equal = PyObject_RichCompareBool(left, right, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal > 0;
}

}  // namespace

void SourceSet::grow() {
  std::vector<Slot> old = std::move(table_);
  table_.assign(old.empty() ? 64 : old.size() * 2, Slot{});
  const size_t mask = table_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.source == nullptr) continue;
    size_t at = slot.hash & mask;
    while (table_[at].source != nullptr) at = (at + 1) & mask;
    table_[at] = slot;
  }
}

SourceSet::Place SourceSet::find(SourceKind kind, const Source* base, PyObject* key,
                                 int64_t index) const {
  // Pinned objects are themselves, whatever they equal.
  const bool by_identity = kind == SourceKind::kPinned;
  size_t hash = by_identity ? reinterpret_cast<size_t>(key) >> 4 : hashOfKey(key);
  hash = mix(hash, static_cast<size_t>(kind));
  hash = mix(hash, base != nullptr ? base->id + 1 : 0);
  hash = mix(hash, static_cast<size_t>(index));
  const size_t mask = table_.size() - 1;
  size_t at = hash & mask;
  for (; table_[at].source != nullptr; at = (at + 1) & mask) {
    const Source& known = *table_[at].source;
    if (table_[at].hash == hash && known.kind == kind && known.base == base &&
        known.index == index &&
        (by_identity ? pinnedObject(known) == key : sameKey(known.key.get(), key))) {
      return {at, hash, &known};
    }
  }
  return {at, hash, nullptr};
}

const Source* SourceSet::intern(SourceKind kind, const Source* base, PyObject* key, int64_t index) {
  if (sources_.size() * 2 >= table_.size()) grow();
  PyObject* name = key;
  const Place place = find(kind, base, name, index);
  if (place.known != nullptr) return place.known;
  const bool by_identity = kind == SourceKind::kPinned;
  Ref<> owned =
      by_identity && index == kWeakPin ? weakReference(name, nullptr) : Ref<>::create(name);
  if (name != nullptr && PyUnicode_CheckExact(name) && !by_identity) {
    // Names in code and in dicts are interned, so that look-ups mostly end with one pointer compare.
    PyObject* interned = owned.release();
    PyUnicode_InternInPlace(&interned);
    owned = Ref<>::steal(interned);
  }
  Py_hash_t key_hash = -1;
  if (owned && !by_identity) {
    key_hash = PyObject_Hash(owned.get());
    if (key_hash == -1) PyErr_Clear();  // not hashable: no dict has it
  }
  sources_.push_back(Source{kind, static_cast<uint32_t>(sources_.size()), base, index,
                            std::move(owned), key_hash});
  table_[place.at] = Slot{place.hash, &sources_.back()};
  return &sources_.back();
}

const Source* SourceSet::root(SourceKind kind, int64_t index) {
  STATOR_CHECK(kind < SourceKind::kPinned, "not a root");
  return intern(kind, nullptr, nullptr, index);
}

const Source* SourceSet::pinned(PyObject* object) {
  STATOR_CHECK(object, "nothing to pin");
  // Asked again and again for the same few classes: what is held already lives as long as this set.
  if (!table_.empty()) {
    const Place place = find(SourceKind::kPinned, nullptr, object, 0);
    if (place.known != nullptr) return place.known;
  }
  const bool weak = PyType_Check(object) && isShortLived(object);
  return intern(SourceKind::kPinned, nullptr, object, weak ? kWeakPin : 0);
}

const Source* SourceSet::child(SourceKind kind, const Source* base, PyObject* key, int64_t index) {
  STATOR_CHECK(kind > SourceKind::kPinned && base != nullptr, "a step needs a base");
  return intern(kind, base, key, index);
}

int SourceSet::traverse(visitproc visit, void* arg) const {
  for (const Source& source : sources_) Py_VISIT(source.key.get());
  return 0;
}

}  // namespace stator::sources
