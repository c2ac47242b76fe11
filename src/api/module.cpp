// Module init and method table of stator._core; nothing else.
#include "base/python.h"
#include "guards/guards_module.h"

namespace {

PyModuleDef core_module = {PyModuleDef_HEAD_INIT, "stator._core", nullptr, -1, nullptr};

// One table from each room that has doors.
PyMethodDef* const kTables[] = {stator::guards::guards_methods};

}  // namespace

PyMODINIT_FUNC PyInit__core() {
  PyObject* module = PyModule_Create(&core_module);
  if (module == nullptr) return nullptr;
  for (PyMethodDef* methods : kTables) {
    if (PyModule_AddFunctions(module, methods) != 0) {
      Py_DECREF(module);
      return nullptr;
    }
  }
  return module;
}
