#include "runtime/ahead.h"

#include "base/boundary.h"
#include "base/error_aside.h"
#include "runtime/active.h"
#include "runtime/cache.h"
#include "runtime/compiled_function.h"
#include "runtime/hook.h"

#include <utility>

namespace stator::runtime {

namespace {

// Carries the answer through the frame of the program, which cannot mean to catch it.
PyObject* answer_class = nullptr;

CompiledFunction* compiledWithCache(PyObject* object) {
  if (isCompiledFunction(object)) {
    auto* compiled = reinterpret_cast<CompiledFunction*>(object);
    if (compiled->native_cache != nullptr) return compiled;
  }
  PyErr_Format(PyExc_TypeError, "a compiled function is expected, not %.200s",
               Py_TYPE(object)->tp_name);
  return nullptr;
}

// A call for the answer alone. None: the function came to its end, since nothing of it was looked up.
PyObject* aheadFromPython(PyObject*, PyObject* given) {
  PyObject *object = nullptr, *args = nullptr, *kwargs = nullptr;
  int captures = 0;
  if (!PyArg_ParseTuple(given, "OpO!O!:ahead", &object, &captures, &PyTuple_Type, &args,
                        &PyDict_Type, &kwargs))
    return nullptr;
  CompiledFunction* self = compiledWithCache(object);
  if (self == nullptr) return nullptr;
  Cache& cache = *self->native_cache;
  HookState& state = hookState();
  Ref<> result;
  {
    ActiveScope scope(&cache);
    const void* outer = std::exchange(state.root, self->root);
    state.entering = self->root;
    const Ahead before = std::exchange(cache.ahead, captures != 0 ? Ahead::kCapture : Ahead::kAsk);
    result = stealRef(PyObject_Call(self->function, args, kwargs));
    cache.ahead = before;
    state.entering = nullptr;
    state.root = outer;
  }
  if (result) Py_RETURN_NONE;
  if (!PyErr_ExceptionMatches(answer_class)) return nullptr;
  Ref<> error = takeError();
  Ref<> said = stealRef(PyObject_GetAttrString(error.get(), "args"));
  if (!said) return nullptr;
  return newRef(PyTuple_GET_ITEM(said.get(), 0)).release();
}

PyObject* closeFromPython(PyObject*, PyObject* object) {
  CompiledFunction* self = compiledWithCache(object);
  if (self == nullptr) return nullptr;
  self->native_cache->closed = true;
  Py_RETURN_NONE;
}

PyObject* dropGuardsFromPython(PyObject*, PyObject* object) {
  CompiledFunction* self = compiledWithCache(object);
  if (self == nullptr) return nullptr;
  for (auto& [code, entries] : self->native_cache->codes) {
    for (auto& [offset, site] : entries->sites) {
      for (const std::shared_ptr<Entry>& entry : site.entries) {
        if (!entry->unguarded) continue;
        entry->guards = std::move(entry->unguarded);
        entry->same_modules = nullptr;
      }
    }
  }
  Py_RETURN_NONE;
}

PyMethodDef ahead_doors[] = {
    {"ahead", aheadFromPython, METH_VARARGS,
     "ahead(compiled, captures, args, kwargs): whether an entry serves this call, which is not "
     "made; one is captured if asked."},
    {"close_cache", closeFromPython, METH_O,
     "Nothing more is captured for this compiled function."},
    {"drop_guards", dropGuardsFromPython, METH_O,
     "What was captured ahead for this compiled function serves whatever it is called with."},
    {}};

}  // namespace

void answerAhead(bool serves) {
  PyErr_SetObject(answer_class, serves ? Py_True : Py_False);
  throw PythonError();
}

bool addAhead(PyObject* module) {
  answer_class = PyErr_NewException("stator._core.Ahead", PyExc_BaseException, nullptr);
  return answer_class != nullptr && PyModule_AddFunctions(module, ahead_doors) == 0;
}

}  // namespace stator::runtime
