// The loop over instructions, and how frames are left: by a return, or by an exception that looks for its handler.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// Runs until so many frames are left. kRaise: an exception left all frames above them.
Flow runUntil(Tracer& tracer, size_t depth);
// The innermost frame has returned: pops it and gives the caller its value.
// A frame that somebody looks at ends for real, with its locals in their places: a break before its return.
Flow stayIfHeld(Tracer& tracer);
Flow leaveFrame(Tracer& tracer);
// Looks for the handler of the exception that is raised, in the frames above `base`.
Flow unwind(Tracer& tracer, size_t base);

}  // namespace stator::interpret
