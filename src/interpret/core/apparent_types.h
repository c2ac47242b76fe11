// What stand-ins stand for, where that is another type than the one that their node's tensors have.
#pragma once

#include "graph/stand_in.h"

namespace stator::interpret {

// real tensors of its node are of another type than it stands for
bool isCast(PyObject* stand_in);
// the fake instance; null: a tensor of another class, or none
PyObject* wrapperOf(PyObject* stand_in);

}  // namespace stator::interpret
