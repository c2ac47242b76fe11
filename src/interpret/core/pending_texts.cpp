#include "interpret/core/pending_texts.h"

namespace stator::interpret {

namespace {

void dealloc(PyObject* self) {
  delete reinterpret_cast<PendingText*>(self)->made_at;
  Py_TYPE(self)->tp_free(self);
}

PyTypeObject* pendingType() {
  static PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  static const bool ready = [] {
    type.tp_name = "stator._core.PendingText";
    type.tp_basicsize = sizeof(PendingText);
    type.tp_flags = Py_TPFLAGS_DEFAULT;
    type.tp_dealloc = dealloc;
    return PyType_Ready(&type) == 0;
  }();
  return ready ? &type : nullptr;
}

Ref<> makeOne(std::vector<uint64_t> made_at) {
  Ref<> object = stealRef(pendingType()->tp_alloc(pendingType(), 0));
  reinterpret_cast<PendingText*>(object.get())->made_at =
      new std::vector<uint64_t>(std::move(made_at));
  return object;
}

// So many texts may be read before all of them are made where they stand: each costs a trace.
constexpr size_t kMostRead = 6;

}  // namespace

bool isPendingText(PyObject* object) {
  return object != nullptr && Py_TYPE(object) == pendingType();
}

Ref<> joinPending(const std::vector<PyObject*>& parts) {
  std::vector<uint64_t> made_at;
  for (PyObject* part : parts) {
    if (!isPendingText(part)) continue;
    const auto& own = *reinterpret_cast<PendingText*>(part)->made_at;
    made_at.insert(made_at.end(), own.begin(), own.end());
  }
  return makeOne(std::move(made_at));
}

Ref<> PendingTexts::make(uint64_t instruction) {
  if (read_.size() >= kMostRead ||
      std::find(read_.begin(), read_.end(), instruction) != read_.end())
    return Ref<>();
  any_ = true;
  return makeOne({instruction});
}

void PendingTexts::noteRead(PyObject* text) {
  const auto& made_at = *reinterpret_cast<PendingText*>(text)->made_at;
  read_.insert(read_.end(), made_at.begin(), made_at.end());
}

}  // namespace stator::interpret
