// Texts of tensors that only a call at the end of the captured part gets (config.reorderable_logging_functions): they
// are written then.
#pragma once

#include "interpret/core/tracer.h"

namespace stator::interpret {

// What is called with the text that an instruction is about to make, where it goes into a call and nowhere else; null:
// it may go elsewhere.
PyObject* calledWithText(const SymbolicFrame& frame, size_t operands);
// A function whose calls run behind the captured part.
bool runsLate(PyObject* callable);
// What stands for the text until then; null spec: none.
Out lateText(Tracer& tracer, PyObject* value, int conversion, PyObject* spec);
// What stands for the text of a value that would have to be read; null: it is read here.
Ref<> textForLater(Tracer& tracer, const SymbolicFrame& frame, bool has_spec);
// The text of the tensor that is about to be formatted: written at the end, or not before somebody looks at it.
Out textOfTensor(Tracer& tracer, const SymbolicFrame& frame, int conversion, PyObject* spec);
bool isLateText(PyObject* value);
Out joinLateTexts(Tracer& tracer, const std::vector<PyObject*>& parts);

}  // namespace stator::interpret
