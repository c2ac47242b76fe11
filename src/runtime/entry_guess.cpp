#include "runtime/entry_guess.h"

#include "base/hot.h"
#include "base/mix.h"
#include "tensor/shape_hash.h"

#include <algorithm>

namespace stator::runtime {

namespace {

constexpr size_t kFewEntries = 3;
constexpr size_t kMostKnown = 256;
constexpr size_t kMostSlots = 16;
constexpr Py_ssize_t kMostItems = 4;
// An entry that served so many calls in a row stands first again.
constexpr int kInARow = 8;

// Constants by their value, tensors by their sizes, tuples and lists by their first items, anything else by its
// identity.
STATOR_HOT uint64_t hashOf(PyObject* value, bool items) {
  if (value == nullptr) return 1;
  PyTypeObject* type = Py_TYPE(value);
  if (type == &PyLong_Type || type == &PyFloat_Type || type == &PyUnicode_Type)
    return mix(reinterpret_cast<uintptr_t>(type), static_cast<uint64_t>(PyObject_Hash(value)));
  if (uint64_t shape = tensor::shapeHash(value))
    return mix(reinterpret_cast<uintptr_t>(type), shape);
  if (items && (type == &PyTuple_Type || type == &PyList_Type)) {
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(value);
    uint64_t hash = mix(reinterpret_cast<uintptr_t>(type), static_cast<uint64_t>(size));
    for (Py_ssize_t i = 0; i < std::min(size, kMostItems); ++i)
      hash = mix(hash, hashOf(PySequence_Fast_GET_ITEM(value, i), false));
    return hash;
  }
  return mix(reinterpret_cast<uintptr_t>(type), reinterpret_cast<uintptr_t>(value));
}

}  // namespace

STATOR_HOT size_t guessEntry(Site& site, const sources::Roots& roots, size_t slots) {
  EntryGuess& guess = site.guess;
  guess.asked = guess.take_turns && site.entries.size() >= kFewEntries;
  if (!guess.asked) return 0;
  uint64_t call = tensor::gradMode() ? 2 : 1;
  for (size_t slot = 0; slot < std::min(slots, kMostSlots); ++slot)
    call = mix(call, hashOf(roots.slots[slot], true));
  guess.call = call;
  auto known = guess.known.find(call);
  if (known == guess.known.end()) return 0;
  for (size_t i = 0; i < site.entries.size(); ++i) {
    if (site.entries[i].get() == known->second) return i;
  }
  return 0;
}

STATOR_HOT size_t noteServing(Site& site, size_t index) {
  EntryGuess& guess = site.guess;
  const Entry* entry = site.entries[index].get();
  guess.in_a_row = entry == guess.last ? guess.in_a_row + 1 : 0;
  guess.last = entry;
  if (guess.asked) {
    if (guess.known.size() >= kMostKnown) guess.known.clear();
    guess.known[guess.call] = entry;
    if (guess.in_a_row < kInARow) return index;
    guess.take_turns = false;
  }
  if (index == 0) return 0;
  guess.take_turns = guess.in_a_row < kInARow;
  std::rotate(site.entries.begin(), site.entries.begin() + static_cast<std::ptrdiff_t>(index),
              site.entries.begin() + static_cast<std::ptrdiff_t>(index) + 1);
  return 0;
}

}  // namespace stator::runtime
