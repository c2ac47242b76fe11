// stator._core.CompiledModuleBase: what makes an object of a class written in Python as quick to call as a function.
// CPython would look up `__call__`, pack the arguments into a tuple and a dict, and unpack them again.
// What is compiled is what a call of the module runs: torch's own `_call_impl`, which sees to hooks, where a call comes
// straight to it, and the class's `__call__` otherwise. Both can be replaced later, so the choice holds as long as the
// class and the module's dict stay as they are.
#include "runtime/module_base.h"

#include "base/fields.h"
#include "base/hot.h"
#include "known/known_types.h"
#include "known/names.h"
#include "python/objects.h"

#include <cstddef>
#include <structmember.h>

namespace stator::runtime {

namespace {

struct ModuleBase {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* module;    // the module itself
  PyObject* compile;   // compiles what a call of the module runs
  PyObject* compiled;  // null until it is asked for
  // What was compiled: `called` is the class's `__call__`, and whether it was passed by.
  PyObject* called;
  PyObject* of;  // the module; `compiled` keeps it alive
  bool straight;
  // Where this was found.
  PyTypeObject* type;
  uint64_t type_version, own_version;
};

ModuleBase* selfOf(PyObject* object) { return reinterpret_cast<ModuleBase*>(object); }

// As a call looks it up; null with or without an error set.
Ref<> bound(PyObject* function, PyObject* module) {
  if (function == nullptr) return {};
  descrgetfunc get = Py_TYPE(function)->tp_descr_get;
  if (get == nullptr) return newRef(function);
  return stealRef(get(function, module, reinterpret_cast<PyObject*>(Py_TYPE(module))));
}

// Whether torch's own `__call__`, found as `called`, comes straight to torch's own `_call_impl`.
bool comesStraight(PyObject* module, PyObject* called) {
  PyTypeObject* type = Py_TYPE(module);
  const known::Names& names = known::names();
  PyObject* own = nullptr;
  // The module's own, which its compile() makes, is passed by: compiling twice means the second arguments.
  PyObject* compiled = _PyType_Lookup(type, names.compiled_call_impl);
  return (compiled == nullptr || compiled == Py_None) && known::isModuleCall(called) &&
         known::isModuleCallImpl(_PyType_Lookup(type, names.call_impl)) &&
         _PyType_Lookup(type, names.dunder_getattribute) ==
             _PyType_Lookup(&PyBaseObject_Type, names.dunder_getattribute) &&
         stator_object_lookup(module, names.call_impl, &own) == STATOR_MISSING;
}

// Makes `compiled` what a call of the module runs now; false with an error set.
bool resolve(ModuleBase* self, uint64_t own_version) {
  if (!known::initKnownTypes() || !known::initNames()) return false;
  Ref<> module = newRef(self->module);
  PyTypeObject* type = Py_TYPE(module.get());
  Ref<> called = newRef(_PyType_Lookup(type, known::names().dunder_call));
  const bool straight = comesStraight(module.get(), called.get());
  if (self->compiled == nullptr || self->of != module.get() || self->called != called.get() ||
      self->straight != straight) {
    Ref<> entry = bound(straight ? _PyType_Lookup(type, known::names().call_impl) : called.get(),
                        module.get());
    Ref<> compiled = entry ? stealRef(PyObject_CallOneArg(self->compile, entry.get())) : Ref<>();
    if (!compiled) {
      if (PyErr_Occurred() == nullptr)
        PyErr_Format(PyExc_TypeError, "'%.200s' object is not callable", type->tp_name);
      return false;
    }
    setField(self->compiled, std::move(compiled));
    setField(self->called, std::move(called));
    self->of = module.get();
    self->straight = straight;
  }
  self->type_version = stator_type_version(type);
  // without one it cannot be told whether it changes
  self->type = self->type_version != 0 ? type : nullptr;
  self->own_version = own_version;
  return true;
}

// Null with an error set.
STATOR_HOT Ref<> compiledOf(ModuleBase* self) {
  if (self->module == nullptr || self->compile == nullptr) {
    PyErr_SetString(PyExc_TypeError, "the compiled module was not set up");
    return {};
  }
  PyTypeObject* type = Py_TYPE(self->module);
  StatorView view;
  const bool seen = stator_view_object(&view, self->module) && view.dict != nullptr;
  const uint64_t own_version =
      seen ? stator_dict_version(reinterpret_cast<PyObject*>(view.dict)) : 0;
  if (type != self->type || stator_type_version(type) != self->type_version ||
      own_version != self->own_version || !seen || !stator_dict_versioned(view.dict)) [[unlikely]] {
    if (!resolve(self, own_version)) return {};
  }
  return newRef(self->compiled);
}

STATOR_HOT PyObject* call(PyObject* object, PyObject* const* args, size_t nargsf,
                          PyObject* kwnames) {
  Ref<> compiled = compiledOf(selfOf(object));
  if (!compiled) return nullptr;
  return PyObject_Vectorcall(compiled.get(), args, nargsf, kwnames);
}

PyObject* create(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* object = type->tp_alloc(type, 0);
  if (object != nullptr) selfOf(object)->vectorcall = call;
  return object;
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(selfOf(object)->module);
  Py_VISIT(selfOf(object)->compile);
  Py_VISIT(selfOf(object)->compiled);
  Py_VISIT(selfOf(object)->called);
  return 0;
}

int clear(PyObject* object) {
  clearField(selfOf(object)->module);
  clearField(selfOf(object)->compile);
  clearField(selfOf(object)->compiled);
  clearField(selfOf(object)->called);
  return 0;
}

void dealloc(PyObject* object) {
  PyObject_GC_UnTrack(object);
  clear(object);
  Py_TYPE(object)->tp_free(object);
}

PyMemberDef members[] = {
    {"_orig_mod", T_OBJECT_EX, offsetof(ModuleBase, module), 0, nullptr},
    {"_stator_compile", T_OBJECT_EX, offsetof(ModuleBase, compile), 0, nullptr},
    {}};

PyObject* readCall(PyObject* object, void*) { return compiledOf(selfOf(object)).release(); }

PyGetSetDef accessors[] = {{"__call__", readCall, nullptr, nullptr, nullptr}, {}};

PyTypeObject ModuleBaseType = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "stator._core.CompiledModuleBase",
    .tp_basicsize = sizeof(ModuleBase),
    .tp_dealloc = dealloc,
    .tp_vectorcall_offset = offsetof(ModuleBase, vectorcall),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_members = members,
    .tp_getset = accessors,
    .tp_new = create,
};

// Classes made in Python do not inherit the flag, since their `__call__` can be replaced. Nobody replaces that of a
// class made for one purpose.
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

bool addModuleBase(PyObject* module) {
  return PyType_Ready(&ModuleBaseType) == 0 &&
         PyModule_AddObjectRef(module, "CompiledModuleBase",
                               reinterpret_cast<PyObject*>(&ModuleBaseType)) == 0 &&
         PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace stator::runtime
