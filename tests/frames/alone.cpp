// stator._core with the driver and nothing else: frames, decoding and the concrete actions can be tested on any
// CPython, without torch. What the captured side would answer is answered here: nothing is captured, nothing is marked.
#include "base/ref.h"
#include "runtime/driver.h"
#include "runtime/driver_module.h"
#include "runtime/driver_policy.h"

namespace stator::runtime {

Exit runCaptured(Cache&, StatorFrame*, bytecode::CodeInfo&) { return outcome(Outcome::kStep); }
ModuleCall plainModuleCall(StatorFrame*) { return {}; }
bool isMarkedNative(PyFunctionObject*) { return false; }
bool importsModule(PyCodeObject*) { return false; }
bool standsForNative(PyCodeObject*) { return false; }
Cache* cacheOf(PyObject*) {
  PyErr_SetString(PyExc_TypeError, "the driver alone has no caches");
  return nullptr;
}

}  // namespace stator::runtime

namespace {
PyModuleDef alone_module = {PyModuleDef_HEAD_INIT, "stator._core", nullptr, -1, nullptr};
}

PyMODINIT_FUNC PyInit__core() {
  stator::Ref<> module = stator::stealRef(PyModule_Create(&alone_module));
  if (!module || PyModule_AddFunctions(module.get(), stator::runtime::driver_methods) != 0 ||
      stator::runtime::addDriverObjects(module.get()) < 0)
    return nullptr;
  return module.release();
}
