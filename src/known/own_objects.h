// Functions and classes of our own package that a trace meets again: in the targets of nodes, as types of values.
#pragma once

#include "base/python.h"

namespace stator::known {

// Whether it is this one, "stator._contexts.data_of". What nobody has loaded yet nobody can have: the question loads
// nothing. The path is a literal.
bool isOwnObject(PyObject* object, const char* path);

}  // namespace stator::known
