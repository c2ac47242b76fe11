// Built-in functions of numbers, and the module math.
#include "interpret/calls/calls.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/sym_scalars.h"
#include "interpret/core/symbols.h"
#include "interpret/core/tables.h"
#include "interpret/library/math_calls.h"
#include "interpret/library/rows.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/known_scalars.h"
#include "interpret/objects/native_calls.h"
#include "interpret/objects/operators.h"
#include "interpret/objects/outside_numbers.h"
#include "interpret/objects/scalars.h"
#include "interpret/objects/special_methods.h"
#include "interpret/tensors/tensor_call.h"
#include "interpret/tensors/torch_calls.h"
#include "python/opcode_numbers.h"
#include "symbolic/sym_int.h"

#include <array>

namespace stator::interpret {

namespace {

Out numberCall(Tracer& t, const Args& args, PyTypeObject* type, const char* method) {
  if (args.values.size() == 1) {
    PyObject* value = args.values[0];
    if (graph::isStandIn(value)) {
      if (Ref<> known = knownTensor(t, value))
        return t.fromNative(
            stealRef(PyObject_CallOneArg(reinterpret_cast<PyObject*>(type), known.get())));
      Ref<> name = stealRef(PyUnicode_FromString(method));
      STATOR_VALUE(outside, readOutside(t, name.get(), value));
      if (outside) return outside;
      if (t.options.capture_scalar_outputs) {
        STATOR_VALUE(read, readIntoGraph(t, name.get(), value));
        if (read) return read;
      }
      if (const shapes::TensorMeta* meta = graph::asStandIn(value)->meta;
          meta != nullptr && meta->numel().isStatic() && meta->numel() != 1)
        return t.breakWith(
            Reason::kOperationRaises,
            std::string(type->tp_name) + ": only one element tensors can be converted");
      return t.breakWith(Reason::kDataDependentRead, std::string(type->tp_name) + "() of a tensor");
    }
    if (isUserOverride(t, value, method)) {
      STATOR_VALUE(bound, special(t, value, method));
      STATOR_VALUE(number, callNested(t, bound.get(), {}));
      if (!graph::isStandIn(number.get()) && typeOf(t, number.get()) != type)
        return t.breakWith(Reason::kRaises, std::string(method) + " that gives another type");
      return number;
    }
    static PyObject* const index_name = PyUnicode_InternFromString("__index__");
    STATOR_VALUE(exact, exactScalar(t, value));
    if (exact && Py_TYPE(exact.get()) == type) {
      Ref<> method_name = stealRef(PyUnicode_InternFromString(method));
      STATOR_VALUE(own, typeLookup(t, Py_TYPE(value), method_name.get()));
      if (own.get() == _PyType_Lookup(type, PyDescr_NAME(own.get()))) return exact;
    }
    if (!exact && isUserOverride(t, value, "__index__")) {
      STATOR_VALUE(on_type, typeLookup(t, Py_TYPE(value), index_name));
      STATOR_VALUE(bound, special(t, value, "__index__"));
      STATOR_VALUE(number, callNested(t, bound.get(), {}));
      if (PyLong_CheckExact(number.get())) {
        Args one = args;
        one.values[0] = number.get();
        return callNative(t, reinterpret_cast<PyObject*>(type), one);
      }
      return t.breakWith(Reason::kRaises, "__index__ that gives no int");
    }
  }
  return callNative(t, reinterpret_cast<PyObject*>(type), args);
}
Out intCall(Tracer& t, const Args& args) {
  if (args.values.size() == 1 && args.positional == 1 && symbolic::isSymInt(args.values[0]))
    return newRef(args.values[0]);
  if (args.values.size() == 1 && args.positional == 1 && symbolic::isSymScalar(args.values[0])) {
    // Towards 0, which is down as long as it is not negative.
    STATOR_VALUE(made, roundedQuotient(t, args.values[0], false));
    Ref<> zero = stealRef(PyLong_FromLong(0));
    if (made) {
      STATOR_VALUE(positive, compare(t, Py_GE, made.get(), zero.get()));
      if (positive.get() == Py_True) return made;
    }
  }
  if (args.values.size() == 1 && args.positional == 1 && isUnknownFloat(args.values[0]))
    return truncated(t, args.values[0]);
  return numberCall(t, args, &PyLong_Type, "__int__");
}
Out truncCall(Tracer& t, const Args& args) {
  const bool symbol = args.values.size() == 1 && args.positional == 1 &&
                      (symbolic::isSymInt(args.values[0]) || isKnownFloat(args.values[0]) ||
                       isUnknownFloat(args.values[0]));
  return symbol ? intCall(t, args) : callNative(t, torchObject("math.trunc"), args);
}
Out floatCall(Tracer& t, const Args& args) {
  if (args.values.size() == 1 && args.positional == 1 && symbolic::isSymInt(args.values[0])) {
    if (Ref<> made = floatOf(t, args.values[0], torchObject("torch.sym_float"))) return made;
  }
  if (args.values.size() == 1 && args.positional == 1 &&
      (isKnownFloat(args.values[0]) || isUnknownFloat(args.values[0])))
    return newRef(args.values[0]);
  return numberCall(t, args, &PyFloat_Type, "__float__");
}

// Three forms of a number's method: divmod(), round(), pow().
Out throughMethod(Tracer& t, const Args& args, const char* method, const char* function) {
  if (args.positional > 0 && !graph::isStandIn(args.values[0]) &&
      isUserOverride(t, args.values[0], method)) {
    STATOR_VALUE(bound, special(t, args.values[0], method));
    t.world.keep(bound);
    return call(t, bound.get(), args.withoutFirst());
  }
  if (anyStandIn(t, args))
    return t.breakWith(Reason::kDataDependentRead, std::string(function) + "() of a tensor");
  return callNative(t, builtinFunction(function), args);
}
Out divmodCall(Tracer& t, const Args& args) {
  if (args.values.size() == 2 && args.positional == 2 &&
      (symbolic::isSymInt(args.values[0]) || symbolic::isSymInt(args.values[1]))) {
    STATOR_VALUE(quotient, binary(t, NB_FLOOR_DIVIDE, args.values[0], args.values[1]));
    STATOR_VALUE(rest, binary(t, NB_REMAINDER, args.values[0], args.values[1]));
    return t.made(stealRef(PyTuple_Pack(2, quotient.get(), rest.get())));
  }
  if (args.values.size() == 2 && args.positional == 2) {
    STATOR_VALUE(result, programmedDivmod(t, args.values[0], args.values[1]));
    if (result) return result;
  }
  return throughMethod(t, args, "__divmod__", "divmod");
}

Out absCall(Tracer& t, const Args& args) {
  NEED(1, "abs");
  if (symbolic::isSymInt(args.values[0])) {
    Ref<> zero = stealRef(PyLong_FromLong(0));
    STATOR_VALUE(negative, compare(t, Py_LT, args.values[0], zero.get()));
    if (negative.get() == Py_False) return newRef(args.values[0]);
    if (negative.get() == Py_True) return unary(t, 1, args.values[0]);
  }
  if (isUnknownFloat(args.values[0]) || isKnownFloat(args.values[0])) {
    if (Ref<> made = floatOf(t, args.values[0], operatorFunction("abs"))) return made;
  }
  if (graph::isStandIn(args.values[0]))
    return tensorCall(t, graph::Op::kCallFunction, operatorFunction("abs"), args);
  if (isUserOverride(t, args.values[0], "__abs__")) {
    STATOR_VALUE(bound, special(t, args.values[0], "__abs__"));
    t.world.keep(bound);
    return call(t, bound.get(), Args{});
  }
  return callNative(t, builtinFunction("abs"), args);
}

Out powCall(Tracer& t, const Args& args) {
  if (args.positional == 2 && args.keywordCount() == 0)
    return binary(t, NB_POWER, args.values[0], args.values[1]);
  if (args.positional > 0 && !graph::isStandIn(args.values[0]) &&
      isUserOverride(t, args.values[0], "__pow__")) {
    STATOR_VALUE(bound, special(t, args.values[0], "__pow__"));
    t.world.keep(bound);
    STATOR_VALUE(result, callNested(t, bound.get(), args.withoutFirst()));
    if (result.get() != Py_NotImplemented) return result;
    return t.breakWith(Reason::kCallsOutside, "pow() that its object does not know");
  }
  return throughMethod(t, args, "__pow__", "pow");
}

Out roundCall(Tracer& t, const Args& args) { return throughMethod(t, args, "__round__", "round"); }

}  // namespace

void registerNumbers() {
  const std::pair<const char*, CallHandler> rows[] = {
      {"builtins.int", intCall}, {"builtins.float", floatCall}, {"builtins.abs", absCall},
      {"builtins.pow", powCall}, {"builtins.round", roundCall}, {"builtins.divmod", divmodCall},
      {"operator.abs", absCall},
  };
  for (const auto& [path, handler] : rows) registerHandler(path, handler);
  registerMath();
  registerHandler("math.trunc", truncCall);
  allowSymbols("math.trunc");
}

}  // namespace stator::interpret
