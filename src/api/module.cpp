// Module init and method table of stator._core; nothing else.
#include "base/python.h"
#include "base/ref.h"
#include "runtime/driver_module.h"

namespace {

PyModuleDef core_module = {PyModuleDef_HEAD_INIT, "stator._core", nullptr, -1, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__core() {
  stator::Ref<> module = stator::stealRef(PyModule_Create(&core_module));
  if (!module) return nullptr;
  if (PyModule_AddFunctions(module.get(), stator::runtime::driver_methods) < 0) return nullptr;
  if (stator::runtime::addDriverObjects(module.get()) < 0) return nullptr;
  return module.release();
}
