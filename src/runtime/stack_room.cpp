#include "runtime/stack_room.h"

#include <cstdint>
#include <pthread.h>

namespace stator::runtime {
namespace {

struct Bounds {
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
    bounds.half = reinterpret_cast<uintptr_t>(low) + size / 2;
    bounds.high = reinterpret_cast<uintptr_t>(low) + size;
  }
  pthread_attr_destroy(&attributes);
  return bounds;
}

}  // namespace

bool stackIsShort() {
  thread_local const Bounds bounds = findBounds();
  auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  // Outside the thread's own stack (a fiber's, or unknown): nothing is known about the room left.
  return here < bounds.half || here >= bounds.high;
}

}  // namespace stator::runtime
