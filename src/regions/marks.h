// Functions that the user has marked as regions (torch.compiler.nested_compile_region). A mark is a hint: what is
// marked by mistake, since a code object is gone and its address taken again, is cut where it may be cut.
#pragma once

#include "base/python.h"
#include "graph/graph.h"

namespace stator::regions {

void noteMarked(PyObject* function);
bool hasMarked();
// Whether a call belongs to a marked function.
bool isMarked(const graph::Node& node);

}  // namespace stator::regions
