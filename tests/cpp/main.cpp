// The Python module around the C++ unit tests: run(argv) gives the arguments to GoogleTest and returns its exit status.
// stator._core is initialised first, from the objects in this very library, and put into sys.modules: a test that
// imports stator gets the code under test and not a second copy of it.
#include "base/python.h"
#include "base/ref.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

PyMODINIT_FUNC PyInit__core();

namespace {

using stator::Ref;

PyObject* runTests(PyObject*, PyObject* argv) {
  Ref<> core = Ref<>::steal(PyInit__core());
  if (!core || PyDict_SetItemString(PyImport_GetModuleDict(), "stator._core", core.get()) < 0) {
    return nullptr;
  }
  Ref<> sequence = Ref<>::steal(PySequence_Fast(argv, "run() takes a list of strings"));
  if (!sequence) return nullptr;
  std::vector<std::string> texts;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.get()); ++i) {
    const char* text = PyUnicode_AsUTF8(PySequence_Fast_GET_ITEM(sequence.get(), i));
    if (text == nullptr) return nullptr;
    texts.emplace_back(text);
  }
  std::vector<char*> arguments;
  for (std::string& text : texts) arguments.push_back(text.data());
  arguments.push_back(nullptr);
  int count = static_cast<int>(texts.size());
  ::testing::InitGoogleTest(&count, arguments.data());
  int status = RUN_ALL_TESTS();
  if (::testing::UnitTest::GetInstance()->test_to_run_count() == 0)
    status = 1;            // a filter that fits nothing
  if (PyErr_Occurred()) {  // a test that leaves one behind has failed, whatever it expected
    PyErr_Print();
    status = 1;
  }
  return PyLong_FromLong(status);
}

PyMethodDef test_methods[] = {{"run", runTests, METH_O, nullptr}, {}};
PyModuleDef test_module = {PyModuleDef_HEAD_INIT, "stator_cpp_tests", nullptr, -1, test_methods};

}  // namespace

PyMODINIT_FUNC PyInit_stator_cpp_tests() { return PyModule_Create(&test_module); }
