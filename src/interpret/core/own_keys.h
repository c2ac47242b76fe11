// Keys of dicts and sets whose classes have their own __hash__ or __eq__: which classes came up, and hashes that come
// from addresses.
#pragma once

#include "base/ref.h"

#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace stator::interpret {

class OwnKeys {
 public:
  bool any() const { return !types_.empty(); }
  const std::vector<Ref<>>& types() const { return types_; }
  void add(PyTypeObject* type) {
    for (const Ref<>& known : types_) {
      if (known.get() == reinterpret_cast<PyObject*>(type)) return;
    }
    types_.push_back(newRef(reinterpret_cast<PyObject*>(type)));
  }
  void noteHashedByAddress(PyObject* key) { hashed_by_address_.insert(key); }
  bool hashedByAddress(PyObject* key) const { return hashed_by_address_.count(key) != 0; }
  // The number that stands for such a hash of a tuple; null at first.
  Ref<>& tupleHash(Py_hash_t hash) { return tuple_hashes_[hash]; }

 private:
  std::vector<Ref<>> types_;
  std::unordered_set<PyObject*> hashed_by_address_;
  std::unordered_map<Py_hash_t, Ref<>> tuple_hashes_;
};

}  // namespace stator::interpret
