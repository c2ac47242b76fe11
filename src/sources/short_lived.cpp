#include "sources/short_lived.h"

#include "base/check.h"
#include "base/text.h"
#include "python/hidden.h"
#include "python/types.h"
#include "sources/source.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace stator::sources {

namespace {

bool isOfFunctionBody(PyObject* qualified_name) {
  const auto text = utf8View(qualified_name);
  return text && text->find("<locals>") != std::string_view::npos;
}

// The module in sys.modules; null if there is none. Borrowed.
PyObject* registered(PyObject* name) {
  PyObject* found = name != nullptr && PyUnicode_Check(name)
                        ? PyDict_GetItemWithError(PyImport_GetModuleDict(), name)
                        : nullptr;
  if (found == nullptr) PyErr_Clear();
  return found != nullptr && PyModule_Check(found) ? found : nullptr;
}

PyObject* entry(PyObject* dict, PyObject* name) {
  PyObject* found = PyDict_GetItemWithError(dict, name);
  if (found == nullptr) PyErr_Clear();
  return found;
}

// A function that exec() made somewhere, or one that its module calls by its name no more.
bool isUnnamed(PyFunctionObject* function) {
  static PyObject* const name = PyUnicode_InternFromString("__name__");
  PyObject* globals = function->func_globals;
  PyObject* module = registered(entry(globals, name));
  if (module == nullptr || PyModule_GetDict(module) != globals) return true;
  if (entry(globals, function->func_name) == reinterpret_cast<PyObject*>(function)) return false;
  const Py_ssize_t end = PyUnicode_GET_LENGTH(function->func_qualname);
  return PyUnicode_FindChar(function->func_qualname, '.', 0, end, 1) < 0;
}

// The same of a class; one inside of another is taken for as long-lived as that.
bool isUnnamed(PyTypeObject* type) {
  static PyObject* const name = PyUnicode_InternFromString("__module__");
  PyObject* module = registered(entry(stator_type_entries(type), name));
  if (module == nullptr) return true;
  Ref<> qualified = stealRef(PyType_GetQualName(type));
  const Py_ssize_t end = PyUnicode_GET_LENGTH(qualified.get());
  const Py_ssize_t dot = PyUnicode_FindChar(qualified.get(), '.', 0, end, 1);
  if (dot < 0)
    return entry(PyModule_GetDict(module), qualified.get()) != reinterpret_cast<PyObject*>(type);
  if (isOfFunctionBody(qualified.get())) return true;
  Ref<> outer = stealRef(PyUnicode_Substring(qualified.get(), 0, dot));
  PyObject* found = outer ? entry(PyModule_GetDict(module), outer.get()) : nullptr;
  PyErr_Clear();
  return found == nullptr || !PyType_Check(found);
}

bool isUnregistered(PyObject* module) {
  Ref<> name = stealRef(PyModule_GetNameObject(module));
  PyErr_Clear();
  return registered(name.get()) != module;
}

bool isLruCache(PyTypeObject* type) {
  return std::string_view(type->tp_name) == "functools._lru_cache_wrapper";
}

}  // namespace

PyObject* pinnedObject(const Source& source) {
  return source.index == kWeakPin ? PyWeakref_GET_OBJECT(source.key.get()) : source.key.get();
}

bool isShortLived(PyObject* object) {
  if (object == nullptr) return false;
  if (PyFunction_Check(object))
    return isOfFunctionBody(reinterpret_cast<PyFunctionObject*>(object)->func_qualname) ||
           isUnnamed(reinterpret_cast<PyFunctionObject*>(object));
  if (PyModule_Check(object)) return isUnregistered(object);
  if (PyCode_Check(object)) return true;  // that a program has looked at
  if (PyType_Check(object)) {
    auto* type = reinterpret_cast<PyTypeObject*>(object);
    return stator_is_user_class(type) && isUnnamed(type);
  }
  return isLruCache(Py_TYPE(object));
}

namespace {

std::vector<PyObject*>& ownCallbacks() {
  static std::vector<PyObject*> callbacks;
  return callbacks;
}

}  // namespace

bool isOwnCallback(PyObject* callback) {
  const auto& own = ownCallbacks();
  return std::find(own.begin(), own.end(), callback) != own.end();
}

Ref<> weakReference(PyObject* object, PyObject* callback) {
  // Without a callback all weak references to an object are one, which the program may have too.
  static PyMethodDef nothing = {"nothing", [](PyObject*, PyObject*) { Py_RETURN_NONE; }, METH_O,
                                nullptr};
  static PyObject* const no_callback = PyCFunction_New(&nothing, nullptr);
  if (callback == nullptr) callback = no_callback;
  if (!isOwnCallback(callback)) ownCallbacks().push_back(callback);
  Ref<> reference = stealRef(PyWeakref_NewRef(object, callback));
  if (!reference) throw PythonError();
  stator_hide(reference.get());
  return reference;
}

}  // namespace stator::sources
