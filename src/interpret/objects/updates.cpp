#include "interpret/objects/updates.h"

#include "interpret/core/trace_iterator.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/items.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/keys.h"
#include "values/dicts.h"

namespace stator::interpret {

Flow dictUpdate(Tracer& tracer, PyObject* dict, const Args& args) {
  if (args.positional > 1)
    return tracer.breakWith(Reason::kRaises, "update() gets arguments that do not fit");
  if (args.positional == 1) {
    PyObject* other = args.values[0];
    // CPython goes past keys() only where the class iterates as a dict does.
    if (!graph::isStandIn(other) && !isTraceIterator(other) && PyDict_Check(other) &&
        (PyDict_CheckExact(other) || !isUserOverride(tracer, other, "__iter__"))) {
      STATOR_VALUE(items, contents(tracer, other));
      if (tracer.own_keys.any() && !PyODict_Check(dict) && hasOwnKeys(tracer, items.get())) {
        // Under the hashes that the other one has them.
        STATOR_VALUE(target, contentsForWrite(tracer, dict));
        STATOR_FLOW(keyed(tracer, target.get(), [&](PyObject* into) {
                      return PyDict_Update(into, items.get()) == 0 ? Py_NewRef(Py_None) : nullptr;
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
        STATOR_VALUE(found, tracer.above.settle(getAttrOrNull(tracer, other, keys_name.get())));
        keys = found;
      }
      if (keys) {
        STATOR_VALUE(names, tracer.above.callNested(keys.get(), {}));
        STATOR_VALUE(list, listOf(tracer, names.get()));
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
          STATOR_VALUE(item,
                       tracer.above.settle(getItem(tracer, other, PyList_GET_ITEM(list.get(), i))));
          STATOR_FLOW(setItemBase(tracer, dict, PyList_GET_ITEM(list.get(), i), item.get()));
        }
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
  if (PyDict_CheckExact(dict) || !isUserOverride(tracer, dict, "__setitem__"))
    return setItem(tracer, dict, key, value);
  STATOR_FLOW(requireHashable(tracer, key));
  STATOR_VALUE(items, contentsForWrite(tracer, dict));
  return keyed(tracer, items.get(),
               [&](PyObject* into) {
                 return values::dictSet(into, key, value) ? Py_NewRef(Py_None) : nullptr;
               })
      .flow();
}

}  // namespace stator::interpret
