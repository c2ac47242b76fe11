// Texts of tensors that only a call at the end of the captured part gets (config.reorderable_logging_functions): they
// are written then.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// The text of the stand-in that FORMAT_VALUE is about to make goes into such a call, and nowhere else.
bool goesIntoLateCall(const SymbolicFrame& frame, size_t operands);
// What stands for the text until then; null spec: none.
Out lateText(Tracer& tracer, PyObject* value, int conversion, PyObject* spec);
bool isLateText(PyObject* value);
Out joinLateTexts(Tracer& tracer, const std::vector<PyObject*>& parts);

}  // namespace stator::interpret
