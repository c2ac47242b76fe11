// Answers by (callable, facts of tensors, constants with their types, state). Survives captures; empty at process
// start.
#pragma once

#include "shapes/arg.h"

#include <memory>
#include <unordered_map>

namespace stator::shapes {

// The call as a row of numbers: equal rows mean equal calls. Storage ids and object identities appear as "same as
// argument n".
class MemoKey {
 public:
  MemoKey(PyObject* target, const Workspace& workspace, const State& state);
  std::span<const uint64_t> words() const {
    return {spilled_.empty() ? inline_ : spilled_.data(), count_};
  }
  uint64_t hash() const { return hash_; }

 private:
  void put(uint64_t word);
  void putText(std::string_view text);
  void putArg(const Arg& arg, const Workspace& workspace);
  void putTensor(const Arg& arg, const Workspace& workspace);
  void putState(const State& state);

  size_t count_ = 0;
  uint64_t hash_ = 0;
  std::vector<uint64_t> spilled_;
  uint64_t inline_[160];
};

class Memo {
 public:
  const Inferred* find(const MemoKey& key) const;
  const Inferred* add(const MemoKey& key, PyObject* target, Inferred inferred);
  size_t size() const { return size_; }
  void clear();

 private:
  struct Entry {
    std::vector<uint64_t> words;
    Ref<> target;  // keeps the address in the key from being reused
    Inferred inferred;
    std::unique_ptr<Entry> next;  // of equal hash
  };
  std::unordered_map<uint64_t, std::unique_ptr<Entry>> entries_;
  size_t size_ = 0;
};

}  // namespace stator::shapes
