// What a program has said about its own functions: stator.allow_in_graph, disable and their relatives, and the marks that torch's functions
// of the same names leave behind.
#pragma once

#include "base/python.h"
#include "interpret/calls/tables.h"

#include <string>

namespace stator::interpret {

// Rules of the user's, by identity; they come before the tables' rows. Null: none.
const CallRow* findUserRule(PyObject* callable);

// Marks in a function's own dict, whoever put them there.
enum class Mark : uint8_t { kNone, kDisabled, kDisabledAlone, kForbidden, kConstantResult };
Mark markOf(PyObject* function);
std::string reasonOfDisabling(PyObject* callable);  // what the program said, for messages
// Once TorchDynamo has run in the process it wraps optimizers' _init_group, for which it has a treatment of its own. Not for us: the function
// itself (borrowed), or null.
PyObject* behindTorchDynamosMark(PyObject* function);
inline bool isDisabled(PyObject* function) {
  Mark mark = markOf(function);
  return mark == Mark::kDisabled || mark == Mark::kDisabledAlone;
}

// Handlers of functions of modules that are loaded late, by "module.qualname"; asked before such a function is refused.
FunctionHandler findLate(PyObject* function);

void registerSwitches();
extern PyMethodDef switch_methods[];

// Whether a break is an error at this moment on this thread; stator.error_on_graph_break sets it.
bool errorOnBreak();

}  // namespace stator::interpret
