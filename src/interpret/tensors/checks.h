// Checks of the program on the data of tensors: `if bad.any(): raise ...`, `assert good`. Where one side of a branch
// does nothing but raise, the trace goes on at the other side, and the graph gets a node that fails if that was wrong.
// A graph that fails is run again by the real interpreter, which raises as eager does. So this is for graphs that can
// be run again: with other effects than random numbers from torch's own generator, which is set back, there is a break
// at the check.
#pragma once

#include "interpret/core/tracer.h"

#include <optional>

namespace stator::interpret {

// The truth that a value has to have for a jump that is taken `if_true`, or else the program raises; none: it can go on
// either way.
std::optional<bool> checkedTruth(Tracer& t, SymbolicFrame& frame, const bytecode::Instr& instr,
                                 bool if_true);

// False: the graph has checks and cannot be run again; the trace starts over with a break before the first of them.
bool checksCanFail(Tracer& t);

}  // namespace stator::interpret
