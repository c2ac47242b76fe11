#include "interpret/objects/native_calls.h"

#include "graph/stand_in.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/symbols.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/decimals.h"
#include "interpret/objects/texts.h"

namespace stator::interpret {

namespace {

// Methods of str, and functions that give a text.
bool showsArguments(PyObject* callable) {
  if (PyObject_TypeCheck(callable, &PyMethodDescr_Type) ||
      PyObject_TypeCheck(callable, &PyWrapperDescr_Type))
    return PyDescr_TYPE(callable) == &PyUnicode_Type;
  for (const char* name : {"repr", "ascii", "format"}) {
    if (callable == builtinFunction(name)) return true;
  }
  return callable == reinterpret_cast<PyObject*>(&PyUnicode_Type);
}

}  // namespace

Out callNative(Tracer& tracer, PyObject* callable, const Args& args) {
  std::vector<Ref<>> keep;
  std::vector<PyObject*> values;
  for (PyObject* value : args.values) {
    STATOR_VALUE(replaced, plain(tracer, value));
    if (!isNativeSafe(tracer, replaced.get()) &&
        !(tracer.sizes.any() && makeConcrete(tracer, replaced.get()) &&
          isNativeSafe(tracer, replaced.get()))) {
      if (hasStandIn(tracer, value) || graph::isStandIn(value))
        return tracer.breakWith(Reason::kDataDependentRead, nameOf(callable) + "() of a tensor");
      return tracer.breakWith(Reason::kUnsupportedObject,
                              nameOf(callable) + "() of a " + Py_TYPE(value)->tp_name);
    }
    if (losesClass(tracer, value, replaced.get()) && showsArguments(callable))
      return tracer.breakWith(Reason::kUnsupportedObject,
                              nameOf(callable) + "() of a " + Py_TYPE(value)->tp_name);
    values.push_back(replaced.get());
    keep.push_back(std::move(replaced));
  }
  graph::takeLeakFlag();
  DecimalFold decimals(tracer, callable, args);
  Ref<> result =
      stealRef(PyObject_Vectorcall(callable, values.data(), args.positional, args.names));
  STATOR_FLOW(decimals.finish());
  if (graph::takeLeakFlag()) {
    PyErr_Clear();
    return tracer.breakWith(Reason::kLeaked, nameOf(callable));
  }
  if (result && !values::isConstantDeep(result.get()) && !PyType_Check(result.get()) &&
      !PyFunction_Check(result.get()) && !PyModule_Check(result.get()) &&
      !PyCFunction_Check(result.get()) && !isEnumMember(result.get())) {
    tracer.made(result);
  }
  return tracer.fromNative(std::move(result));
}

Out fromNativeMade(Tracer& tracer, Ref<> object) {
  if (!object) return tracer.raiseCurrentError();
  return tracer.made(std::move(object));
}

}  // namespace stator::interpret
