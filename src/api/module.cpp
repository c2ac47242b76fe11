// Module init and method table of stator._core; nothing else.
#include "base/python.h"
#include "base/ref.h"
#include "runtime/compiled_function.h"

namespace {

PyModuleDef core_module = {PyModuleDef_HEAD_INIT, "stator._core", nullptr, -1, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__core() {
  stator::Ref<> module = stator::Ref<>::steal(PyModule_Create(&core_module));
  if (!module || !stator::runtime::addCompiledFunction(module)) return nullptr;
  return module.release();
}
