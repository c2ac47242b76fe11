// Python source of an FX graph: the text that torch.fx's own generator writes, for the graphs that capture makes (and
// whatever is left of them after a backend's edits). Each distinct target is looked up once; anything unusual is left
// to torch.fx.
#pragma once

#include "base/python.h"
#include "base/ref.h"

namespace stator::graph {

// (source, globals, line -> node position), or None where torch.fx has to do it. Null with a Python error set.
// `helpers`: stator/_fx.py, which knows how targets and types are spelled.
Ref<> fxSource(PyObject* graph, PyObject* helpers);

}  // namespace stator::graph
