// Code whose frames are never captured or inlined: by the file it comes from.
#pragma once

#include "base/python.h"

#include <cstdint>

namespace stator::known {

enum class CodePolicy : uint8_t {
  kTrace,
  // inlined when reached from a trace, but native when its frame comes up by itself (nn.Module._call_impl)
  kInlineOnly,
  kSkip,
};
CodePolicy codePolicy(PyCodeObject* code);
bool isPolyfill(PyCodeObject* code);

}  // namespace stator::known
