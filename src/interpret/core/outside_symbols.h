// Symbols that come from outside: sizes of tensors, and ints.
#pragma once

#include "interpret/core/tracer.h"

#include <string>

namespace stator::interpret {

const symbolic::Expr* addSymbol(Tracer& tracer, const sources::Source* source, int64_t hint,
                                symbolic::Range range);
// ok with null: a constant
Out intFromOutside(Tracer& tracer, PyObject* raw, const sources::Source* source);
// a tuple of ints that was another one at the last capture
bool tupleChanged(Tracer& tracer, PyObject* raw, const sources::Source* source);
void shapeFromOutside(Tracer& tracer, PyObject* raw, const sources::Source* source,
                      tensor::TensorGuard& guard, shapes::TensorMeta& meta);
// What the program asked of a size does not hold.
[[noreturn]] void raiseViolation(const std::string& text);
// A function (name of a source, number of dims or -1 for an int) -> (dynamic dims, unbacked dims), for sources that are
// asked for by name; null: none are. Returns the one before.
Ref<> setDynamicSources(Ref<> asks);

}  // namespace stator::interpret
