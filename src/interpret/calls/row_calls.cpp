// Callables that the tables have a row for.
#include "interpret/calls/row_calls.h"

#include "interpret/calls/calls.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/symbols.h"
#include "interpret/objects/errors.h"
#include "interpret/objects/native_calls.h"
#include "interpret/tensors/arrays.h"
#include "interpret/tensors/tensor_call.h"
#include "interpret/tensors/torch_function.h"
#include "symbolic/sym_int.h"

#include <algorithm>

namespace stator::interpret {

namespace {

// For a handler that knows nothing of symbolic ints.
Args withNumbers(Tracer& tracer, const Args& args) {
  Args numbers = args;
  for (PyObject*& item : numbers.values) {
    if (symbolic::isSymbol(item)) item = tracer.world.keep(concrete(tracer, item));
  }
  return numbers;
}

Out callHandler(Tracer& tracer, const CallRow& row, PyObject* callable, const Args& args,
                Continuation then) {
  Out out = row.handler(tracer, args);
  if (out.flow() == Flow::kBreak && !tracer.frames.committed()) {
    const Reason why = tracer.ending.broke().reason;
    if (why == Reason::kRaises || why == Reason::kOperationRaises)
      return raiseNatively(tracer, callable, args);
  }
  return deliverTo(tracer, std::move(out), then);
}

// Whether a polyfill is for NumPy's arrays: a function, or functools.partial of one.
bool isOfArrays(PyObject* polyfill) {
  Ref<> function = newRef(polyfill);
  if (!PyFunction_Check(polyfill)) function = stealRef(PyObject_GetAttrString(polyfill, "func"));
  if (!function) PyErr_Clear();
  return function && PyFunction_Check(function.get()) &&
         isArrayCode(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function.get())));
}

Out callPolyfill(Tracer& tracer, const CallRow& row, PyObject* callable, const Args& args,
                 Continuation then) {
  if (!tracer.options.trace_numpy && isOfArrays(row.polyfill))
    return tracer.breakWith(Reason::kCallsOutside, nameOf(callable));
  return row.whole ? callNested(tracer, row.polyfill, args)
                   : call(tracer, row.polyfill, args, then);
}

Out callGraphFunction(Tracer& tracer, PyObject* callable, const Args& args) {
  bool method =
      Py_TYPE(callable) == &PyMethodDescr_Type || Py_TYPE(callable) == &PyWrapperDescr_Type;
  if (method && args.positional > 0 && graph::isStandIn(args.values[0])) {
    Ref<> name = stealRef(PyObject_GetAttr(callable, names().name));
    return tensorCall(tracer, graph::Op::kCallMethod, name.get(), args);
  }
  // Tensor.split and others are written in Python: caches of compiled graphs know them as methods only.
  if (PyFunction_Check(callable) && args.positional > 0 && graph::isStandIn(args.values[0])) {
    PyObject* name = reinterpret_cast<PyFunctionObject*>(callable)->func_name;
    if (_PyType_Lookup(tensorType(), name) == callable)
      return tensorCall(tracer, graph::Op::kCallMethod, name, args);
  }
  return tensorCall(tracer, graph::Op::kCallFunction, callable, args);
}

// A method of tensors that __torch_function__ is asked about first.
bool maybeOverloaded(Tracer& tracer, const CallRow& row, PyObject* callable) {
  return tracer.torch_function.relevant() && row.kind != CallKind::kGraph &&
         Py_TYPE(callable) == &PyMethodDescr_Type &&
         PyType_IsSubtype(tensorType(), PyDescr_TYPE(callable));
}

}  // namespace

std::optional<Out> callByRow(Tracer& tracer, const CallRow& row, PyObject* callable,
                             const Args& args, Continuation then) {
  if (tracer.sizes.any() && row.kind == CallKind::kHandler && !row.takes_symbols &&
      std::any_of(args.values.begin(), args.values.end(), symbolic::isSymbol))
    return call(tracer, callable, withNumbers(tracer, args), then);
  if (values::Info* info = tracer.values.find(callable);
      info != nullptr && PyFunction_Check(callable) && info->source != nullptr) {
    tracer.world.guard(Guard{GuardKind::kIs, info->source, nullptr, newRef(callable)});
  }
  if (maybeOverloaded(tracer, row, callable)) {
    bool handled = false;
    Out out = dispatchTorchFunction(tracer, graph::Op::kCallMethod, PyDescr_NAME(callable), args,
                                    handled);
    if (handled) return out;
  }
  switch (row.kind) {
    case CallKind::kHandler:
      return callHandler(tracer, row, callable, args, then);
    case CallKind::kPolyfill:
      return callPolyfill(tracer, row, callable, args, then);
    case CallKind::kPure:
      return callNative(tracer, callable, args);
    case CallKind::kGraph:
      return callGraphFunction(tracer, callable, args);
    case CallKind::kRefuse:
      return tracer.breakWith(Reason::kCallsOutside, nameOf(callable));
    case CallKind::kForbid:
    case CallKind::kConstantResult:
    case CallKind::kUnknown:
      break;
  }
  return std::nullopt;
}

}  // namespace stator::interpret
