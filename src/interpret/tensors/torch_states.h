// States of the process that captured code sets (torch_states.cpp), as the graph shows them.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// A frame that goes on in the middle, perhaps under a state that the part before it has set.
void noteStates(Tracer& tracer);
// A node that sets the state.
graph::Node* addStateNode(Tracer& tracer, size_t index, PyObject* value);

// The call that brings such a state about.
struct StateCall {
  PyObject* function;
  bool takes_value;
};
StateCall stateCall(size_t index, PyObject* value);
class ProcessStateScope {
 public:
  explicit ProcessStateScope(Tracer& tracer);
  ~ProcessStateScope();

 private:
  void apply(bool now);
  Tracer& tracer_;
};

}  // namespace stator::interpret
