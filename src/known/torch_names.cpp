#include "known/torch_names.h"

#include "base/check.h"
#include "base/imports.h"
#include "base/ref.h"
#include "python/hidden.h"

#include <string>
#include <unordered_map>

namespace stator::known {

namespace {

PyObject* lookUp(const std::string& path) {
  static std::unordered_map<std::string, PyObject*> seen;
  auto it = seen.find(path);
  if (it != seen.end()) return it->second;
  CallersHidden hidden;
  size_t dot = path.find('.');
  Ref<> object = stealRef(importModule(path.substr(0, dot).c_str()));
  while (object && dot != std::string::npos) {
    size_t end = path.find('.', dot + 1);
    Ref<> part =
        stealRef(PyObject_GetAttrString(object.get(), path.substr(dot + 1, end - dot - 1).c_str()));
    if (!part && PyModule_Check(object.get())) {
      // A submodule that nobody has imported yet; torch's own are left alone, since some take a second to import. Of
      // others the package has dropped the name (torch.optim.radam).
      PyErr_Clear();
      Ref<> name = stealRef(PyUnicode_FromString(path.substr(0, end).c_str()));
      part = stealRef(path.rfind("stator.", 0) == 0 ? importModule(path.substr(0, end).c_str())
                                                    : PyImport_GetModule(name.get()));
    }
    object = std::move(part);
    dot = end;
  }
  if (!object) PyErr_Clear();
  return seen[path] = object.release();
}

}  // namespace

PyObject* operatorFunction(const char* name) {
  PyObject* found = lookUp(std::string("operator.") + name);
  STATOR_CHECK(found != nullptr, name);
  return found;
}

PyObject* torchObject(const char* path) { return lookUp(path); }

PyObject* builtinFunction(const char* name) { return lookUp(std::string("builtins.") + name); }

}  // namespace stator::known
