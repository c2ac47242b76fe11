// Callables that the tables have a row for.
#pragma once

#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"

#include <optional>

namespace stator::interpret {

// Without a value: the row says nothing about how it is called.
std::optional<Out> callByRow(Tracer& tracer, const CallRow& row, PyObject* callable,
                             const Args& args, Continuation then);

}  // namespace stator::interpret
