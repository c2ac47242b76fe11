// How much of this thread's C stack is left. A driven Python call uses the C stack, a native one inlined by CPython does not; so the
// driver stops driving when half of it is used, and leaves the rest to what C recursion the program does itself.
#pragma once

namespace stator::runtime {

bool stackIsShort();

}  // namespace stator::runtime
