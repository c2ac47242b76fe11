#include "python/types.h"

#include "python/objects.h"

PyObject* stator_type_mro(PyTypeObject* type) {
  static PyObject* empty = NULL;
  if (type->tp_mro != NULL) return type->tp_mro;
  if (empty == NULL) empty = PyTuple_New(0);
  return empty;
}

PyObject* stator_type_entries(PyTypeObject* type) {
  static PyObject* empty = NULL;
  PyObject* dict = stator_type_dict(type);
  if (dict != NULL) return dict;
  if (empty == NULL) empty = PyDict_New();
  return empty;
}

PyObject* stator_name_of_slots_owner(PyTypeObject* type) {
#if PY_MINOR_VERSION >= 13
  return PyType_GetFullyQualifiedName(type);
#else
  return PyUnicode_FromString(type->tp_name);
#endif
}

int stator_is_method_wrapper(PyObject* value) {
  static PyTypeObject* type = NULL;
  if (type == NULL) {
    PyObject* bound = PyObject_GetAttrString(Py_None, "__str__");
    if (bound == NULL) Py_FatalError("None has no __str__");
    type = Py_TYPE(bound);  // static: it outlives the object
    Py_DECREF(bound);
  }
  return Py_TYPE(value) == type;
}

PyObject* stator_native_iter(PyObject* container) {
  PyTypeObject* native = stator_native_base(Py_TYPE(container));
  return native->tp_iter != NULL ? native->tp_iter(container) : PyObject_GetIter(container);
}

PyObject* stator_native_reversed(PyObject* container) {
  static PyObject* name = NULL;
  if (name == NULL) name = PyUnicode_InternFromString("__reversed__");
  PyObject* own = _PyType_Lookup(stator_native_base(Py_TYPE(container)), name);
  return PyObject_CallOneArg(own != NULL ? own : (PyObject*)&PyReversed_Type, container);
}
