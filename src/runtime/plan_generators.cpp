// Generators that a captured part has made, for the plan at its end (breaks/plan.h).
#include "breaks/plan.h"
#include "runtime/driver.h"

namespace stator::runtime {
namespace {

Ref<> makeForPlan(PyObject* function) {
  return makeGenerator(reinterpret_cast<PyFunctionObject*>(function));
}

bool fillForPlan(PyObject* generator, int64_t state, PyObject* handled,
                 const std::vector<PyObject*>& values) {
  using breaks::GeneratorState;
  if (state == GeneratorState::kEnded) {
    // Closing what has not begun runs nothing; CPython 3.12 leaves its arguments in it.
    if (stator_generator_place(generator) != STATOR_ENDED) stator_generator_empty(generator);
    return static_cast<bool>(stealRef(PyObject_CallMethod(generator, "close", nullptr)));
  }
  if (state == GeneratorState::kFresh) {
    // The prologue has run already and has put arguments that inner functions share into cells.
    StatorFrame* frame = stator_generator_frame(generator);
    for (size_t i = 0; i < values.size(); i++) {
      PyObject* before = stator_frame_slots(frame)[i];
      if (values[i] == nullptr) continue;
      if (before && PyCell_Check(before)) {
        PyCell_Set(before, values[i]);
      } else {
        stator_frame_set_slot(frame, static_cast<int>(i), values[i]);
      }
    }
    return true;
  }
  PendingFrame pending;
  pending.offset = static_cast<int>(state & 0xffffffff);
  const size_t slots = static_cast<size_t>(state >> 32);
  for (size_t i = 0; i < values.size(); i++) {
    (i < slots ? pending.slots : pending.stack).push_back(Ref<>::create(values[i]));
  }
  if (handled) pending.handled = newRef(handled);
  suspendGenerator(generator, pending);
  return true;
}

const bool doors_set = [] {
  breaks::generatorDoors() = {makeForPlan, fillForPlan};
  return true;
}();

}  // namespace
}  // namespace stator::runtime
