// The memory of tensors: a number for each, and what the trace did to it.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>

namespace stator::interpret {

class Storages {
 public:
  uint32_t fresh() { return next_++; }
  uint32_t following() const { return next_; }  // the number that fresh() gives next
  // Of an input's memory.
  uint32_t at(uintptr_t memory) {
    uint32_t& id = inputs_[memory];
    if (id == 0) id = fresh();
    return id;
  }

  // How the inputs in one memory stand to autograd: such as differ, and are written to, what takes graphs apart gets
  // wrong or refuses.
  void noteInput(uint32_t id, bool requires_grad) {
    grads_[id] |= requires_grad ? kWithGrad : kWithoutGrad;
  }
  bool isInput(uint32_t id) const { return grads_.count(id) != 0; }
  bool hasGrads(uint32_t id) const { return (grads(id) & kWithGrad) != 0; }
  bool mixesGrads(uint32_t id) const { return grads(id) == (kWithGrad | kWithoutGrad); }

  // A leaf that was written to under no_grad.
  void noteLeafWrite(uint32_t id) { leaf_writes_.insert(id); }
  bool anyLeafWrites() const { return !leaf_writes_.empty(); }
  bool isLeafWritten(uint32_t id) const { return leaf_writes_.count(id) != 0; }

  // Numbers of tensors from outside were read, as they are where the entry begins; inputs were written to.
  void noteNumberRead(uint32_t id) { numbers_.insert(id); }
  void noteInputWrite(uint32_t id) {
    written_inputs_.insert(id);
    writes_behind_numbers_ |= id == 0 || numbers_.count(id) != 0;
  }
  bool hasNumberRead(uint32_t id) const { return numbers_.count(id) != 0; }
  bool isInputWritten(uint32_t id) const {
    return written_inputs_.count(id) != 0 || written_inputs_.count(0) != 0;
  }
  bool writesBehindNumbers() const { return writes_behind_numbers_; }
  bool writesBesideNumbers() const { return !numbers_.empty() && !written_inputs_.empty(); }

  // Of tensors that get a hook at the exit: what is written to afterwards has another history.
  void hook(uint32_t id) { hooked_.insert(id); }
  bool isHooked(uint32_t id) const { return hooked_.count(id) != 0; }

 private:
  static constexpr uint8_t kWithGrad = 1, kWithoutGrad = 2;
  uint8_t grads(uint32_t id) const {
    auto it = grads_.find(id);
    return it == grads_.end() ? 0 : it->second;
  }

  uint32_t next_ = 1;
  std::unordered_map<uintptr_t, uint32_t> inputs_;
  std::unordered_map<uint32_t, uint8_t> grads_;
  std::unordered_set<uint32_t> leaf_writes_, hooked_, numbers_, written_inputs_;
  bool writes_behind_numbers_ = false;
};

}  // namespace stator::interpret
