// A specimen as Python: the parameters and the body of a function that a reader understands and that stator.debug reads
// back. One line for each call, infix where Python has an operator, the value's facts behind it and the user's line
// above it.
#pragma once

#include "debug/specimen.h"

#include <string>
#include <vector>

namespace stator::debug {

struct PythonText {
  std::vector<std::string> parameters;
  std::string body;  // indented by four
};

// `spell(object)` gives the expression that a callable or constant is written as, or a template with {} for an
// operator's operands; it raises for what cannot be written. Throws PythonError.
PythonText pythonText(const Specimen& specimen, PyObject* spell);
// The expression of a value that holds no values of a graph.
std::string pythonLiteral(PyObject* value, PyObject* spell);

}  // namespace stator::debug
