#include "sources/short_lived.h"

#include "base/check.h"
#include "python/hidden.h"
#include "python/types.h"
#include "sources/source.h"

#include <string_view>

namespace stator::sources {

namespace {

bool isOfFunctionBody(PyObject* qualified_name) {
  if (qualified_name == nullptr || !PyUnicode_Check(qualified_name)) return false;
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(qualified_name, &size);
  if (text == nullptr) {
    PyErr_Clear();
    return false;
  }
  return std::string_view(text, static_cast<size_t>(size)).find("<locals>") !=
         std::string_view::npos;
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
    return isOfFunctionBody(reinterpret_cast<PyFunctionObject*>(object)->func_qualname);
  if (PyType_Check(object)) {
    if (!stator_is_user_class(reinterpret_cast<PyTypeObject*>(object))) return false;
    return isOfFunctionBody(reinterpret_cast<PyHeapTypeObject*>(object)->ht_qualname);
  }
  return isLruCache(Py_TYPE(object));
}

Ref<> weakReference(PyObject* object, PyObject* callback) {
  // Without a callback all weak references to an object are one, which the program may have too.
  static PyMethodDef nothing = {"nothing", [](PyObject*, PyObject*) { Py_RETURN_NONE; }, METH_O,
                                nullptr};
  static PyObject* const no_callback = PyCFunction_New(&nothing, nullptr);
  Ref<> reference =
      stealRef(PyWeakref_NewRef(object, callback != nullptr ? callback : no_callback));
  if (!reference) throw PythonError();
  stator_hide(reference.get());
  return reference;
}

}  // namespace stator::sources
