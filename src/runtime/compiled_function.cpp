#include "runtime/compiled_function.h"

#include "base/error_aside.h"
#include "base/hot.h"
#include "base/imports.h"
#include "runtime/active.h"
#include "runtime/cache.h"
#include "runtime/direct_call.h"
#include "runtime/driver_policy.h"
#include "runtime/failed_graph.h"
#include "runtime/hook.h"
#include "runtime/watch.h"

#include <cstddef>
#include <optional>
#include <structmember.h>
#include <utility>

namespace stator::runtime {

namespace {

bool force_eager = false;
// Calls of compiled functions so far: whoever keeps memory from one call to the next (CUDA graphs do) asks whether
// another has begun.
uint64_t calls_begun = 0;
// set_stance(force_backend=): a callable from a cache to the one that serves in its place
PyObject* forced_caches = nullptr;

CompiledFunction* selfOf(PyObject* object) { return reinterpret_cast<CompiledFunction*>(object); }

STATOR_HOT PyObject* call(PyObject* callable, PyObject* const* args, size_t nargsf,
                          PyObject* kwnames) {
  CompiledFunction* self = selfOf(callable);
  ++calls_begun;
  Ref<> forced;
  Cache* cache = force_eager ? nullptr : self->native_cache;
  if (cache != nullptr && forced_caches != nullptr) {
    forced = stealRef(PyObject_CallOneArg(forced_caches, self->cache));
    if (!forced) return nullptr;
    cache = cacheOf(forced.get());
  } else if (cache != nullptr) {
    PyObject* result = nullptr;
    if (self->direct->serve(self->function, *cache, args, nargsf, kwnames, &result)) return result;
  }
  ActiveScope scope(cache);
  std::optional<WatchedCall> call;
  if (watching()) [[unlikely]]
    call.emplace();
  HookState& state = hookState();
  const void* outer = std::exchange(state.root, self->root);
  state.entering = self->root;
  PyObject* result = PyObject_Vectorcall(self->function, args, nargsf, kwnames);
  state.entering = nullptr;
  state.root = outer;
  if (failureWaits()) [[unlikely]]
    dropFailure();
  return result;
}

// The code that a call of the object runs first; null: there is none that could be named.
const void* rootOf(PyObject* callable) {
  if (PyMethod_Check(callable)) callable = PyMethod_GET_FUNCTION(callable);
  return PyFunction_Check(callable) ? PyFunction_GET_CODE(callable) : nullptr;
}

// To be called when the object gives up its cache, which it still owns.
void leaveCache(CompiledFunction* self) {
  if (self->native_cache != nullptr && self->root != nullptr)
    self->native_cache->removeRoot(self->root);
  self->native_cache = nullptr;
  self->root = nullptr;
}

Ref<> makeCompiled(PyTypeObject* type, PyObject* function, PyObject* cache) {
  if (!PyCallable_Check(function)) {
    PyErr_Format(PyExc_TypeError, "a callable is expected, not %.200s", Py_TYPE(function)->tp_name);
    return nullptr;
  }
  Cache* native_cache = cacheOf(cache);
  if (native_cache == nullptr && PyErr_Occurred()) return nullptr;
  Ref<> object = Ref<>::steal(type->tp_alloc(type, 0));
  if (!object) return nullptr;
  CompiledFunction* self = selfOf(object.get());
  self->vectorcall = call;
  self->function = newRef(function).release();
  self->cache = newRef(cache).release();
  self->native_cache = native_cache;
  self->direct = new DirectCall();
  self->root = rootOf(function);
  if (native_cache != nullptr && self->root != nullptr) native_cache->addRoot(self->root);
  return object;
}

PyObject* create(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"fn", "cache", nullptr};
  PyObject* function = nullptr;
  PyObject* cache = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:CompiledFunction", const_cast<char**>(names),
                                   &function, &cache)) {
    return nullptr;
  }
  return makeCompiled(type, function, cache).release();
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  CompiledFunction* self = selfOf(object);
  Py_VISIT(self->function);
  Py_VISIT(self->cache);
  Py_VISIT(self->dict);
  return 0;
}

int clear(PyObject* object) {
  CompiledFunction* self = selfOf(object);
  leaveCache(self);
  // A finaliser that runs in the middle of this may still call the object: it must find something to call.
  Ref<> function = Ref<>::steal(self->function);
  Ref<> cache = Ref<>::steal(self->cache);
  self->function = newRef(Py_None).release();
  self->cache = newRef(Py_None).release();
  Ref<> dict = Ref<>::steal(std::exchange(self->dict, nullptr));
  return 0;
}

void dealloc(PyObject* object) {
  CompiledFunction* self = selfOf(object);
  PyObject_GC_UnTrack(object);
  // Code objects that entries hold may have others' data, which is freed by whatever they say.
  {
    ErrorKept kept;
    if (self->weakrefs != nullptr) PyObject_ClearWeakRefs(object);
    leaveCache(self);
    delete self->direct;
    Ref<>::steal(self->function);
    Ref<>::steal(self->cache);
    Ref<>::steal(self->dict);
  }
  Py_TYPE(object)->tp_free(object);
}

// Always binds, as the plain function does that a decorator usually returns, whatever kind of callable is inside.
PyObject* bind(PyObject* object, PyObject* instance, PyObject*) {
  if (instance == nullptr || instance == Py_None) return newRef(object).release();
  return PyMethod_New(object, instance);
}

PyObject* represent(PyObject* object) {
  CompiledFunction* self = selfOf(object);
  return PyUnicode_FromFormat("<%s %R>", self->cache == Py_None ? "disabled" : "compiled",
                              self->function);
}

// Own attributes first, then the function's: __code__, __defaults__, __self__, what a user has set on it.
PyObject* readAttribute(PyObject* object, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(object, name);
  if (found != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  PyErr_Clear();
  return PyObject_GetAttr(selfOf(object)->function, name);
}

// __name__, __qualname__, __module__ and __doc__ live on types too, so that plain forwarding would show
// CompiledFunction's.
PyObject* readNaming(PyObject* object, void* closure) {
  CompiledFunction* self = selfOf(object);
  const char* name = static_cast<const char*>(closure);
  if (self->dict != nullptr) {
    if (PyObject* own = PyDict_GetItemString(self->dict, name)) return newRef(own).release();
  }
  return PyObject_GetAttrString(self->function, name);
}

int writeNaming(PyObject* object, PyObject* value, void* closure) {
  CompiledFunction* self = selfOf(object);
  const char* name = static_cast<const char*>(closure);
  if (self->dict == nullptr && (self->dict = PyDict_New()) == nullptr) return -1;
  return value != nullptr ? PyDict_SetItemString(self->dict, name, value)
                          : PyDict_DelItemString(self->dict, name);
}

PyObject* readWrapperId(PyObject* object, void*) { return PyLong_FromVoidPtr(object); }

Ref<> importedCall(const char* module, const char* function, PyObject* first, PyObject* second) {
  Ref<> loaded = Ref<>::steal(importModule(module));
  if (!loaded) return nullptr;
  Ref<> name = Ref<>::steal(PyUnicode_FromString(function));
  if (!name) return nullptr;
  return Ref<>::steal(PyObject_CallMethodObjArgs(loaded.get(), name.get(), first, second, nullptr));
}

// A name, if the object is found under it in its module, as functions are pickled; otherwise function and settings, to
// compile again.
PyObject* reduce(PyObject* object, PyObject*) {
  return importedCall("stator._compile", "_reduce_compiled", object, nullptr).release();
}

// compiled.aot_compile((args, kwargs)), as torch.compile's has it.
PyObject* compileAhead(PyObject* object, PyObject* example_inputs) {
  return importedCall("stator._ahead", "aot_compile", object, example_inputs).release();
}

// What inductor is told by mode and options, as torch.compile's has it.
PyObject* compilerConfig(PyObject* object, PyObject*) {
  return importedCall("stator._compile", "compiler_config", object, nullptr).release();
}

PyObject* copy(PyObject* object, PyObject*) { return newRef(object).release(); }

// Functions are copied as themselves; a bound method whose object is copied along is bound to the copy.
PyObject* deepcopy(PyObject* object, PyObject* memo) {
  CompiledFunction* self = selfOf(object);
  Ref<> function = importedCall("copy", "deepcopy", self->function, memo);
  if (!function) return nullptr;
  if (function.get() == self->function) return newRef(object).release();
  Ref<> copied = makeCompiled(Py_TYPE(object), function.get(), self->cache);
  if (!copied) return nullptr;
  if (self->dict != nullptr) {
    selfOf(copied.get())->dict = PyDict_Copy(self->dict);
    if (selfOf(copied.get())->dict == nullptr) return nullptr;
  }
  return copied.release();
}

// What was captured for this object's function is forgotten, what else its cache serves is not.
PyObject* resetFromPython(PyObject* object, PyObject*) {
  CompiledFunction* self = selfOf(object);
  if (self->native_cache == nullptr) Py_RETURN_NONE;
  if (self->root != nullptr) {
    self->native_cache->reset(self->root);
  } else {
    self->native_cache->reset();
  }
  Py_RETURN_NONE;
}

PyObject* setForceEager(PyObject*, PyObject* value) {
  int truth = PyObject_IsTrue(value);
  if (truth < 0) return nullptr;
  return PyBool_FromLong(std::exchange(force_eager, truth != 0));
}

PyObject* forceCache(PyObject*, PyObject* value) {
  stealRef(std::exchange(forced_caches, value == Py_None ? nullptr : newRef(value).release()));
  Py_RETURN_NONE;
}

PyObject* inCompiledRegion(PyObject*, PyObject*) {
  return PyBool_FromLong(activeCache() != nullptr);
}

PyObject* callsBegun(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(calls_begun); }

// What was compiled is a function to whoever asks (inspect, torch.fx), if it was one.
PyObject* readClass(PyObject* self, void*) {
  PyObject* function = reinterpret_cast<CompiledFunction*>(self)->function;
  return Py_NewRef(function != nullptr && PyFunction_Check(function) ? &PyFunction_Type
                                                                     : Py_TYPE(self));
}

PyMemberDef members[] = {
    {"__wrapped__", T_OBJECT, offsetof(CompiledFunction, function), READONLY, nullptr},
    // Under this name TorchDynamo finds the function inside its own wrappers, and unwraps it before it compiles.
    {"_torchdynamo_orig_callable", T_OBJECT, offsetof(CompiledFunction, function), READONLY,
     nullptr},
    {"_stator_cache", T_OBJECT, offsetof(CompiledFunction, cache), READONLY, nullptr},
    {}};

char name_key[] = "__name__", qualname_key[] = "__qualname__", module_key[] = "__module__",
     doc_key[] = "__doc__";
PyGetSetDef accessors[] = {
    {name_key, readNaming, writeNaming, nullptr, name_key},
    {qualname_key, readNaming, writeNaming, nullptr, qualname_key},
    {module_key, readNaming, writeNaming, nullptr, module_key},
    {doc_key, readNaming, writeNaming, nullptr, doc_key},
    {"_torchdynamo_wrapper_id", readWrapperId, nullptr, nullptr, nullptr},
    {"__class__", readClass, nullptr, nullptr, nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {}};

PyMethodDef methods[] = {
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {"__copy__", copy, METH_NOARGS, nullptr},
    {"__deepcopy__", deepcopy, METH_O, nullptr},
    {"_stator_reset", resetFromPython, METH_NOARGS, nullptr},
    {"aot_compile", compileAhead, METH_O,
     "aot_compile((args, kwargs)): captured and compiled for these, without "
     "being run; what comes out captures nothing more."},
    {"get_compiler_config", compilerConfig, METH_NOARGS,
     "The configuration that the backend compiles with: a dict of inductor's settings, None for "
     "other backends."},
    {}};

PyMethodDef module_functions[] = {
    {"set_force_eager", setForceEager, METH_O,
     "set_force_eager(bool): whether compiled functions run natively; returns what held before"},
    {"force_cache", forceCache, METH_O,
     "force_cache(callable or None): which cache serves in place of a compiled function's own"},
    {"in_compiled_region", inCompiledRegion, METH_NOARGS,
     "Whether a compiled function is under way on this thread."},
    {"calls_begun", callsBegun, METH_NOARGS, "How often compiled functions were called so far."},
    {}};

}  // namespace

PyTypeObject CompiledFunctionType = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "stator._core.CompiledFunction",
    .tp_basicsize = sizeof(CompiledFunction),
    .tp_dealloc = dealloc,
    .tp_vectorcall_offset = offsetof(CompiledFunction, vectorcall),
    .tp_repr = represent,
    .tp_call = PyVectorcall_Call,
    .tp_getattro = readAttribute,
    .tp_setattro = PyObject_GenericSetAttr,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_weaklistoffset = offsetof(CompiledFunction, weakrefs),
    .tp_methods = methods,
    .tp_members = members,
    .tp_getset = accessors,
    .tp_descr_get = bind,
    .tp_dictoffset = offsetof(CompiledFunction, dict),
    .tp_new = create,
};

bool forceEager() { return force_eager; }

bool addCompiledFunction(PyObject* module) {
  return PyType_Ready(&CompiledFunctionType) == 0 &&
         PyModule_AddObjectRef(module, "CompiledFunction",
                               reinterpret_cast<PyObject*>(&CompiledFunctionType)) == 0 &&
         PyModule_AddFunctions(module, module_functions) == 0;
}

}  // namespace stator::runtime
