#include "runtime/cache.h"

#include "runtime/capture_turn.h"
#include "runtime/compiled_function.h"
#include "runtime/driver_policy.h"
#include "runtime/hook.h"
#include "runtime/settings.h"

#include <map>

namespace stator::runtime {

int Entry::traverse(visitproc visit, void* arg) const {
  Py_VISIT(compiled.get());
  if (int stop = plan.traverse(visit, arg)) return stop;
  for (const auto* more : {&same_modules, &unguarded}) {
    if (*more == nullptr) continue;
    if (int stop = (*more)->traverse(visit, arg)) return stop;
  }
  return guards ? guards->traverse(visit, arg) : 0;
}

Cache::Cache(PyObject* given) : settings(newRef(given)) {
  backend = stealRef(PyObject_GetAttrString(given, "backend"));
  Ref<> full = stealRef(PyObject_GetAttrString(given, "fullgraph"));
  Ref<> limit = stealRef(PyObject_GetAttrString(given, "recompile_limit"));
  fullgraph = full && PyObject_IsTrue(full.get()) == 1;
  Ref<> sizes = stealRef(PyObject_GetAttrString(given, "dynamic"));
  if (!sizes) PyErr_Clear();
  if (sizes && PyBool_Check(sizes.get())) dynamic = sizes.get() == Py_True;
  auto asks = [&](const char* name) {
    Ref<> function = stealRef(PyObject_GetAttrString(given, name));
    if (!function) PyErr_Clear();
    return function && function.get() != Py_None;
  };
  asks_about_guards = asks("guard_filter_fn") || asks("guard_export_fn");
  tells_of_failures = asks("guard_fail_fn");
  if (limit && limit.get() != Py_None) recompile_limit = PyLong_AsLongLong(limit.get());
}

CodeEntries& Cache::entriesOf(PyCodeObject* code) {
  auto& entries = codes[code];
  if (!entries) {
    entries = std::make_unique<CodeEntries>();
    entries->code = newRef(reinterpret_cast<PyObject*>(code));
    entries->root = hookState().root;
  }
  return *entries;
}

Site& Cache::site(PyCodeObject* code, int offset) { return entriesOf(code).sites[offset]; }

void Cache::addRoot(const void* code) { roots[code]++; }

void Cache::removeRoot(const void* code) {
  auto found = roots.find(code);
  if (found == roots.end() || --found->second > 0) return;
  roots.erase(found);
  drop([&](const PyCodeObject* of, const CodeEntries& entries) {
    return entries.root == code && roots.count(of) == 0;
  });
}

void Cache::reset(const void* root) {
  drop([&](const PyCodeObject* of, const CodeEntries& entries) {
    return entries.root == root || of == root;
  });
}

template <class Wanted>
void Cache::drop(Wanted&& wanted) {
  // freed at the end: what they own may run code that comes back here
  std::vector<std::unique_ptr<CodeEntries>> dead;
  generation++;
  for (auto it = codes.begin(); it != codes.end();) {
    if (wanted(it->first, *it->second)) {
      dead.push_back(std::move(it->second));
      it = codes.erase(it);
    } else {
      ++it;
    }
  }
}

void Cache::reset() {
  generation++;
  auto old = std::move(codes);
  codes.clear();
}

int Cache::traverse(visitproc visit, void* arg) const {
  Py_VISIT(settings.get());
  Py_VISIT(backend.get());
  for (const auto& [code, entries] : codes) {
    Py_VISIT(entries->code.get());
    for (const auto& [offset, site] : entries->sites) {
      for (const auto& entry : site.entries) {
        if (int stop = entry->traverse(visit, arg)) return stop;
      }
    }
  }
  return 0;
}

namespace {

struct CacheObject {
  PyObject_HEAD
  Cache* cache;
  PyObject* weakrefs;
};

PyTypeObject CacheType = {PyVarObject_HEAD_INIT(nullptr, 0)};

CacheObject* selfOf(PyObject* object) { return reinterpret_cast<CacheObject*>(object); }

PyObject* create(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* settings = nullptr;
  if (!PyArg_ParseTuple(args, "O:Cache", &settings)) return nullptr;
  Ref<> object = stealRef(type->tp_alloc(type, 0));
  if (!object) return nullptr;
  selfOf(object.get())->cache = new Cache(settings);
  if (PyErr_Occurred()) return nullptr;
  return object.release();
}

int traverseCache(PyObject* object, visitproc visit, void* arg) {
  return selfOf(object)->cache ? selfOf(object)->cache->traverse(visit, arg) : 0;
}

int clearCache(PyObject* object) {
  if (Cache* cache = selfOf(object)->cache) {
    cache->reset();
    cache->settings.reset();
    cache->backend.reset();
  }
  return 0;
}

void dealloc(PyObject* object) {
  PyObject_GC_UnTrack(object);
  if (selfOf(object)->weakrefs != nullptr) PyObject_ClearWeakRefs(object);
  delete selfOf(object)->cache;
  Py_TYPE(object)->tp_free(object);
}

PyObject* resetMethod(PyObject* object, PyObject*) {
  CaptureTurn turn;  // a trace under way holds on to its place in the cache
  selfOf(object)->cache->reset();
  Py_RETURN_NONE;
}

PyObject* getSettings(PyObject* object, void*) {
  return Py_NewRef(selfOf(object)->cache->settings.get());
}

PyMethodDef methods[] = {{"reset", resetMethod, METH_NOARGS, "Drops all entries."},
                         {nullptr, nullptr, 0, nullptr}};
PyGetSetDef getters[] = {
    {"settings", getSettings, nullptr, "The compile call's settings.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyObject* setConfigFromPython(PyObject*, PyObject* args) {
  const char* name = nullptr;
  PyObject* value = nullptr;
  if (!PyArg_ParseTuple(args, "sO:set_config", &name, &value)) return nullptr;
  if (!setConfig(name, value)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* statsFromPython(PyObject*, PyObject*) {
  const Statistics& s = statistics();
  Ref<> dict = stealRef(PyDict_New());
  auto put = [&](const char* name, int64_t value) {
    Ref<> number = stealRef(PyLong_FromLongLong(value));
    PyDict_SetItemString(dict.get(), name, number.get());
  };
  put("captures", s.captures);
  put("restarts", s.restarts);
  put("graphs", s.graphs);
  put("disk_hits", s.disk_hits);
  put("disk_misses", s.disk_misses);
  put("ops", s.ops);
  put("breaks", s.breaks);
  put("entries", s.entries);
  put("hits", s.hits);
  put("direct_calls", s.direct_calls);
  put("misses", s.misses);
  put("graph_calls", s.graph_calls);
  put("backend_compilations", s.backend_compilations);
  put("regions", s.regions);
  put("region_calls", s.region_calls);
  put("ops_run", s.ops_run);
  put("internal_errors", s.internal_errors);
  put("fallbacks", s.fallbacks);
  Ref<> seconds = stealRef(PyFloat_FromDouble(s.capture_seconds));
  PyDict_SetItemString(dict.get(), "capture_seconds", seconds.get());
  Ref<> backend = stealRef(PyFloat_FromDouble(s.backend_seconds));
  PyDict_SetItemString(dict.get(), "backend_seconds", backend.get());
  return dict.release();
}

PyObject* resetStatsFromPython(PyObject*, PyObject*) {
  statistics() = Statistics();
  Py_RETURN_NONE;
}

}  // namespace

PyMethodDef cache_methods[] = {
    {"set_config", setConfigFromPython, METH_VARARGS, "Takes a configuration value."},
    {"stats", statsFromPython, METH_NOARGS, "Counters since the last reset."},
    {"reset_stats", resetStatsFromPython, METH_NOARGS, "Sets all counters to zero."},
    {nullptr, nullptr, 0, nullptr}};

Cache* cacheOf(PyObject* object) {
  if (object == Py_None) return nullptr;
  if (Py_TYPE(object) != &CacheType) {
    PyErr_Format(PyExc_TypeError, "a stator._core.Cache is expected, not %.200s",
                 Py_TYPE(object)->tp_name);
    return nullptr;
  }
  return selfOf(object)->cache;
}

bool addCache(PyObject* module) {
  CacheType.tp_name = "stator._core.Cache";
  CacheType.tp_basicsize = sizeof(CacheObject);
  CacheType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
  CacheType.tp_new = create;
  CacheType.tp_dealloc = dealloc;
  CacheType.tp_traverse = traverseCache;
  CacheType.tp_clear = clearCache;
  CacheType.tp_methods = methods;
  CacheType.tp_getset = getters;
  CacheType.tp_weaklistoffset = offsetof(CacheObject, weakrefs);
  CacheType.tp_doc = "Captured entries of one set of compile settings.";
  if (PyType_Ready(&CacheType) != 0) return false;
  return PyModule_AddObjectRef(module, "Cache", reinterpret_cast<PyObject*>(&CacheType)) == 0;
}

}  // namespace stator::runtime
