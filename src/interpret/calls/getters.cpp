#include "interpret/calls/getters.h"

#include "interpret/calls/calls.h"
#include "interpret/core/known.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/items.h"

namespace stator::interpret {

namespace {

Out dottedAttribute(Tracer& t, PyObject* object, PyObject* path) {
  Ref<> dot = stealRef(PyUnicode_FromString("."));
  Ref<> names = stealRef(PyUnicode_Split(path, dot.get(), -1));
  Ref<> value = newRef(object);
  for (Py_ssize_t i = 0; names && i < PyList_GET_SIZE(names.get()); ++i) {
    STATOR_VALUE(next, runEntered(t, getAttr(t, value.get(), PyList_GET_ITEM(names.get(), i))));
    value = next;
  }
  return value;
}

}  // namespace

Out callGetter(Tracer& tracer, PyObject* getter, const Args& args) {
  if (args.values.size() != 1 || args.keywordCount() != 0)
    return tracer.breakWith(Reason::kRaises, "a getter with wrong arguments");
  PyTypeObject* type = Py_TYPE(getter);
  if (const sources::Source* source = tracer.sourceOf(getter))
    tracer.world.guard(Guard{GuardKind::kIs, source, nullptr, newRef(getter)});
  Ref<> reduced = stealRef(PyObject_CallMethod(getter, "__reduce__", nullptr));
  if (!reduced) return tracer.raiseCurrentError();
  PyObject* parts = PyTuple_GET_ITEM(reduced.get(), 1);
  Ref<> keywords;
  if (Py_TYPE(PyTuple_GET_ITEM(reduced.get(), 0)) == partialType()) {
    // methodcaller("name", *args, **kwargs) reduces to partial(methodcaller, "name", **kwargs) and args.
    Ref<> bound = stealRef(PyObject_GetAttrString(PyTuple_GET_ITEM(reduced.get(), 0), "args"));
    keywords = stealRef(PyObject_GetAttrString(PyTuple_GET_ITEM(reduced.get(), 0), "keywords"));
    Ref<> joined = bound ? stealRef(PySequence_Concat(bound.get(), parts)) : Ref<>();
    if (!joined || !keywords) return tracer.raiseCurrentError();
    tracer.world.keepAll({joined, keywords});
    parts = joined.get();
    if (!tracer.isMade(getter) && !isNativeSafe(tracer, keywords.get()))
      return tracer.breakWith(Reason::kCallsOutside, type->tp_name);
  } else if (PyTuple_GET_ITEM(reduced.get(), 0) != reinterpret_cast<PyObject*>(type)) {
    return tracer.breakWith(Reason::kCallsOutside, type->tp_name);
  }
  PyObject* object = args.values[0];
  if (!tracer.isMade(getter) && !isNativeSafe(tracer, parts))
    return tracer.breakWith(Reason::kCallsOutside, type->tp_name);
  Py_ssize_t n = PyTuple_GET_SIZE(parts);
  if (type == methodCallerType()) {
    STATOR_VALUE(method, runEntered(tracer, getAttr(tracer, object, PyTuple_GET_ITEM(parts, 0))));
    Args rest;
    for (Py_ssize_t i = 1; i < n; ++i) rest.values.push_back(PyTuple_GET_ITEM(parts, i));
    rest.positional = rest.values.size();
    if (keywords && PyDict_Size(keywords.get()) > 0) {
      Ref<> list = stealRef(PyDict_Keys(keywords.get()));
      Ref<> names = stealRef(PyList_AsTuple(list.get()));
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i)
        rest.values.push_back(PyDict_GetItem(keywords.get(), PyTuple_GET_ITEM(names.get(), i)));
      rest.names = names.get();
      tracer.world.keep(names);
    }
    tracer.world.keepAll({method, reduced});
    return call(tracer, method.get(), rest);
  }
  Ref<> tuple = stealRef(PyTuple_New(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* part = PyTuple_GET_ITEM(parts, i);
    STATOR_VALUE(value, type == itemGetterType() ? runEntered(tracer, getItem(tracer, object, part))
                                                 : dottedAttribute(tracer, object, part));
    if (n == 1) return value;
    PyTuple_SET_ITEM(tuple.get(), i, value.release());
  }
  return tuple;
}

}  // namespace stator::interpret
