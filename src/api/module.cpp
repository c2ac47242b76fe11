// Module init and method table of stator._core; nothing else.
#include "base/python.h"

namespace {

PyModuleDef core_module = {PyModuleDef_HEAD_INIT, "stator._core", nullptr, -1, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__core() { return PyModule_Create(&core_module); }
