// One resolution for every call: what is called, with what, and whether it is inlined, computed, put into the graph or
// left to CPython.
#include "interpret/calls/calls.h"

#include "base/check.h"
#include "base/stack_room.h"
#include "base/text.h"
#include "interpret/calls/callables.h"
#include "interpret/calls/getters.h"
#include "interpret/calls/inlining.h"
#include "interpret/calls/instances.h"
#include "interpret/calls/modules.h"
#include "interpret/calls/owners.h"
#include "interpret/calls/row_calls.h"
#include "interpret/calls/slot_calls.h"
#include "interpret/calls/switches.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/native_calls.h"
#include "interpret/objects/special_methods.h"
#include "interpret/tensors/arrays.h"
#include "interpret/tensors/tensor_call.h"
#include "interpret/tensors/torch_function.h"
#include "python/types.h"

#include <optional>
#include <string_view>

namespace stator::interpret {

Out runEntered(Tracer& tracer, Out out) {
  if (out.flow() != Flow::kEntered) return out;
  tracer.frames.commit();
  tracer.frames.innermost().nested = true;
  size_t base = tracer.frames.size() - 1;
  Flow flow = Flow::kOk;
  {
    FrameStack::Nested nested(tracer.frames);
    flow = tracer.above.runUntil(base);
  }
  if (flow == Flow::kBreak) {
    tracer.frames.leaveTo(base);
    tracer.ending.nameReason();
    return Flow::kBreak;
  }
  if (flow != Flow::kOk) return flow;
  return tracer.frames.takeReturned();
}

Out deliverTo(Tracer& tracer, Out out, Continuation then) {
  if (out.flow() == Flow::kEntered) tracer.frames.innermost().then = then;
  return out;
}

Out callNested(Tracer& tracer, PyObject* callable, const Args& args) {
  needStack();
  Ref<> keep = newRef(callable);
  return runEntered(tracer, call(tracer, callable, args));
}

Out callNested(Tracer& tracer, PyObject* callable, std::initializer_list<PyObject*> list) {
  Args args;
  args.values = list;
  args.positional = args.values.size();
  return callNested(tracer, callable, args);
}

namespace {

Out callAs(Tracer& tracer, PyObject* callable, const Args& args, Continuation then, bool bound);

// The function behind a method, with the object that it is bound to.
Out callMethod(Tracer& tracer, PyObject* callable, const Args& args, Continuation then) {
  PyObject* function = PyMethod_GET_FUNCTION(callable);
  PyObject* self = PyMethod_GET_SELF(callable);
  if (const Source* source = tracer.sourceOf(callable)) {
    STATOR_VALUE(read_function, fromOutside(tracer, function,
                                            tracer.world.child(SourceKind::kMethodFunc, source)));
    STATOR_VALUE(read_self,
                 fromOutside(tracer, self, tracer.world.child(SourceKind::kMethodSelf, source)));
    tracer.world.keep(read_self);
    return callAs(tracer, read_function.get(), args.withFirst(read_self.get()), then, true);
  }
  Ref<> keep_function = newRef(function), keep_self = newRef(self);
  return callAs(tracer, function, args.withFirst(self), then, true);
}

// By its __call__.
Out callInstance(Tracer& tracer, PyObject* callable, const Args& args, Continuation then) {
  const char* type_name = Py_TYPE(callable)->tp_name;
  STATOR_VALUE(bound, special(tracer, callable, "__call__"));
  if (!bound)
    return tracer.breakWith(Reason::kRaises, std::string("a ") + type_name + " is not callable");
  if (!PyFunction_Check(PyMethod_Check(bound.get()) ? PyMethod_GET_FUNCTION(bound.get())
                                                    : bound.get()))
    return tracer.breakWith(Reason::kCallsOutside, std::string("a ") + type_name);
  tracer.world.keep(bound);
  return call(tracer, bound.get(), args, then);
}

Out callStaticMethod(Tracer& tracer, PyObject* callable, const Args& args, Continuation then) {
  Ref<> function = stealRef(PyObject_GetAttr(callable, names().func));
  tracer.world.keep(function);
  return call(tracer, function.get(), args, then);
}

// config.only_allow_pt2_compliant_ops: operators without torch's tag for what compilers may rely on stay outside.
Flow refuseOperator(Tracer& tracer, PyObject* operation, const Args& args) {
  if (!tracer.options.only_compliant_operators) return Flow::kOk;
  Ref<> values = stealRef(PyTuple_New(static_cast<Py_ssize_t>(args.positional)));
  for (size_t i = 0; i < args.positional; ++i)
    PyTuple_SET_ITEM(values.get(), static_cast<Py_ssize_t>(i),
                     Py_NewRef(graph::isStandIn(args.values[i]) ? Py_None : args.values[i]));
  Ref<> why = stealRef(PyObject_CallFunctionObjArgs(torchObject("stator._operators.refusal"),
                                                    operation, values.get(), nullptr));
  if (!why) throw PythonError();
  if (why.get() == Py_None) return Flow::kOk;
  return tracer.breakWith(Reason::kUnsupportedTensorOp, utf8(why.get()));
}

// What torch has types of its own for. Without a value: it is none of these.
std::optional<Out> callTorchObject(Tracer& tracer, PyObject* callable, const Args& args,
                                   Continuation then) {
  static PyObject* const packet = torchObject("torch._ops.OpOverloadPacket");
  static PyObject* const overload = torchObject("torch._ops.OpOverload");
  static PyObject* const custom = torchObject("torch._library.custom_ops.CustomOpDef");
  static PyObject* const scripted = torchObject("torch.jit.ScriptFunction");
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(callable));
  if (type == packet || type == overload) {
    guardIdentity(tracer, callable);
    STATOR_FLOW(refuseOperator(tracer, callable, args));
    return tensorCall(tracer, graph::Op::kCallFunction, callable, args);
  }
  if (type == custom) return callCustomOperator(tracer, callable, args);
  if (type == scripted) return callScripted(tracer, callable, args, then);
  return std::nullopt;
}

// Neither function nor class nor anything that a table or the user has said something about: its type decides.
Out callByType(Tracer& tracer, PyObject* callable, const Args& args, Continuation then) {
  PyTypeObject* type = Py_TYPE(callable);
  if (type == partialType()) return callPartial(tracer, callable, args, then);
  if (type == compiledFunctionType()) return callCompiled(tracer, callable, args, then);
  if (type == lruCacheType()) return callCached(tracer, callable, args);
  if (type == itemGetterType() || type == attrGetterType() || type == methodCallerType())
    return deliverTo(tracer, callGetter(tracer, callable, args), then);
  if (type == &PyStaticMethod_Type) return callStaticMethod(tracer, callable, args, then);
  if (PyWeakref_CheckRefExact(callable)) return callWeakReference(tracer, callable);
  if (stator_is_method_wrapper(callable)) return callMethodWrapper(tracer, callable, args);
  if (std::optional<Out> out = callTorchObject(tracer, callable, args, then))
    return std::move(*out);
  if (PyCFunction_Check(callable)) return callBuiltinFunction(tracer, callable, args, then);
  if (type == &PyInstanceMethod_Type && args.positional > 0 && isPlacement(args.values[0]))
    return callNative(tracer, callable, args);
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type)
    return callDescriptor(tracer, callable, args, then);
  if (type == &PyClassMethodDescr_Type)
    return tracer.breakWith(Reason::kCallsOutside, nameOf(callable));
  if (isModule(callable)) return callModule(tracer, callable, args, then);
  return callInstance(tracer, callable, args, then);
}

// bound: the first argument is the self of a method, by which the callable was found.
Out callAs(Tracer& tracer, PyObject* callable, const Args& args, Continuation then, bool bound) {
  if (graph::isStandIn(callable)) return tracer.breakWith(Reason::kRaises, "calls a tensor");
  if (PyMethod_Check(callable)) return callMethod(tracer, callable, args, then);
  if (!fitsItsOwner(tracer, callable, args, bound))
    return tracer.breakWith(Reason::kRaises, "a method of a type that its object is not of");
  if (const CallRow* rule = findUserRule(callable)) {
    guardIdentity(tracer, callable);
    return callByRule(tracer, *rule, callable, args, then);
  }
  if (tracer.torch.hasArrays() && holdsArray(args)) {
    if (PyObject* polyfill = fromArrays(callable)) return callNested(tracer, polyfill, args);
  }
  if (const CallRow* row = findCall(callable)) {
    if (std::optional<Out> out = callByRow(tracer, *row, callable, args, then))
      return std::move(*out);
  }
  if (PyFunction_Check(callable))
    return deliverTo(tracer, inlineFunction(tracer, callable, args, then), then);
  if (PyType_Check(callable))
    return instantiate(tracer, reinterpret_cast<PyTypeObject*>(callable), args, then);
  return callByType(tracer, callable, args, then);
}

}  // namespace

Out call(Tracer& tracer, PyObject* callable, const Args& args, Continuation then) {
  return callAs(tracer, callable, args, then, false);
}

Out raiseStop(Tracer& tracer, PyObject* iterator) {
  Ref<> exception;
  if (isTraceIterator(iterator) && asTraceIterator(iterator)->kind == IteratorKind::kGenerator &&
      !asTraceIterator(iterator)->sources->empty()) {
    PyObject* value = (*asTraceIterator(iterator)->sources)[0].get();
    exception = stealRef(value != nullptr && value != Py_None
                             ? PyObject_CallOneArg(PyExc_StopIteration, value)
                             : PyObject_CallNoArgs(PyExc_StopIteration));
  } else {
    exception = stealRef(PyObject_CallNoArgs(PyExc_StopIteration));
  }
  return tracer.raise(exception);
}

}  // namespace stator::interpret
