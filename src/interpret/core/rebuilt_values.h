// base/rebuilt.h for parts that are Outs: what is no value ends the walk, and is the answer.
#pragma once

#include "base/rebuilt.h"
#include "interpret/core/flow.h"

namespace stator::interpret {

// A slice, or the items of a tuple or list as a plain one of them. `part(PyObject*)` gives an Out; null from it ends
// the walk too.
template <class Part>
Out rebuiltValues(PyObject* container, Part&& part) {
  Flow flow = Flow::kOk;
  auto made = [&](PyObject* item) {
    Out out = part(item);
    flow = out.flow();
    return out.take();
  };
  Ref<> value = PySlice_Check(container) ? rebuilt(container, made) : rebuiltItems(container, made);
  return flow == Flow::kOk ? Out(std::move(value)) : Out(flow);
}

}  // namespace stator::interpret
