#include "interpret/objects/exceptions.h"

#include "base/check.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/rows.h"
#include "python/types.h"

namespace stator::interpret {

Out tracebackOf(Tracer& tracer, PyObject* exception) {
  values::Info* info = tracer.values.find(exception);
  if (info != nullptr && info->origin == values::Origin::kOutside) {
    static PyObject* name = PyUnicode_InternFromString("__traceback__");
    Ref<> traceback = stealRef(PyException_GetTraceback(exception));
    if (!traceback) traceback = newRef(Py_None);
    return fromOutside(tracer, traceback.get(),
                       tracer.world.child(SourceKind::kGenericAttr, info->source, name));
  }
  if (info == nullptr || !info->was_raised) return newRef(Py_None);
  if (!info->known) {
    Ref<> marker = stealRef(TraceTracebackType.tp_alloc(&TraceTracebackType, 0));
    if (!marker) throw PythonError();
    tracer.values.addMade(marker.get(), info->born);
    info->known = std::move(marker);
  }
  return info->known;
}

Flow setTraceback(Tracer& tracer, PyObject* exception, PyObject* value) {
  values::Info* info = tracer.values.find(exception);
  if (value == Py_None) {
    if (info != nullptr) info->was_raised = false;
    return Flow::kOk;
  }
  if (info != nullptr && isTraceTraceback(value) && info->known.get() == value) return Flow::kOk;
  return tracer.breakWith(Reason::kUnsupportedMutation, "sets the traceback of an exception");
}

bool isPlainException(PyObject* exception) {
  PyTypeObject* base = stator_native_base(Py_TYPE(exception));
  return base->tp_basicsize == reinterpret_cast<PyTypeObject*>(PyExc_BaseException)->tp_basicsize ||
         reinterpret_cast<PyObject*>(base) == PyExc_StopIteration;
}

namespace {

Out excInfo(Tracer& t, const Args& args) {
  if (!args.values.empty())
    return t.breakWith(Reason::kRaises, "sys.exc_info() takes no arguments");
  STATOR_VALUE(exception, t.errors.topmost(t));
  if (!exception) {
    // A driven generator may also see what the frame that resumed it is busy with.
    if (t.frames.driven().generator)
      return t.breakWith(Reason::kCallsOutside, "sys.exc_info() in a generator");
    return stealRef(PyTuple_Pack(3, Py_None, Py_None, Py_None));
  }
  STATOR_VALUE(traceback, tracebackOf(t, exception.get()));
  return stealRef(PyTuple_Pack(3, reinterpret_cast<PyObject*>(Py_TYPE(exception.get())),
                               exception.get(), traceback.get()));
}

Out currentException(Tracer& t, const Args& args) {
  if (!args.values.empty())
    return t.breakWith(Reason::kRaises, "sys.exception() takes no arguments");
  STATOR_VALUE(exception, t.errors.topmost(t));
  if (exception) return exception;
  if (t.frames.driven().generator)
    return t.breakWith(Reason::kCallsOutside, "sys.exception() in a generator");
  return newRef(Py_None);
}

Out withTraceback(Tracer& t, const Args& args) {
  if (args.values.size() != 2 || args.positional != 2)
    return t.breakWith(Reason::kRaises, "with_traceback() takes one argument");
  if (!t.isMade(args.values[0]))
    return t.breakWith(Reason::kUnsupportedMutation,
                       "with_traceback() of an exception from outside");
  STATOR_FLOW(setTraceback(t, args.values[0], args.values[1]));
  return newRef(args.values[0]);
}

Out addNote(Tracer& t, const Args& args) {
  if (args.values.size() != 2 || args.positional != 2 || !PyUnicode_Check(args.values[1]))
    return t.breakWith(Reason::kRaises, "add_note() takes one string");
  if (!t.isMade(args.values[0]))
    return t.breakWith(Reason::kUnsupportedMutation, "add_note() of an exception from outside");
  static PyObject* const add = torchObject("builtins.BaseException.add_note");
  return t.fromNative(
      stealRef(PyObject_CallFunctionObjArgs(add, args.values[0], args.values[1], nullptr)));
}

}  // namespace

void registerExceptions() {
  registerHandler("sys.exc_info", excInfo);
  registerHandler("sys.exception", currentException);
  registerHandler("builtins.BaseException.with_traceback", withTraceback);
  registerHandler("builtins.BaseException.add_note", addNote);
}

}  // namespace stator::interpret
