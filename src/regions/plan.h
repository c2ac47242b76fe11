// Runs compiled pieces one after the other: what an entry calls in the place of one compiled graph. No guard stands
// between them.
#pragma once

#include "base/python.h"
#include "base/ref.h"

#include <cstdint>
#include <string>
#include <vector>

namespace stator::regions {

// An input of the graph, or a value that a step has left.
struct Place {
  bool is_input = false;
  uint32_t index = 0;
  bool dies = false;      // not needed after the step that gets it
  bool detached = false;  // the step gets it without its history
};

struct Step {
  Ref<> callable;
  bool takes_list = false;  // one list, which it may empty; otherwise one argument for each input
  std::vector<Place> arguments;
  std::vector<uint32_t> results;  // slots for what it returns, in order
  std::string name;               // for profilers
};

struct Plan {
  std::vector<Step> steps;
  std::vector<Place> outputs;
  size_t inputs = 0, slots = 0;
};

// A callable that takes the inputs one by one and gives a tuple of the outputs.
Ref<> makePlan(Plan plan);
// The names of its steps in order, as a list; null if `object` is no plan.
Ref<> stepsOf(PyObject* object);

}  // namespace stator::regions
