// A live frame as sources see it.
#include "sources/source.h"

namespace stator::sources {

Roots Roots::of(StatorFrame* frame) {
  Roots roots;
  roots.slots = stator_frame_slots(frame);
  roots.stack = stator_frame_stack(frame);
  roots.globals = stator_frame_globals(frame);
  roots.builtins = stator_frame_builtins(frame);
  roots.function = reinterpret_cast<PyObject*>(stator_frame_function(frame));
  roots.handled = stator_handled_exception();
  // CPython has two ways to say that there is none
  if (roots.handled == Py_None) roots.handled = nullptr;
  roots.code = stator_frame_code(frame);
  return roots;
}

}  // namespace stator::sources
