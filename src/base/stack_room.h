// How much of this thread's C stack is left. A driven Python call uses the C stack, a native one inlined by CPython
// does not; so the driver stops driving when half of it is used, and leaves the rest to what C recursion the program
// does itself. Walks over structures of the program's own, which may be as deep as it likes, ask at each level: without
// them a list in a list in a list would end the process.
#pragma once

#include <stdexcept>

namespace stator {

// A structure is nested more deeply than there is stack for. Caught in `runtime/`, which lets CPython do what is left
// of the frame.
class TooDeep : public std::runtime_error {
 public:
  TooDeep() : std::runtime_error("a structure is nested too deeply") {}
};

bool stackIsShort();
// Throws TooDeep where three quarters are used.
void needStack();

}  // namespace stator
