// Faults on purpose, for tests: STATOR_FAIL_AT=n, or failAt(n), lets the n-th of the counted points fail, once. Points
// are where a capture asks for memory or calls Python, before anything is committed. A call that is served from an
// entry passes none.
#pragma once

#include <cstdint>

namespace stator {

extern bool counts_faults;

void failAt(int64_t n);  // counts from here on; 0 counts no more
int64_t faultPoints();   // passed since
void passFaultPoint(bool python);

// Throws std::bad_alloc where this is the point.
inline void faultPoint() {
  if (counts_faults) [[unlikely]]
    passFaultPoint(false);
}

// Throws PythonError, with MemoryError set.
inline void pythonFaultPoint() {
  if (counts_faults) [[unlikely]]
    passFaultPoint(true);
}

}  // namespace stator
