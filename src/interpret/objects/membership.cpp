#include "interpret/objects/membership.h"

#include "base/stack_room.h"
#include "interpret/core/outside.h"
#include "interpret/core/sym_scalars.h"
#include "interpret/core/symbols.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/iteration_changes.h"
#include "interpret/objects/keys.h"
#include "interpret/objects/lookups.h"
#include "interpret/objects/native_containers.h"
#include "interpret/objects/next.h"
#include "interpret/objects/operators.h"
#include "interpret/objects/scalars.h"
#include "interpret/objects/special_methods.h"
#include "interpret/objects/truth.h"
#include "python/types.h"
#include "symbolic/sym_int.h"
#include "values/dicts.h"

namespace stator::interpret {

namespace {

// `item in tensor`: whether any element equals it, which the graph knows.
Out tensorContains(Tracer& tracer, PyObject* tensor, PyObject* item) {
  static PyObject* const any = PyUnicode_InternFromString("any");
  static PyObject* const read = PyUnicode_InternFromString("item");
  const bool number = symbolic::isSymbol(item) || PyLong_Check(item) || PyFloat_CheckExact(item);
  if (tracer.options.capture_scalar_outputs && (number || graph::isStandIn(item))) {
    STATOR_VALUE(equal, tracer.above.runEntered(compare(tracer, Py_EQ, tensor, item)));
    if (graph::isStandIn(equal.get())) {
      Args args;
      args.values = {equal.get()};
      args.positional = 1;
      STATOR_VALUE(found, tracer.above.tensorCall(graph::Op::kCallMethod, any, args));
      STATOR_VALUE(answer, readIntoGraph(tracer, read, found.get()));
      if (symbolic::isSymScalar(answer.get())) return answer;
    }
  }
  return tracer.breakWith(Reason::kDataDependentBranch, "`in` over the elements of a tensor");
}

// Whether one of the items is the object, or equals it.
Out findAmong(Tracer& tracer, const Ref<>& items, PyObject* item) {
  // By the C layout, whatever a subclass puts over __iter__; a list may change while its items are compared.
  const bool by_layout = PyList_Check(items.get()) || PyTuple_Check(items.get());
  Ref<> list = by_layout ? items : values::itemsOf(items.get());
  const Ref<> watch = watchDeque(items.get());
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i) {
    Ref<> keep = newRef(PySequence_Fast_GET_ITEM(list.get(), i));
    PyObject* element = keep.get();
    // Whether symbolic numbers are one object would ask for their values; equal is all that counts.
    if (!symbolic::isSymbol(element) && !symbolic::isSymbol(item)) {
      STATOR_VALUE(identical, same(tracer, element, item));
      if (identical.get() == Py_True) return identical;
    }
    STATOR_VALUE(compared, tracer.above.runEntered(compare(tracer, Py_EQ, element, item)));
    if (sawChange(watch))
      return tracer.breakWith(Reason::kUnsupportedIterator, "a deque changes while it is searched");
    if (i + 1 == PySequence_Fast_GET_SIZE(list.get()) && graph::isStandIn(compared.get()) &&
        (tracer.options.runs_as_captured || tracer.options.capture_scalar_outputs)) {
      // Nothing depends on it yet: the graph computes the answer.
      static PyObject* const read = PyUnicode_InternFromString("item");
      STATOR_VALUE(answer, readIntoGraph(tracer, read, compared.get()));
      if (symbolic::isSymScalar(answer.get()) &&
          symbolic::asSymScalar(answer.get())->of == &PyBool_Type)
        return answer;
    }
    STATOR_VALUE(equal, truth(tracer, compared.get()));
    if (equal.get() == Py_True) return equal;
  }
  return newRef(Py_False);
}

// A list, tuple, dict, set or deque.
Out containerContains(Tracer& tracer, PyObject* container, PyObject* item) {
  if (PyDict_Check(container)) {
    STATOR_VALUE(found, dictGet(tracer, container, item));
    return newRef(found ? Py_True : Py_False);
  }
  STATOR_VALUE(items, contents(tracer, container));
  if (PyAnySet_Check(container)) {
    // It stands for the frozenset of its elements.
    if (PySet_Check(item))
      return tracer.breakWith(Reason::kUnsupportedObject, "a set as an element that is looked for");
    STATOR_FLOW(requireHashable(tracer, item));
    return withOwnKeys(tracer, nullptr, [&](PyObject*) -> PyObject* {
      int found = PySet_Contains(items.get(), item);
      return found < 0 ? nullptr : PyBool_FromLong(found);
    });
  }
  if (isNativeSafe(tracer, items.get()) && isNativeSafe(tracer, item)) {
    int found = PySequence_Contains(items.get(), item);
    if (found < 0) return tracer.raiseCurrentError();
    return newRef(found != 0 ? Py_True : Py_False);
  }
  return findAmong(tracer, items, item);
}

// An object without __contains__: item by item.
Out findByIterating(Tracer& tracer, PyObject* container, PyObject* item) {
  static PyObject* method = PyUnicode_InternFromString("__contains__");
  if (_PyType_Lookup(typeOf(tracer, container), method) == Py_None)
    return tracer.raiseNew(PyExc_TypeError, "'%.200s' object is not a container",
                           typeOf(tracer, container)->tp_name);
  Out over = iterate(tracer, container);
  if (over.flow() == Flow::kRaise && tracer.errors.raisedIs(PyExc_TypeError)) {
    tracer.errors.dropRaised();
    return tracer.raiseNew(PyExc_TypeError, "argument of type '%.200s' is not iterable",
                           typeOf(tracer, container)->tp_name);
  }
  STATOR_VALUE(iterator, std::move(over));
  for (;;) {
    STATOR_VALUE(element, next(tracer, iterator.get()));
    if (!element) return newRef(Py_False);
    STATOR_VALUE(identical, same(tracer, element.get(), item));
    if (identical.get() == Py_True) return identical;
    STATOR_VALUE(compared, tracer.above.runEntered(compare(tracer, Py_EQ, element.get(), item)));
    STATOR_VALUE(equal, truth(tracer, compared.get()));
    if (equal.get() == Py_True) return equal;
  }
}

}  // namespace

Out contains(Tracer& tracer, PyObject* container, PyObject* item) {
  needStack();
  if (graph::isStandIn(container) && graph::asStandIn(container)->meta != nullptr &&
      symbolic::isSymbol(item))
    return tensorContains(tracer, container, item);
  if (symbolic::isSymbol(item) && !PyList_Check(container) && !PyTuple_Check(container)) {
    static PyObject* const own = PyUnicode_InternFromString("__contains__");
    if ((PyDict_Check(container) || PyAnySet_Check(container)) &&
        isNativeContainer(tracer, container, own)) {
      STATOR_VALUE(items, contents(tracer, container));
      if (differsFromKeys(tracer, items.get(), item)) return newRef(Py_False);
    }
    Ref<> number = concrete(tracer, item);
    return contains(tracer, container, number.get());
  }
  static PyObject* method = PyUnicode_InternFromString("__contains__");
  auto boolean = [](bool b) { return newRef(b ? Py_True : Py_False); };
  STATOR_VALUE(scalar, plainScalar(tracer, container));
  if (scalar && isTextLike(scalar.get())) return contains(tracer, scalar.get(), item);
  if (graph::isStandIn(container)) return tensorContains(tracer, container, item);
  if (isTextLike(container)) {
    guardBytes(tracer, container);
    if (!isNativeSafe(tracer, item))
      return tracer.breakWith(Reason::kUnsupportedObject, "`in` with a value that is not plain");
    int found = PySequence_Contains(container, item);
    if (found < 0) return tracer.raiseCurrentError();
    return boolean(found != 0);
  }
  if (PyDictKeys_Check(container)) {
    STATOR_VALUE(dict, viewedDict(tracer, container));
    return containerContains(tracer, dict.get(), item);
  }
  if (isNativeContainer(tracer, container, method))
    return containerContains(tracer, container, item);
  STATOR_VALUE(bound, special(tracer, container, "__contains__"));
  if (bound) {
    STATOR_VALUE(result, tracer.above.callNested(bound.get(), {item}));
    return truth(tracer, result.get());
  }
  return findByIterating(tracer, container, item);
}

}  // namespace stator::interpret
