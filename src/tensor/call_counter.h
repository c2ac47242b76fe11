// Counts the tensor operations that a thread runs by itself: those of its own calls, not those that an operation calls
// in turn.
#pragma once

#include <cstdint>

namespace stator::tensor {

// From now on, on this thread, while *paused is zero.
void startCallCounter(const int* paused);
void stopCallCounter();
// What has been counted since the last time.
int64_t takeCallCount();

}  // namespace stator::tensor
