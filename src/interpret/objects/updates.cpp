#include "interpret/objects/updates.h"

#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/items.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/keys.h"
#include "interpret/objects/lookups.h"
#include "interpret/objects/next.h"
#include "interpret/objects/special_methods.h"
#include "values/dicts.h"

namespace stator::interpret {

bool iteratesAsDict(Tracer& tracer, PyObject* value) {
  return !graph::isStandIn(value) && !isTraceIterator(value) && PyDict_Check(value) &&
         (PyDict_CheckExact(value) || !isUserOverride(tracer, value, "__iter__"));
}

namespace {

// All keys are there before the first value is asked for.
Flow updateFromMapping(Tracer& tracer, PyObject* dict, PyObject* mapping, PyObject* keys_method) {
  STATOR_VALUE(given, tracer.above.callNested(keys_method, {}));
  Out iterator = iterate(tracer, given.get());
  if (iterator.flow() == Flow::kRaise && tracer.errors.raisedIs(PyExc_TypeError)) {
    return tracer.raiseNew(PyExc_TypeError, "%.200s.keys() returned a non-iterable (type %.200s)",
                           typeOf(tracer, mapping)->tp_name, typeOf(tracer, given.get())->tp_name);
  }
  if (!iterator.ok()) return iterator.flow();
  STATOR_VALUE(keys, listOf(tracer, iterator.take().get()));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.get()); ++i) {
    PyObject* key = PyList_GET_ITEM(keys.get(), i);
    STATOR_VALUE(item, tracer.above.runEntered(getItem(tracer, mapping, key)));
    STATOR_FLOW(setItemBase(tracer, dict, key, item.get()));
  }
  return Flow::kOk;
}

}  // namespace

Flow dictUpdate(Tracer& tracer, PyObject* dict, const Args& args, bool mapping) {
  if (args.positional > 1)
    return tracer.breakWith(Reason::kRaises, "update() gets arguments that do not fit");
  if (args.positional == 1) {
    PyObject* other = args.values[0];
    if (iteratesAsDict(tracer, other)) {
      STATOR_VALUE(items, contents(tracer, other));
      if (tracer.own_keys.any() && !PyODict_Check(dict) && hasOwnKeys(tracer, items.get())) {
        // Under the hashes that the other one has them.
        STATOR_VALUE(target, contentsForWrite(tracer, dict));
        STATOR_FLOW(withOwnKeys(tracer, target.get(), [&](PyObject* into) {
                      return values::dictFill(into, items.get()) ? Py_NewRef(Py_None) : nullptr;
                    }).flow());
        items.reset();
      }
      Ref<> pairs = items ? values::dictItems(items.get()) : stealRef(PyList_New(0));
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(pairs.get()); ++i) {
        PyObject* pair = PyList_GET_ITEM(pairs.get(), i);
        STATOR_FLOW(
            setItemBase(tracer, dict, PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1)));
      }
    } else {
      Ref<> keys_name = stealRef(PyUnicode_InternFromString("keys"));
      Ref<> keys;
      if (!graph::isStandIn(other) && !isTraceIterator(other)) {
        STATOR_VALUE(found, tracer.above.runEntered(getAttrOrNull(tracer, other, keys_name.get())));
        keys = found;
      }
      if (keys) {
        STATOR_FLOW(updateFromMapping(tracer, dict, other, keys.get()));
      } else if (mapping) {
        return tracer.breakWith(Reason::kRaises, "** of something that is no mapping");
      } else {
        Ref<> keep = newRef(other);
        STATOR_VALUE(iterator, iterate(tracer, other));
        for (Py_ssize_t i = 0;; ++i) {
          STATOR_VALUE(element, next(tracer, iterator.get()));
          if (!element) break;
          Out items = listOf(tracer, element.get());
          if (items.flow() == Flow::kRaise && tracer.errors.raisedIs(PyExc_TypeError)) {
            return tracer.raiseNew(
                PyExc_TypeError,
                "cannot convert dictionary update sequence element #%zd to a sequence", i);
          }
          if (!items.ok()) return items.flow();
          Ref<> pair = items.take();
          if (PyList_GET_SIZE(pair.get()) != 2) {
            return tracer.raiseNew(
                PyExc_ValueError,
                "dictionary update sequence element #%zd has length %zd; 2 is required", i,
                PyList_GET_SIZE(pair.get()));
          }
          STATOR_FLOW(setItemBase(tracer, dict, PyList_GET_ITEM(pair.get(), 0),
                                  PyList_GET_ITEM(pair.get(), 1)));
        }
      }
    }
  }
  for (size_t i = 0; i < args.keywordCount(); ++i)
    STATOR_FLOW(setItemBase(tracer, dict, args.name(i), args.values[args.positional + i]));
  return Flow::kOk;
}

// dict.__setitem__ itself, whatever a subclass put over it.
Flow setItemBase(Tracer& tracer, PyObject* dict, PyObject* key, PyObject* value) {
  if (PyDict_CheckExact(dict) || !isProgrammed(tracer, Py_TYPE(dict), "__setitem__"))
    return setItem(tracer, dict, key, value);
  STATOR_FLOW(requireHashable(tracer, key));
  STATOR_VALUE(items, contentsForWrite(tracer, dict));
  return withOwnKeys(tracer, items.get(),
                     [&](PyObject* into) {
                       return values::dictSet(into, key, value) ? Py_NewRef(Py_None) : nullptr;
                     })
      .flow();
}

Flow delItemBase(Tracer& tracer, PyObject* dict, PyObject* key) {
  if (PyDict_CheckExact(dict) || !isProgrammed(tracer, Py_TYPE(dict), "__delitem__"))
    return delItem(tracer, dict, key);
  STATOR_FLOW(requireHashable(tracer, key));
  STATOR_VALUE(items, contentsForWrite(tracer, dict));
  return withOwnKeys(tracer, items.get(),
                     [&](PyObject* from) {
                       return values::dictDelete(from, key) ? Py_NewRef(Py_None) : nullptr;
                     })
      .flow();
}

Flow missingKey(Tracer& tracer, PyObject* key) {
  Ref<> arguments = stealRef(PyTuple_Pack(1, key));
  if (arguments) PyErr_SetObject(PyExc_KeyError, arguments.get());
  return tracer.raiseCurrentError();
}

Out missingItem(Tracer& tracer, PyObject* dict, PyObject* key) {
  // A method of the program's stands before a defaultdict's own, which calls the factory.
  if (!PyDict_CheckExact(dict) && isProgrammed(tracer, Py_TYPE(dict), "__missing__")) {
    STATOR_VALUE(bound, slotMethod(tracer, dict, "__missing__"));
    Args args;
    args.values = {key};
    args.positional = 1;
    tracer.world.keep(bound);
    return tracer.above.call(bound.get(), args);
  }
  if (PyObject_TypeCheck(dict, defaultDictType())) {
    static PyObject* const factory_name = PyUnicode_InternFromString("default_factory");
    Ref<> factory = stealRef(PyObject_GetAttr(dict, factory_name));
    if (factory && factory.get() != Py_None) {
      if (const Source* source = tracer.sourceOf(dict)) {
        STATOR_VALUE(
            read, fromOutside(tracer, factory.get(),
                              tracer.world.child(SourceKind::kGenericAttr, source, factory_name)));
      }
      STATOR_VALUE(value, tracer.above.callNested(factory.get(), {}));
      STATOR_FLOW(tracer.above.runEntered(setItem(tracer, dict, key, value.get())).flow());
      return value;
    }
  }
  return missingKey(tracer, key);
}

}  // namespace stator::interpret
