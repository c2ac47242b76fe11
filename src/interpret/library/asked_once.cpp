// Facts about code and installation: signatures, versions, where modules are.
#include "base/stack_room.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/library/rows.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/native_calls.h"
#include "interpret/objects/scalars.h"
#include "sources/short_lived.h"

namespace stator::interpret {

namespace {

// Facts about code and installation that a program asks for again and again: asked once, at capture, of the real thing.
// The result is an object that existed, in effect, before the trace.
Out askOnce(Tracer& t, const Args& args, const char* path) {
  for (PyObject* value : args.values) {
    if (graph::isStandIn(value) || isTraceIterator(value))
      return t.breakWith(Reason::kUnsupportedObject, path);
    if (!PyCallable_Check(value) && !isNativeSafe(t, value))
      return t.breakWith(Reason::kUnsupportedObject, path);
  }
  Ref<> result = stealRef(
      PyObject_Vectorcall(torchObject(path), args.values.data(), args.positional, args.names));
  if (!result) return t.raiseCurrentError();
  if (values::isScalar(result.get())) return result;
  return fromOutside(t, result.get(), t.world.sources().pinned(result.get()));
}

// What the trace has made of a callable, or written to it, the real thing does not show, or shows half made.
bool isAsOutside(Tracer& t, PyObject* callable) {
  if (PyMethod_Check(callable)) callable = PyMethod_GET_FUNCTION(callable);
  values::Info* info = t.values.find(callable);
  if (info == nullptr || PyType_Check(callable)) return !isMadeClass(t, callable);
  if (info->origin == values::Origin::kOutside)
    return !info->dirty && !values::attributePart(info)->overlay;
  if (!PyFunction_Check(callable)) return false;
  auto* function = reinterpret_cast<PyFunctionObject*>(callable);
  for (PyObject* part : {function->func_defaults, function->func_kwdefaults}) {
    if (part != nullptr && !isNativeSafe(t, part)) return false;
  }
  return function->func_dict == nullptr || PyDict_GET_SIZE(function->func_dict) == 0;
}

// What is asked about has to be the same at the next call. Functions that stay can be guarded; partials and other
// objects from outside may hold anything then.
bool staysTheSame(Tracer& t, PyObject* callable) {
  if (PyMethod_Check(callable) && t.isMade(callable)) callable = PyMethod_GET_FUNCTION(callable);
  values::Info* info = t.values.find(callable);
  if (info == nullptr || info->origin != values::Origin::kOutside || guardedByIdentity(callable))
    return true;
  if (!PyFunction_Check(callable)) return false;
  // Another one may come with the next call, of the same code, which is guarded: what it was made with may be
  // another's.
  const auto* function = reinterpret_cast<PyFunctionObject*>(callable);
  if (sources::isShortLived(callable) && function->func_defaults == nullptr &&
      function->func_kwdefaults == nullptr && function->func_annotations == nullptr &&
      function->func_dict == nullptr)
    return true;
  t.world.guard(Guard{GuardKind::kIs, info->source, nullptr, newRef(callable)});
  return true;
}

// What inspect looks at in a function may be set at any time: it is guarded by being read. True: read.
Out readParts(Tracer& t, PyObject* callable, int depth) {
  needStack();
  if (PyMethod_Check(callable)) callable = PyMethod_GET_FUNCTION(callable);
  values::Info* info = t.values.find(callable);
  if (!PyFunction_Check(callable) || info == nullptr || info->origin != values::Origin::kOutside)
    return newRef(Py_True);
  static PyObject* const overrides[] = {PyUnicode_InternFromString("__signature__"),
                                        PyUnicode_InternFromString("__text_signature__"),
                                        PyUnicode_InternFromString("_partialmethod"),
                                        PyUnicode_InternFromString("__partialmethod__")};
  static PyObject* const wrapped = PyUnicode_InternFromString("__wrapped__");
  static PyObject* const parts[] = {PyUnicode_InternFromString("__defaults__"),
                                    PyUnicode_InternFromString("__kwdefaults__"),
                                    PyUnicode_InternFromString("__annotations__")};
  for (PyObject* name : overrides) {
    STATOR_VALUE(own, getAttrOrNull(t, callable, name));
    if (own) return newRef(Py_False);
  }
  for (PyObject* name : parts) {
    STATOR_VALUE(part, getAttrOrNull(t, callable, name));
    if (part && PyDict_CheckExact(part.get())) {
      STATOR_VALUE(listed, contents(t, part.get()));
    }
  }
  STATOR_VALUE(inner, getAttrOrNull(t, callable, wrapped));
  if (!inner) return newRef(Py_True);
  if (!PyFunction_Check(inner.get()) || depth > 20) return newRef(Py_False);
  return readParts(t, inner.get(), depth + 1);
}

Out signature(Tracer& t, const Args& args) {
  if (args.positional > 0 && !graph::isStandIn(args.values[0]) &&
      !isTraceIterator(args.values[0])) {
    if (!isAsOutside(t, args.values[0]) || !staysTheSame(t, args.values[0]))
      return t.breakWith(Reason::kUnsupportedObject, "inspect.signature");
    STATOR_VALUE(read, readParts(t, args.values[0], 0));
    if (read.get() != Py_True) return t.breakWith(Reason::kUnsupportedObject, "inspect.signature");
  }
  return askOnce(t, args, "inspect.signature");
}
Out installedVersion(Tracer& t, const Args& args) {
  return askOnce(t, args, "importlib.metadata.version");
}
// Where modules are looked for has to be as it was, and as it is.
Out findSpec(Tracer& t, const Args& args) {
  values::Info* system = t.values.find(torchObject("sys"));
  if (system != nullptr && (system->dirty || system->overlay))
    return t.breakWith(Reason::kCallsOutside, "find_spec, of places that have changed");
  for (const char* name : {"path", "meta_path", "path_hooks", "modules", "path_importer_cache"}) {
    PyObject* place = PySys_GetObject(name);
    values::Info* info = place != nullptr ? t.values.find(place) : nullptr;
    if (info != nullptr && (info->dirty || info->overlay || info->appended))
      return t.breakWith(Reason::kCallsOutside, "find_spec, of places that have changed");
  }
  if (PyObject* path = PySys_GetObject("path"); path != nullptr && PyList_CheckExact(path)) {
    STATOR_VALUE(places, fromOutside(t, path, t.world.sources().pinned(path)));
    STATOR_VALUE(listed, contents(t, places.get()));
  }
  return askOnce(t, args, "importlib.util.find_spec");
}

}  // namespace

void registerAskedOnce() {
  registerHandler("inspect.signature", signature);
  registerHandler("importlib.util.find_spec", findSpec);
  registerHandler("importlib.metadata.version", installedVersion);
}

}  // namespace stator::interpret
