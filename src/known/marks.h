// What programs and torch's own switches (allow_in_graph, disable and their relatives) leave on functions.
#pragma once

#include "base/python.h"

#include <cstdint>
#include <string>

namespace stator::known {

// Marks in a function's own dict, whoever put them there.
enum class Mark : uint8_t { kNone, kDisabled, kDisabledAlone, kForbidden, kConstantResult };
Mark markOf(PyObject* function);
std::string reasonOfDisabling(PyObject* callable);  // what the program said, for messages
// Once TorchDynamo has run in the process it wraps optimizers' _init_group, for which it has a treatment of its own.
// Not for us: the function itself (borrowed), or null.
PyObject* behindTorchDynamosMark(PyObject* function);
inline bool isDisabled(PyObject* function) {
  Mark mark = markOf(function);
  return mark == Mark::kDisabled || mark == Mark::kDisabledAlone;
}

}  // namespace stator::known
