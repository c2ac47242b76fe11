// stator._core.CompiledModuleBase: what makes an object of a class written in Python as quick to call as a function. CPython would look up
// `__call__`, pack the arguments into a tuple and a dict, and unpack them again.
#include "runtime/module_base.h"

#include "base/hot.h"

#include <cstddef>
#include <structmember.h>

namespace stator::runtime {

namespace {

struct ModuleBase {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* compiled;  // `__call__`: owned; null until it is set
};

ModuleBase* selfOf(PyObject* object) { return reinterpret_cast<ModuleBase*>(object); }

STATOR_HOT PyObject* call(PyObject* object, PyObject* const* args, size_t nargsf,
                          PyObject* kwnames) {
  Ref<> compiled = newRef(selfOf(object)->compiled);
  if (!compiled) {
    PyErr_SetString(PyExc_TypeError, "the compiled module was not set up");
    return nullptr;
  }
  return PyObject_Vectorcall(compiled.get(), args, nargsf, kwnames);
}

PyObject* create(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* object = type->tp_alloc(type, 0);
  if (object != nullptr) selfOf(object)->vectorcall = call;
  return object;
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(selfOf(object)->compiled);
  return 0;
}

int clear(PyObject* object) {
  Py_CLEAR(selfOf(object)->compiled);
  return 0;
}

void dealloc(PyObject* object) {
  PyObject_GC_UnTrack(object);
  clear(object);
  Py_TYPE(object)->tp_free(object);
}

PyMemberDef members[] = {{"__call__", T_OBJECT_EX, offsetof(ModuleBase, compiled), 0, nullptr}, {}};

PyTypeObject ModuleBaseType = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "stator._core.CompiledModuleBase",
    .tp_basicsize = sizeof(ModuleBase),
    .tp_dealloc = dealloc,
    .tp_vectorcall_offset = offsetof(ModuleBase, vectorcall),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_members = members,
    .tp_new = create,
};

// Classes made in Python do not inherit the flag, since their `__call__` can be replaced. Nobody replaces that of a class made for one purpose.
PyObject* callDirectly(PyObject*, PyObject* type) {
  if (!PyType_Check(type) ||
      !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), &ModuleBaseType)) {
    PyErr_SetString(PyExc_TypeError, "a subclass of CompiledModuleBase is expected");
    return nullptr;
  }
  reinterpret_cast<PyTypeObject*>(type)->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"call_directly", callDirectly, METH_O,
     "call_directly(cls): objects of the class are called through CompiledModuleBase."},
    {}};

}  // namespace

bool addModuleBase(BorrowedRef<> module) {
  return PyType_Ready(&ModuleBaseType) == 0 &&
         PyModule_AddObjectRef(module, "CompiledModuleBase",
                               reinterpret_cast<PyObject*>(&ModuleBaseType)) == 0 &&
         PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace stator::runtime
