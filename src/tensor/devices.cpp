#include "tensor/devices.h"

#include "base/hot.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/CachingDeviceAllocator.h>

namespace stator::tensor {

namespace {

// Says whether the accelerator is in use. Null without an accelerator, or where it cannot say so.
c10::DeviceAllocator* acceleratorsMemory() {
  try {
    const auto accelerator = at::accelerator::getAccelerator();
    return accelerator ? dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(*accelerator))
                       : nullptr;
  } catch (const c10::Error&) {
    return nullptr;
  }
}

}  // namespace

STATOR_HOT int64_t currentDevice() {
  static c10::DeviceAllocator* const memory = acceleratorsMemory();
  // Before its first use nobody is to ask for the number of devices: the answer would start the driver, and a process
  // that has started it cannot fork.
  if (memory == nullptr || !memory->initialized()) return 0;
  static const bool one = at::accelerator::deviceCount() <= 1;
  return one ? 0 : at::accelerator::getDeviceIndex();
}

}  // namespace stator::tensor
