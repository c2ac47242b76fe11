#include "interpret/core/class_state.h"

#include "base/error_aside.h"
#include "python/objects.h"

namespace stator::interpret {

PyObject* classDescriptor() {
  static PyObject* const descriptor =
      PyDict_GetItemString(stator_type_dict(&PyBaseObject_Type), "__class__");
  return descriptor;
}

void ClassState::change(PyObject* object, Ref<> before, PyObject* now) {
  for (Change& change : changes_) {
    if (change.object.get() != object) continue;
    change.now = newRef(now);
    return;
  }
  changes_.push_back({newRef(object), std::move(before), newRef(now)});
}

void ClassState::restore() {
  if (changes_.empty()) return;
  ErrorKept kept;
  for (Change& change : changes_) {
    if (reinterpret_cast<PyObject*>(Py_TYPE(change.object.get())) == change.before.get()) continue;
    if (Py_TYPE(classDescriptor())
            ->tp_descr_set(classDescriptor(), change.object.get(), change.before.get()) != 0)
      PyErr_Clear();
  }
}

}  // namespace stator::interpret
