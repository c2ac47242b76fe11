// Devices with an index of their own: what the program's current one is.
#pragma once

#include <cstdint>

namespace stator::tensor {

// The index of the accelerator's current device, which "cuda" without an index means. 0 where it cannot be another:
// there is no accelerator, it is not in use yet, or it has one device.
int64_t currentDevice();

}  // namespace stator::tensor
