#include "interpret/objects/native_calls.h"

#include "graph/stand_in.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/symbols.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/decimals.h"
#include "interpret/objects/texts.h"
#include "symbolic/sym_int.h"

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

// A match looks at its text again whenever it is asked: what may change meanwhile is not known now.
bool readsLater(PyObject* result, const std::vector<PyObject*>& values) {
  if (result == nullptr || Py_TYPE(result)->tp_name != std::string_view("re.Match")) return false;
  return std::any_of(values.begin(), values.end(), [](PyObject* value) {
    return !PyUnicode_Check(value) && !PyBytes_Check(value) && PyObject_CheckBuffer(value) != 0;
  });
}

// encode and decode, and the types that do the same, call a function of the program's where an error handler is not
// Python's own.
bool runsErrorHandler(PyObject* callable, const Args& args) {
  PyObject* types[] = {reinterpret_cast<PyObject*>(&PyUnicode_Type),
                       reinterpret_cast<PyObject*>(&PyBytes_Type),
                       reinterpret_cast<PyObject*>(&PyByteArray_Type)};
  const bool method = PyObject_TypeCheck(callable, &PyMethodDescr_Type);
  PyObject* home = method ? reinterpret_cast<PyObject*>(PyDescr_TYPE(callable)) : callable;
  if (std::find(std::begin(types), std::end(types), home) == std::end(types)) return false;
  if (method && PyUnicode_CompareWithASCIIString(PyDescr_NAME(callable), "encode") != 0 &&
      PyUnicode_CompareWithASCIIString(PyDescr_NAME(callable), "decode") != 0)
    return false;
  PyObject* errors = args.positional > 2 ? args.values[2] : args.keyword("errors");
  if (errors == nullptr || !PyUnicode_Check(errors)) return false;
  for (const char* own : {"strict", "ignore", "replace", "xmlcharrefreplace", "backslashreplace",
                          "namereplace", "surrogateescape", "surrogatepass"}) {
    if (PyUnicode_CompareWithASCIIString(errors, own) == 0) return false;
  }
  return true;
}

}  // namespace

Out callNative(Tracer& tracer, PyObject* callable, const Args& args) {
  if (args.values.size() > 1 && runsErrorHandler(callable, args))
    return tracer.breakWith(Reason::kCallsOutside, "an error handler of the program's own");
  std::vector<Ref<>> keep;
  std::vector<PyObject*> values;
  bool class_is_lost = false;
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
    const bool loses = losesClass(tracer, value, replaced.get());
    class_is_lost |= !symbolic::isSymbol(value) && Py_TYPE(value) != Py_TYPE(replaced.get());
    if (loses && showsArguments(callable))
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
  if (!result && class_is_lost) {
    PyErr_Clear();
    return tracer.breakWith(Reason::kRaises, nameOf(callable) + "(), whose error names a class");
  }
  if (readsLater(result.get(), values))
    return tracer.breakWith(Reason::kUnsupportedObject, "a match in what may change");
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
