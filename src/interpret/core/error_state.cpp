#include "interpret/core/error_state.h"

#include "interpret/core/outside.h"
#include "interpret/core/tracer.h"

namespace stator::interpret {

Out ErrorState::topmost(Tracer& tracer) {
  if (handled_.exception) return handled_.exception;
  for (size_t i = waiting_.size(); i-- > 0;) {
    if (!waiting_[i].known) {
      STATOR_VALUE(value, readOutside(tracer));
      waiting_[i] = {value, true};
    }
    if (waiting_[i].exception) return waiting_[i].exception;
  }
  return handled(tracer);
}

Out ErrorState::handled(Tracer& tracer) {
  if (handled_.known) return handled_.exception;
  STATOR_VALUE(value, readOutside(tracer));
  handled_ = {value, true};
  return value;
}

void ErrorState::enterGenerator(Ref<> handled) {
  waiting_.push_back(std::move(handled_));
  setHandled(std::move(handled));
}

Ref<> ErrorState::leaveGenerator() {
  Ref<> left = std::move(handled_.exception);
  handled_ = std::move(waiting_.back());
  waiting_.pop_back();
  return left;
}

Out ErrorState::readOutside(Tracer& tracer) {
  PyObject* raw = tracer.world.roots().handled;
  const Source* source = tracer.world.root(SourceKind::kHandled);
  if (raw == nullptr) {
    tracer.world.guard(Guard{GuardKind::kAbsent, source});
    return Ref<>();
  }
  if (raw == Py_None) {
    tracer.world.guard(Guard{GuardKind::kIs, source, nullptr, newRef(Py_None)});
    return Ref<>();
  }
  return fromOutside(tracer, raw, source);
}

}  // namespace stator::interpret
