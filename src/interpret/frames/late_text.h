// Texts of tensors that only a call at the end of the captured part gets (config.reorderable_logging_functions): they
// are written then.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// What is called with the text that FORMAT_VALUE is about to make, where it goes into a call and nowhere else; null:
// it may go elsewhere.
PyObject* calledWithText(const SymbolicFrame& frame, size_t operands);
// A function whose calls run behind the captured part.
bool runsLate(PyObject* callable);
// What stands for the text until then; null spec: none.
Out lateText(Tracer& tracer, PyObject* value, int conversion, PyObject* spec);
bool isLateText(PyObject* value);
Out joinLateTexts(Tracer& tracer, const std::vector<PyObject*>& parts);

}  // namespace stator::interpret
