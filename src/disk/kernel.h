// A kernel that inductor compiled: a shared object which is an extension module `kernel` with one function of that
// name.
#pragma once

#include "base/python.h"
#include "base/ref.h"

#include <string>
#include <string_view>

namespace stator::disk {

// The function. The bytes are put into a file for a moment, in the first of the folders that takes it. Null: `problem`
// says why, no Python error is set. What is loaded stays loaded.
Ref<> loadKernel(std::string_view bytes, const std::string& folder, std::string& problem);

}  // namespace stator::disk
