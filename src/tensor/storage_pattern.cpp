#include "tensor/storage_pattern.h"

#include "tensor/meta_of.h"
#include "tensor/tensor_guard.h"

#include <torch/csrc/autograd/python_variable.h>
#include <unordered_map>

namespace stator::tensor {

namespace {

uintptr_t storageOrNone(PyObject* object) { return isTensor(object) ? storageOf(object) : 0; }

int64_t offsetOf(PyObject* object) { return THPVariable_Unpack(object).storage_offset(); }

}  // namespace

std::unique_ptr<StoragePattern> StoragePattern::of(const std::vector<PyObject*>& inputs,
                                                   const std::vector<bool>& written) {
  auto pattern = std::make_unique<StoragePattern>();
  pattern->places_.resize(inputs.size());
  std::unordered_map<uintptr_t, int> first;
  std::vector<int> members(inputs.size(), 0);
  bool any = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    uintptr_t storage = storageOrNone(inputs[i]);
    pattern->last_.push_back(storage);
    if (storage == 0) continue;
    int leader = first.try_emplace(storage, static_cast<int>(i)).first->second;
    pattern->places_[i].leader = leader;
    members[static_cast<size_t>(leader)]++;
    if (written[i]) {
      pattern->places_[static_cast<size_t>(leader)].written = true;
      any = true;
    }
  }
  if (!any) return nullptr;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Place& place = pattern->places_[i];
    if (place.leader < 0) continue;
    auto leader = static_cast<size_t>(place.leader);
    place.written = pattern->places_[leader].written;
    if (place.written && members[leader] > 1) place.offset = offsetOf(inputs[i]);
  }
  return pattern;
}

bool StoragePattern::differs(const std::vector<PyObject*>& inputs, int& one, int& other) const {
  std::unordered_map<uintptr_t, int> written;
  for (size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    one = static_cast<int>(i);
    other = place.leader;
    if (place.leader < 0) continue;
    if (storageOrNone(inputs[i]) != storageOrNone(inputs[static_cast<size_t>(place.leader)]) &&
        place.written)
      return true;
    if (place.offset >= 0 && offsetOf(inputs[i]) != place.offset) return true;
    if (place.written) written.try_emplace(storageOrNone(inputs[i]), place.leader);
  }
  for (size_t i = 0; i < places_.size(); ++i) {
    uintptr_t storage = storageOrNone(inputs[i]);
    auto found = storage == 0 ? written.end() : written.find(storage);
    if (found == written.end() || found->second == places_[i].leader) continue;
    one = static_cast<int>(i);
    other = found->second;
    return true;
  }
  return false;
}

bool StoragePattern::holds(const std::vector<PyObject*>& inputs) {
  bool as_before = true;
  for (size_t i = 0; i < places_.size(); ++i) {
    as_before &= storageOrNone(inputs[i]) == last_[i];
    if (places_[i].offset >= 0 && offsetOf(inputs[i]) != places_[i].offset) return false;
  }
  if (as_before) return true;
  int one = 0, other = 0;
  if (differs(inputs, one, other)) return false;
  for (size_t i = 0; i < places_.size(); ++i) last_[i] = storageOrNone(inputs[i]);
  return true;
}

std::string StoragePattern::explain(const std::vector<PyObject*>& inputs) const {
  int one = 0, other = 0;
  if (!differs(inputs, one, other)) return "";
  return "inputs " + std::to_string(other) + " and " + std::to_string(one) +
         " of the graph, of which it writes to one, share memory in another way than before";
}

}  // namespace stator::tensor
