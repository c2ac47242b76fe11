// What of the processor compiled code depends on: inductor compiles for the very machine.
#pragma once

#include <string>

namespace stator::disk {

// Its kind and what it can do, as the system tells it; the same for equal processors.
const std::string& processor();

}  // namespace stator::disk
