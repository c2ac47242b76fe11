// Generators from outside, and iterators of C's over such: behind a break a loop goes on with what an earlier part has
// made, and a program hands in what it likes. The trace takes over where they stand and goes on with iterators of its
// own; the plan then puts the real ones where those came to.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// The trace's own iterator in place of one from outside; itself if it is the trace's own. Null: it is none of these, or
// cannot be taken over.
Out takenOver(Tracer& tracer, PyObject* iterator);
// The one that has taken over, if it has happened in this trace (borrowed).
PyObject* takerOf(Tracer& tracer, PyObject* iterator);

// `except SomeError:` lets GeneratorExit pass: its handler starts with the look-up of a class that is no base of it.
bool ignoresClosing(const bytecode::CodeInfo& code, int target);
// Whether a generator of the trace, left where it stands, would run a handler when it is closed.
bool closingIsNoticed(Tracer& tracer, PyObject* generator);

}  // namespace stator::interpret
