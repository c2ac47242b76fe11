// Checks for what can only be wrong if stator is: they throw InternalError, which `runtime/` alone catches.
#pragma once

#include <stdexcept>
#include <string>

namespace stator {

class InternalError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A Python exception is set and has to travel through C++ frames to the edge that called in.
class PythonError : public std::exception {};

[[noreturn]] void failCheck(const char* file, int line, const char* condition,
                            const std::string& detail);

}  // namespace stator

#define STATOR_CHECK(condition, ...)                                                   \
  do {                                                                                 \
    if (!(condition)) [[unlikely]]                                                     \
      ::stator::failCheck(__FILE__, __LINE__, #condition, ::std::string{__VA_ARGS__}); \
  } while (0)
