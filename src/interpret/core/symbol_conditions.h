// What a capture has decided about its symbols.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// conditions become guards; throws PythonError if a demand is not met
void finishSymbols(Tracer& tracer);

}  // namespace stator::interpret
