// A place of the program that was captured as often as it may be is captured a few times more, for what stays the same
// from call to call: the trace ends before an instruction that would rely on a value which most of the entries there
// failed by. CPython carries that instruction out, and capture goes on behind it.
#pragma once

#include "guards/guard.h"
#include "known/dynamic.h"

#include <exception>

namespace stator::interpret {

class Unsteady : public std::exception {};

// Throws Unsteady.
void refuseUnsteady(const known::DynamicHistory& history, const guards::Guard& fact);

}  // namespace stator::interpret
