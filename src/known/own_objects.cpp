#include "known/own_objects.h"

#include "base/ref.h"
#include "known/torch_names.h"

#include <string>
#include <unordered_map>

namespace stator::known {

bool isOwnObject(PyObject* object, const char* path) {
  static std::unordered_map<const char*, PyObject*> loaded;
  auto it = loaded.find(path);
  if (it != loaded.end()) return it->second == object;
  const std::string whole = path;
  Ref<> home = stealRef(PyUnicode_FromString(whole.substr(0, whole.rfind('.')).c_str()));
  if (!stealRef(PyImport_GetModule(home.get()))) return false;
  return (loaded[path] = torchObject(path)) == object;
}

}  // namespace stator::known
