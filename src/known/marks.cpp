#include "known/marks.h"

#include "base/ref.h"
#include "base/text.h"

#include <string_view>

namespace stator::known {

Mark markOf(PyObject* function) {
  static PyObject* const disabled = PyUnicode_InternFromString("_torchdynamo_disable");
  static PyObject* const recursive = PyUnicode_InternFromString("_torchdynamo_disable_recursive");
  static PyObject* const forbidden = PyUnicode_InternFromString("_dynamo_forbidden");
  static PyObject* const constant = PyUnicode_InternFromString("_dynamo_marked_constant");
  PyObject* dict = PyFunction_Check(function)
                       ? reinterpret_cast<PyFunctionObject*>(function)->func_dict
                       : nullptr;
  if (dict == nullptr || PyDict_GET_SIZE(dict) == 0) return Mark::kNone;
  auto set = [&](PyObject* name) { return PyDict_GetItemWithError(dict, name) == Py_True; };
  if (set(disabled)) return set(recursive) ? Mark::kDisabled : Mark::kDisabledAlone;
  if (set(forbidden)) return Mark::kForbidden;
  return set(constant) ? Mark::kConstantResult : Mark::kNone;
}

std::string reasonOfDisabling(PyObject* callable) {
  Ref<> why = stealRef(PyObject_GetAttrString(callable, "_torchdynamo_disable_msg"));
  if (!why) PyErr_Clear();
  const bool told = why && PyUnicode_Check(why.get()) && PyUnicode_GetLength(why.get()) > 0;
  return told ? std::string(": ") + utf8(why.get()) : "";
}

PyObject* behindTorchDynamosMark(PyObject* function) {
  static PyObject* const original = PyUnicode_InternFromString("_torchdynamo_orig_callable");
  PyObject* module = reinterpret_cast<PyFunctionObject*>(function)->func_module;
  PyObject* name = reinterpret_cast<PyFunctionObject*>(function)->func_name;
  PyObject* dict = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  if (module == nullptr || !PyUnicode_Check(module) || dict == nullptr) return nullptr;
  const char* where = utf8OrNull(module);
  if (where == nullptr || std::string_view(where).substr(0, 12) != "torch.optim." ||
      PyUnicode_CompareWithASCIIString(name, "_init_group") != 0)
    return nullptr;
  PyObject* found = PyDict_GetItemWithError(dict, original);
  return found != nullptr && PyFunction_Check(found) ? found : nullptr;
}

}  // namespace stator::known
