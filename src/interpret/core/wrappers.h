// Tensors whose class has its own __torch_dispatch__: the fakes that stand for them, and what each is made of.
#pragma once

#include "base/ref.h"
#include "graph/graph.h"
#include "sources/source.h"

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace stator::interpret {

class Wrappers {
 public:
  struct Inner {
    Ref<> name, fake, stand_in;
  };

  bool any() const { return static_cast<bool>(fakes_); }  // such a tensor has come up
  PyObject* fakes() const { return fakes_.get(); }        // makes fake instances for this trace
  void setFakes(Ref<> fakes) { fakes_ = std::move(fakes); }

  // An operation on one reads data, which fakes that know numbers alone cannot say: the next trace has others.
  void noteReadsData() { reads_data_ = true; }
  bool readsData() const { return reads_data_; }

  // The call under way gives such a tensor, whatever its arguments are.
  bool making() const { return making_; }
  class Making {
   public:
    explicit Making(Wrappers& wrappers)
        : wrappers_(wrappers), before_(std::exchange(wrappers.making_, true)) {}
    ~Making() { wrappers_.making_ = before_; }
    Making(const Making&) = delete;
    Making& operator=(const Making&) = delete;

   private:
    Wrappers& wrappers_;
    bool before_;
  };

  // Of nested tensors from outside: what tells their ragged sizes apart.
  std::vector<std::pair<const sources::Source*, PyObject*>>& ragged() { return ragged_; }
  // Tensors inside that were read.
  std::vector<Inner>& inner(const graph::Node* node) { return inner_[node]; }

  // Storages of a wrapper and of what it is made of.
  void tie(uint32_t wrapper, uint32_t part) { ties_.emplace_back(wrapper, part); }
  bool anyTies() const { return !ties_.empty(); }
  // Of what shares memory with it, wrappers and what they are made of.
  std::unordered_set<uint32_t> tied(uint32_t storage) const;

 private:
  Ref<> fakes_;
  bool making_ = false;
  bool reads_data_ = false;
  std::vector<std::pair<const sources::Source*, PyObject*>> ragged_;
  std::vector<std::pair<uint32_t, uint32_t>> ties_;
  std::unordered_map<const graph::Node*, std::vector<Inner>> inner_;
};

}  // namespace stator::interpret
