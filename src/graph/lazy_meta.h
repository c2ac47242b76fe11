// node.meta of an FX node: a dict whose usual entries are made when they are read. Their keys are there from the start
// (`in`, len), copies share what is made, and everything that needs all the values (iteration, items, update, equality,
// pickling) makes them first.
#pragma once

#include "base/python.h"
#include "base/ref.h"

namespace stator::graph {

bool initLazyMetaType();
// Meta of node `index` of the record's graph.
Ref<> makeLazyMeta(PyObject* record, int index);

}  // namespace stator::graph
