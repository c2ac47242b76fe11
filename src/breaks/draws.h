// Random numbers that a captured part draws from Python's generators before its graph runs. If the graph then fails,
// they were not drawn. Beside them, parameters that are made for the graph to fill: after a graph that failed half way
// they are what it left.
#pragma once

#include "base/ref.h"
#include "breaks/plan.h"

#include <vector>

namespace stator::breaks {

class Draws {
 public:
  // In the order of the plan. False with a Python error set: nothing was drawn.
  bool run(const Plan& plan, const sources::Roots& roots);
  void undo();
  const Ref<>* values() const { return values_.data(); }

 private:
  struct Before {
    Ref<> generator, state, gauss_next;
  };
  std::vector<Before> before_;
  std::vector<Ref<>> values_;
  std::vector<Ref<>> kept_;  // by position: what was made before undo()
};

}  // namespace stator::breaks
