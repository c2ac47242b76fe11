// Errors that CPython raises by itself: made by CPython, so that type and text are its own.
#include "interpret/calls/tables.h"
#include "interpret/known_types.h"
#include "interpret/trace_iterator.h"
#include "interpret/tracer.h"
#include "python/frame.h"

namespace stator::interpret {

namespace {

// A copy that the call may change.
Ref<> ownCopy(PyObject* value) {
  if (PyList_CheckExact(value)) return stealRef(PySequence_List(value));
  if (PyDict_CheckExact(value)) return stealRef(PyDict_Copy(value));
  if (PySet_CheckExact(value)) return stealRef(PySet_New(value));
  if (Py_TYPE(value) == dequeType()) return stealRef(PyObject_CallMethod(value, "copy", nullptr));
  if (PyByteArray_CheckExact(value)) return stealRef(PyByteArray_FromObject(value));
  return newRef(value);
}

bool onlyMovesReferences(PyObject* value) {
  return PyList_CheckExact(value) || PyDict_CheckExact(value) || PySet_CheckExact(value) ||
         Py_TYPE(value) == dequeType();
}

}  // namespace

Out Tracer::raiseNatively(PyObject* callable, const Args& args) {
  Broke why = broke;
  std::vector<Ref<>> keep;
  std::vector<PyObject*> copies;
  for (size_t i = 0; i < args.values.size(); ++i) {
    PyObject* value = args.values[i];
    if (graph::isStandIn(value) || isTraceIterator(value)) return breakWith(why.reason, why.detail);
    STATOR_VALUE(replaced, plain(value));
    // The container that a method belongs to may hold anything: wrong arguments are noticed before it is looked at.
    if (!isNativeSafe(replaced.get()) && !(i == 0 && onlyMovesReferences(replaced.get())))
      return breakWith(why.reason, why.detail);
    Ref<> copy = ownCopy(replaced.get());
    copies.push_back(copy.get());
    keep.push_back(std::move(copy));
  }
  graph::takeLeakFlag();
  Ref<> result =
      stealRef(PyObject_Vectorcall(callable, copies.data(), args.positional, args.names));
  bool leaked = graph::takeLeakFlag();
  if (!result && !leaked) return raiseCurrentError();
  PyErr_Clear();
  return breakWith(why.reason, why.detail);
}

Flow Tracer::raiseBinding(PyObject* callable, const Args& args) {
  // A function with the same parameters and an empty body, called with as many arguments: CPython finds what does not fit.
  auto* function = reinterpret_cast<PyFunctionObject*>(callable);
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  Ref<> replace = stealRef(PyObject_GetAttrString(function->func_code, "replace"));
  Ref<> source = stealRef(Py_CompileString("None", "<binding>", Py_eval_input));
  if (!replace || !source) return raiseCurrentError();
  auto* empty = reinterpret_cast<PyCodeObject*>(source.get());
  Ref<> body = stealRef(PyCode_GetCode(empty));
  Ref<> nothing = stealRef(PyTuple_New(0)),
        no_bytes = stealRef(PyBytes_FromStringAndSize(nullptr, 0));
  Ref<> kwargs = stealRef(
      Py_BuildValue("{s:O,s:O,s:O,s:O,s:O,s:i}", "co_code", body.get(), "co_consts",
                    empty->co_consts, "co_freevars", nothing.get(), "co_cellvars", nothing.get(),
                    "co_exceptiontable", no_bytes.get(), "co_flags",
                    code->co_flags & (CO_VARARGS | CO_VARKEYWORDS | CO_OPTIMIZED | CO_NEWLOCALS)));
  Ref<> stub_code =
      kwargs ? stealRef(PyObject_Call(replace.get(), nothing.get(), kwargs.get())) : Ref<>();
  Ref<> stub = stub_code ? stealRef(PyFunction_NewWithQualName(
                               stub_code.get(), function->func_globals, function->func_qualname))
                         : Ref<>();
  if (!stub) {
    PyErr_Clear();
    return breakWith(Reason::kRaises, "arguments that do not fit");
  }
  if (function->func_defaults != nullptr)
    PyFunction_SetDefaults(stub.get(), function->func_defaults);
  if (function->func_kwdefaults != nullptr)
    PyFunction_SetKwDefaults(stub.get(), function->func_kwdefaults);
  std::vector<PyObject*> values(args.values.size(), Py_None);
  Ref<> result =
      stealRef(PyObject_Vectorcall(stub.get(), values.data(), args.positional, args.names));
  if (!result) return raiseCurrentError();
  return breakWith(Reason::kRaises, "arguments that do not fit");
}

Flow Tracer::raiseAttributeError(PyObject* object, PyObject* name) {
  PyTypeObject* type = typeOf(object);
  if (PyType_Check(object)) {
    PyErr_Format(PyExc_AttributeError, "type object '%.50s' has no attribute '%U'",
                 reinterpret_cast<PyTypeObject*>(object)->tp_name, name);
  } else if (PyModule_Check(object)) {
    PyErr_Format(PyExc_AttributeError, "module '%s' has no attribute '%U'",
                 PyModule_GetName(object), name);
  } else {
    PyErr_Format(PyExc_AttributeError, "'%.50s' object has no attribute '%U'", type->tp_name, name);
  }
  Flow flow = raiseCurrentError();
  // As PyObject_GetAttr leaves it.
  PyObject_SetAttrString(raised.get(), "name", name);
  PyObject_SetAttrString(raised.get(), "obj", object);
  PyErr_Clear();
  return flow;
}

Flow Tracer::raiseNameError(PyObject* type, const char* format, PyObject* name) {
  PyErr_Format(type, format, name);
  Flow flow = raiseCurrentError();
  if (type == PyExc_NameError) PyObject_SetAttrString(raised.get(), "name", name);
  PyErr_Clear();
  return flow;
}

}  // namespace stator::interpret
