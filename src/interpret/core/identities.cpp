#include "interpret/core/identities.h"

namespace stator::interpret {

PyTypeObject* addressType() {
  static PyTypeObject* type = [] {
    static PyType_Slot slots[] = {{0, nullptr}};
    static PyType_Spec spec = {"stator._core.Address", 0, 0, Py_TPFLAGS_DEFAULT, slots};
    Ref<> bases = stealRef(PyTuple_Pack(1, &PyLong_Type));
    return reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&spec, bases.get()));
  }();
  return type;
}

}  // namespace stator::interpret
