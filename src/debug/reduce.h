// Delta debugging over a specimen: which smaller programs to try, in which order. What a failure is, and whether a
// candidate still shows it, is the caller's business; here a candidate is asked for once at most.
#pragma once

#include "debug/edit.h"

#include <functional>
#include <string>
#include <unordered_set>

namespace stator::debug {

// Whether `candidate`, made from `from` by an edit, still fails. `pass`: what is being tried, for progress reports.
using StillFails =
    std::function<bool(const Specimen& from, const Edited& candidate, const std::string& pass)>;

// The calls of a function that a graph calls; null: they are not known.
using BodyOf = std::function<const Specimen*(PyObject* function)>;

class Reducer {
 public:
  Reducer(Specimen start, StillFails still_fails, BodyOf body_of = {})
      : current_(std::move(start)),
        still_fails_(std::move(still_fails)),
        body_of_(std::move(body_of)) {}

  // Calls: truncate the end, cut the start, then drop groups that get smaller, down to single calls, until nothing can
  // go.
  void reduceCalls();
  // Calls of higher-order operators: one of their functions' calls in their place.
  void inlineFunctions();
  // Outputs, calls that hand an equal value on, inputs that another input can stand for.
  void reduceValues();
  // Keywords and scalar arguments: left out, or 0, 1, 1.0.
  void reduceConstants();

  const Specimen& current() const { return current_; }

 private:
  bool accept(std::optional<Edited> candidate, const std::string& pass);
  bool keep(const std::vector<int>& calls, const std::string& pass);
  void truncateEnd();
  void cutStart();
  bool dropGroups();

  Specimen current_;
  StillFails still_fails_;
  BodyOf body_of_;
  std::unordered_set<uint64_t> refused_;
};

}  // namespace stator::debug
