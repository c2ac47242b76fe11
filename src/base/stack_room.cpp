#include "base/stack_room.h"

#include <cstdint>
#include <pthread.h>

namespace stator {
namespace {

struct Bounds {
  uintptr_t quarter = 0;
  uintptr_t half = 0;
  uintptr_t high = 0;
};

Bounds findBounds() {
  Bounds bounds;
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return bounds;
  void* low = nullptr;
  size_t size = 0;
  if (pthread_attr_getstack(&attributes, &low, &size) == 0) {
    bounds.quarter = reinterpret_cast<uintptr_t>(low) + size / 4;
    bounds.half = reinterpret_cast<uintptr_t>(low) + size / 2;
    bounds.high = reinterpret_cast<uintptr_t>(low) + size;
  }
  pthread_attr_destroy(&attributes);
  return bounds;
}

// Outside the thread's own stack (a fiber's, or unknown) nothing is known about the room left.
thread_local const Bounds bounds = findBounds();

}  // namespace

bool stackIsShort() {
  auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return here < bounds.half || here >= bounds.high;
}

void needStack() {
  auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  if (here < bounds.quarter || here >= bounds.high) [[unlikely]]
    throw TooDeep();
}

}  // namespace stator
