// Captures ahead of calls (aot_compile): a compiled function is captured for example inputs without being run, and its
// cache is closed, so that no later call captures anew.
#pragma once

#include "base/python.h"

namespace stator::runtime {

class Cache;

// A look-up that is for the answer alone ends here: sets the exception that carries it, and throws PythonError.
[[noreturn]] void answerAhead(bool serves);

bool addAhead(PyObject* module);

}  // namespace stator::runtime
