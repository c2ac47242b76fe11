// Tensors that have passed their checks, known again by as few words of memory as prove that nothing of what was asked
// has changed: with cold caches it is the cache lines that cost. Two lines of a TensorImpl are enough for nearly all
// parameters, and the one of the object that a call touches anyway:
//   - strides follow from the sizes where torch's own flag says that the tensor is contiguous and no size is 0 or 1;
//   - how many dims there are follows from their product, where that lies nearer than the number itself;
//   - marks are attributes: of an object without a dict they are among the keys that all objects of its type share. (What is not seen is a mark on an
//     object whose dict was asked for and emptied first: its entry serves it, with eager's values.)
#pragma once

#include "tensor/tensor_guard.h"

#include <array>
#include <cstdint>
#include <vector>

struct StatorKeys;

namespace stator::tensor {

class SteadyTensors {
 public:
  // A tensor that has just passed; its object must be known to be the same one when asTheyWere() is asked. False: it
  // cannot be known by its words, and has to be checked each time.
  bool add(PyObject* tensor, const TensorFacts& facts);
  void sort();  // all are added
  // True: each would pass. False: one may have changed. `cold`: what is read is in no near cache.
  bool asTheyWere(bool cold) const;
  void clear();
  // Appends addresses in the cache lines that asTheyWere() reads.
  void lines(std::vector<uintptr_t>& into) const;

 private:
  static constexpr size_t kMostWords = 13;
  struct Place {
    PyObject* object;
    const uint64_t* impl;
  };
  // Tensors of which the same words are the same.
  struct Kind {
    PyTypeObject* type = nullptr;
    const StatorKeys* keys = nullptr;
    Py_ssize_t keys_used = 0;
    bool asks_grad = false;
    bool requires_grad = false;
    uint32_t count = 0;
    std::array<uint8_t, kMostWords> at = {};  // in words from the start of the TensorImpl
    std::array<uint64_t, kMostWords> word = {};
    // The same words as two stretches of four, the others of them masked out; `wide`: they lie in two.
    struct Stretch {
      uint32_t first = 0;
      std::array<uint64_t, 4> word = {}, mask = {};
      bool covers(uint32_t position) const { return position >= first && position < first + 4; }
    };
    std::array<Stretch, 2> stretches = {};
    bool wide = false;
    std::vector<Place> places;
    bool sameAs(const Kind& other) const;
    void look(const uint64_t* impl, size_t word_at);
    void findStretches();
    bool wordsAreIn(const uint64_t* impl) const;
    bool asTheyWere() const;
    bool stretchesAreSame() const;
    template <bool kAsksGrad>
    bool stretchesAreIn() const;
  };
  struct Sorted {
    const void* address;
    const Place* place;
    const Kind* kind;
  };
  bool inOrder() const;

  std::vector<Kind> kinds_;
  // By address, as cold memory serves them best: each page is looked up once.
  std::vector<Sorted> objects_, impls_;
};

}  // namespace stator::tensor
