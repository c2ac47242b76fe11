// What the trace relies on about which object is which: addresses that were taken, objects whose identity was looked
// at.
#pragma once

#include "base/ref.h"
#include "sources/source.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace stator::interpret {

class Identities {
 public:
  // By position and not by address: the order is that of the guards, which is the same in every process.
  struct Earlier {
    bool operator()(const sources::Source* a, const sources::Source* b) const {
      return a->id < b->id;
    }
  };
  using Compared = std::map<const sources::Source*, PyTypeObject*, Earlier>;

  // The trace relies on what the object there is not identical with.
  void note(const sources::Source* source, PyTypeObject* type) { compared_.emplace(source, type); }
  const Compared& compared() const { return compared_; }

  // A constant (a tuple, a range) that the program has reached by further ways: two that are equal need not be one.
  void addSource(PyObject* constant, const sources::Source* source) {
    further_sources_[constant].push_back(source);
  }
  const std::vector<const sources::Source*>& furtherSources(PyObject* constant) const {
    static const std::vector<const sources::Source*> none;
    auto it = further_sources_.find(constant);
    return it == further_sources_.end() ? none : it->second;
  }
  // The same of numbers and texts, all ways: which of two equal ones is which object is seldom asked.
  void addScalar(PyObject* scalar, const sources::Source* source) {
    scalars_.emplace_back(scalar, source);
  }
  const std::vector<std::pair<PyObject*, const sources::Source*>>& scalars() const {
    return scalars_;
  }
  std::vector<const sources::Source*> sourcesOfScalar(PyObject* scalar) const {
    std::vector<const sources::Source*> found;
    for (const auto& [known, source] : scalars_) {
      if (known == scalar && std::find(found.begin(), found.end(), source) == found.end())
        found.push_back(source);
    }
    return found;
  }
  // The tuple that a trace works with, items of which are symbols, in place of the program's own.
  void setOriginal(PyObject* unpacked, PyObject* original) { originals_[unpacked] = original; }
  PyObject* originalOf(PyObject* object) const {
    auto it = originals_.find(object);
    return it == originals_.end() ? object : it->second;
  }

  // Tuples and frozensets of code objects. Any other one that has no source is a new object in each call.
  bool isCodeConstant(PyObject* object) const { return code_constants_.count(object) != 0; }
  bool addCodeConstant(PyObject* object) { return code_constants_.insert(object).second; }

  // The number that stands for an object's id(); borrowed, null: none yet.
  PyObject* addressOf(PyObject* object) const {
    auto it = addresses_.find(object);
    return it == addresses_.end() ? nullptr : it->second.second.get();
  }
  void setAddress(PyObject* object, Ref<> address) {
    addresses_[object] = {newRef(object), std::move(address)};
  }
  // The other way round, for every number that stands for an address.
  PyObject* targetOf(PyObject* address) const {
    auto it = targets_.find(address);
    return it == targets_.end() ? nullptr : it->second;
  }
  void setTarget(PyObject* address, PyObject* object) { targets_[address] = object; }

 private:
  Compared compared_;
  std::unordered_map<PyObject*, std::vector<const sources::Source*>> further_sources_;
  std::vector<std::pair<PyObject*, const sources::Source*>> scalars_;  // their guards hold them
  std::unordered_map<PyObject*, PyObject*> originals_;
  std::unordered_set<PyObject*> code_constants_;
  // object -> itself, its address
  std::unordered_map<PyObject*, std::pair<Ref<>, Ref<>>> addresses_;
  std::unordered_map<PyObject*, PyObject*> targets_;
};

// An int that stands for an address: a trace may compare such numbers, but never knows them.
PyTypeObject* addressType();
inline bool isAddress(PyObject* object) {
  return object != nullptr && Py_TYPE(object) == addressType();
}

}  // namespace stator::interpret
