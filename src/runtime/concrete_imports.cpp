// import, from ... import, from ... import *.
#include "runtime/concrete.h"

namespace stator::runtime::concrete {
namespace {

// The attribute that importlib sets on a spec while its module's body runs.
bool isInitializing(PyObject* spec) {
  Ref<> flag = spec != nullptr ? stealRef(PyObject_GetAttrString(spec, "_initializing")) : Ref<>();
  const int truth = flag ? PyObject_IsTrue(flag.get()) : 0;
  if (!flag || truth < 0) PyErr_Clear();
  return truth > 0;
}

// The attribute, or null: without an error set if there is none.
Ref<> attributeIfThere(PyObject* object, PyObject* name) {
  Ref<> found = stealRef(PyObject_GetAttr(object, name));
  if (!found && PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
  return found;
}
Ref<> attributeIfThere(PyObject* object, const char* name) {
  Ref<> key = stealRef(PyUnicode_InternFromString(name));
  return key ? attributeIfThere(object, key.get()) : Ref<>();
}

Step raiseCannotImport(PyObject* module, PyObject* name, const Ref<>& module_name) {
  Ref<> shown = module_name ? module_name : stealRef(PyUnicode_FromString("<unknown module name>"));
  if (!shown) return Step::kRaise;
  Ref<> path = stealRef(PyModule_GetFilenameObject(module));
  Ref<> text;
  if (!path || !PyUnicode_Check(path.get())) {
    PyErr_Clear();
    path.reset();
    text = stealRef(PyUnicode_FromFormat("cannot import name %R from %R (unknown location)", name,
                                         shown.get()));
  } else {
    Ref<> spec = stealRef(PyObject_GetAttrString(module, "__spec__"));
    text = stealRef(PyUnicode_FromFormat(
        isInitializing(spec.get())
            ? "cannot import name %R from partially initialized module %R (most likely due to a "
              "circular import) (%S)"
            : "cannot import name %R from %R (%S)",
        name, shown.get(), path.get()));
  }
  if (text) PyErr_SetImportError(text.get(), shown.get(), path.get());
  return Step::kRaise;
}

// The name of a public thing that `import *` brings; false with an error set if the module lists something that is no
// string.
bool checkPublicName(PyObject* module, PyObject* name, bool from_dict) {
  if (PyUnicode_Check(name)) return true;
  Ref<> module_name = stealRef(PyObject_GetAttrString(module, "__name__"));
  if (!module_name) return false;
  if (!PyUnicode_Check(module_name.get())) {
    PyErr_Format(PyExc_TypeError, "module __name__ must be a string, not %.100s",
                 Py_TYPE(module_name.get())->tp_name);
  } else {
    PyErr_Format(PyExc_TypeError, "%s in %U.%s must be str, not %.100s", from_dict ? "Key" : "Item",
                 module_name.get(), from_dict ? "__dict__" : "__all__", Py_TYPE(name)->tp_name);
  }
  return false;
}

int importAll(PyObject* locals, PyObject* module) {
  Ref<> names = attributeIfThere(module, "__all__");
  if (!names && PyErr_Occurred()) return -1;
  const bool from_dict = !names;
  if (from_dict) {
    Ref<> dict = attributeIfThere(module, "__dict__");
    if (!dict && PyErr_Occurred()) return -1;
    if (!dict) {
      PyErr_SetString(PyExc_ImportError, "from-import-* object has no __dict__ and no __all__");
      return -1;
    }
    names = stealRef(PyMapping_Keys(dict.get()));
    if (!names) return -1;
  }
  for (Py_ssize_t i = 0;; i++) {
    Ref<> name = stealRef(PySequence_GetItem(names.get(), i));
    if (!name) {
      if (!PyErr_ExceptionMatches(PyExc_IndexError)) return -1;
      PyErr_Clear();
      return 0;
    }
    if (!checkPublicName(module, name.get(), from_dict)) return -1;
    if (from_dict && PyUnicode_GET_LENGTH(name.get()) > 0 &&
        PyUnicode_READ_CHAR(name.get(), 0) == '_')
      continue;
    Ref<> value = stealRef(PyObject_GetAttr(module, name.get()));
    if (!value) return -1;
    int status = PyDict_CheckExact(locals) ? PyDict_SetItem(locals, name.get(), value.get())
                                           : PyObject_SetItem(locals, name.get(), value.get());
    if (status < 0) return -1;
  }
}

}  // namespace

Step importName(Machine& m, int oparg) {
  Ref<> names = m.pop();
  Ref<> level = m.pop();
  Ref<> key = stealRef(PyUnicode_InternFromString("__import__"));
  Ref<> function =
      key ? newRef(PyDict_GetItemWithError(stator_frame_builtins(m.frame), key.get())) : nullptr;
  if (!function) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ImportError, "__import__ not found");
    return Step::kRaise;
  }
  PyObject* locals = stator_frame_namespace(m.frame);
  PyObject* arguments[] = {m.name(oparg), stator_frame_globals(m.frame), locals ? locals : Py_None,
                           names.get(), level.get()};
  return m.finish(stealRef(PyObject_Vectorcall(function.get(), arguments, 5, nullptr)));
}

Step importFrom(Machine& m, int oparg) {
  PyObject* module = m.peek(1);
  PyObject* name = m.name(oparg);
  Ref<> found = attributeIfThere(module, name);
  if (found || PyErr_Occurred()) return m.finish(std::move(found));
  // In a circular import the submodule may be in sys.modules before its package has the attribute.
  Ref<> module_name = stealRef(PyObject_GetAttrString(module, "__name__"));
  if (!module_name || !PyUnicode_Check(module_name.get()))
    return raiseCannotImport(module, name, nullptr);
  Ref<> full_name = stealRef(PyUnicode_FromFormat("%U.%U", module_name.get(), name));
  if (!full_name) return Step::kRaise;
  Ref<> submodule = stealRef(PyImport_GetModule(full_name.get()));
  if (!submodule && !PyErr_Occurred()) return raiseCannotImport(module, name, module_name);
  return m.finish(std::move(submodule));
}

// Allowed in modules only, where the names live in the namespace alone.
Step importStar(Machine& m, int) {
  Ref<> module = m.pop();
  PyObject* locals = PyEval_GetLocals();
  if (!locals) return Step::kRaise;
  return Machine::check(importAll(locals, module.get()));
}

}  // namespace stator::runtime::concrete
