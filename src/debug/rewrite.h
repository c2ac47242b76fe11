// The body of debug/specimen.h's rewritten(): arguments are nested containers, and every edit is a walk over them.
#pragma once

#include "base/boundary.h"
#include "base/rebuilt.h"
#include "base/stack_room.h"
#include "debug/specimen.h"

namespace stator::debug {

template <class Swap, class Constant>
Ref<> rewritten(PyObject* value, Swap& swap, Constant& constant) {
  if (graph::isStandIn(value)) return swap(graph::asStandIn(value)->node);
  if (isContainer(value)) {
    auto part = [&](PyObject* item) { return rewritten(item, swap, constant); };
    return orThrow(rebuilt(value, part).release());
  }
  return constant(value);
}

}  // namespace stator::debug
