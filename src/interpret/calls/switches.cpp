#include "interpret/calls/switches.h"

#include "base/parts.h"
#include "base/text.h"
#include "interpret/calls/calls.h"
#include "interpret/calls/comptime.h"
#include "interpret/calls/inlining.h"
#include "interpret/calls/rows.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/outside_symbols.h"
#include "interpret/core/sym_scalars.h"
#include "interpret/core/symbols.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/known_scalars.h"
#include "interpret/objects/operators.h"
#include "interpret/tensors/data_numbers.h"
#include "interpret/tensors/rows.h"
#include "interpret/tensors/tensor_call.h"
#include "python/types.h"
#include "regions/marks.h"
#include "symbolic/sym_int.h"
#include "tensor/tensor_guard.h"

#include <string>
#include <string_view>
#include <unordered_map>

namespace stator::interpret {

namespace {

// Keys are not owned: the Python side takes a rule back when the callable dies.
std::unordered_map<PyObject*, CallRow>& userRules() {
  static auto* rules = new std::unordered_map<PyObject*, CallRow>();
  return *rules;
}

const CallRow* ruleGivenHere(PyObject* callable) {
  auto& rules = userRules();
  if (rules.empty()) return nullptr;
  auto it = rules.find(callable);
  return it == rules.end() ? nullptr : &it->second;
}

// What torch's own allow_in_graph and disallow_in_graph keep: sets of ids. They are there once torch._dynamo is.
struct TorchMarks {
  PyObject *allowed = nullptr, *disallowed = nullptr, *adopt = nullptr;
  Py_ssize_t own = 0;  // of torch's among the disallowed, which have handlers
};
TorchMarks torch_marks;

bool hasId(PyObject* ids, PyObject* callable) {
  Ref<> id = stealRef(PyLong_FromVoidPtr(callable));
  if (!id) PyErr_Clear();
  return id && PySet_Contains(ids, id.get()) == 1;
}

const CallRow* ruleGivenToTorch(PyObject* callable) {
  static const CallRow graph{CallKind::kGraph}, refuse{CallKind::kRefuse};
  const TorchMarks& marks = torch_marks;
  if (marks.adopt == nullptr) return nullptr;
  if (PySet_GET_SIZE(marks.allowed) > 0 && hasId(marks.allowed, callable)) {
    // nonstrict_trace leaves the same mark; then the rule is made now
    Ref<> adopted = stealRef(PyObject_CallOneArg(marks.adopt, callable));
    if (!adopted) PyErr_Clear();
    const CallRow* made = ruleGivenHere(callable);
    return made != nullptr ? made : &graph;
  }
  // torch disallows some Python functions of its own, which are captured or not as they are.
  const bool refused = PySet_GET_SIZE(marks.disallowed) > marks.own &&
                       !PyFunction_Check(callable) && hasId(marks.disallowed, callable);
  return refused ? &refuse : nullptr;
}

thread_local bool error_on_break = false;

}  // namespace

const CallRow* findUserRule(PyObject* callable) {
  const CallRow* here = ruleGivenHere(callable);
  return here != nullptr ? here : ruleGivenToTorch(callable);
}

bool errorOnBreak() { return error_on_break; }

// ---- what the rules do

// The function runs now, once, and what it returns is part of the program from here on.
Out constantResult(Tracer& tracer, PyObject* callable, const Args& args) {
  std::vector<Ref<>> keep;
  std::vector<PyObject*> values_now;
  for (PyObject* value : args.values) {
    STATOR_VALUE(replaced, plain(tracer, value));
    if (graph::isStandIn(replaced.get())) {
      // Constant by the program's word, whatever it is computed from.
      if (Ref<> computed = computedNow(tracer, replaced.get())) {
        values_now.push_back(computed.get());
        keep.push_back(std::move(computed));
        continue;
      }
    }
    values::Info* info = tracer.values.find(value);
    bool untouched = info != nullptr && info->origin == values::Origin::kOutside && !info->dirty &&
                     !info->overlay && !info->stand_in;
    if (!untouched && !isNativeSafe(tracer, replaced.get())) {
      return tracer.breakWith(
          Reason::kUnsupportedObject,
          "a function marked with assume_constant_result gets what the captured part has computed");
    }
    values_now.push_back(untouched ? value : replaced.get());
    keep.push_back(std::move(replaced));
  }
  Ref<> result =
      stealRef(PyObject_Vectorcall(callable, values_now.data(), args.positional, args.names));
  if (!result) return tracer.raiseCurrentError();
  if (values::isScalar(result.get())) return result;
  // A tensor that the program has elsewhere too is another value here: what it is now, in every call.
  static PyObject* const apart = torchObject("stator._switches.apart");
  Ref<> known = stealRef(PySet_New(nullptr));
  for (const values::Info* info : tracer.values.all()) {
    if (!tensor::isTensor(info->object.get())) continue;
    Ref<> address = stealRef(PyLong_FromVoidPtr(info->object.get()));
    if (!address || PySet_Add(known.get(), address.get()) < 0) return tracer.raiseCurrentError();
  }
  result = stealRef(PyObject_CallFunctionObjArgs(apart, result.get(), known.get(), nullptr));
  if (!result) return tracer.raiseCurrentError();
  if (tracer.values.find(result.get()) != nullptr) return result;
  STATOR_VALUE(value,
               fromOutside(tracer, result.get(), tracer.world.sources().pinned(result.get())));
  // A tensor belongs to the graph from here on.
  if (graph::isStandIn(value.get())) graph::asStandIn(value.get())->node->specialised = true;
  return value;
}

// A compiled function inside of a compiled one is inlined, and the outer settings hold; a disabled one is called for
// real.
Out callCompiled(Tracer& tracer, PyObject* compiled, const Args& args, Continuation then) {
  static PyObject* const wrapped = PyUnicode_InternFromString("__wrapped__");
  static PyObject* const cache = PyUnicode_InternFromString("_stator_cache");
  Ref<> function = stealRef(PyObject_GetAttr(compiled, wrapped));
  Ref<> owner = stealRef(PyObject_GetAttr(compiled, cache));
  if (!function || !owner) return tracer.raiseCurrentError();
  const Source* source = tracer.sourceOf(compiled);
  if (source == nullptr) source = tracer.world.sources().pinned(compiled);
  const Source* owner_source = tracer.world.child(SourceKind::kGenericAttr, source, cache);
  if (owner.get() == Py_None) {
    tracer.world.guard(Guard{GuardKind::kIs, owner_source, nullptr, owner});
    return tracer.breakWith(Reason::kDisabled,
                            describe(function.get()) + reasonOfDisabling(compiled));
  }
  tracer.world.guard(Guard{GuardKind::kType, owner_source, nullptr,
                           newRef(reinterpret_cast<PyObject*>(Py_TYPE(owner.get())))});
  STATOR_VALUE(inner, fromOutside(tracer, function.get(),
                                  tracer.world.child(SourceKind::kGenericAttr, source, wrapped)));
  tracer.world.keep(inner);
  return call(tracer, inner.get(), args, then);
}

namespace {

// An instance of a class of the program's that the trace has made, or a list or tuple with one.
bool holdsMadeObject(Tracer& t, PyObject* value, int depth = 0) {
  if (graph::isStandIn(value) || symbolic::isSymbol(value) || isTraceIterator(value) || depth > 6 ||
      values::isConstantDeep(value))
    return false;
  if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) {
    return !everyItem(value, [&](PyObject* item) { return !holdsMadeObject(t, item, depth + 1); });
  }
  values::Info* info = t.values.find(value);
  return info != nullptr && info->origin == values::Origin::kMade && !PyType_Check(value) &&
         stator_is_user_class(Py_TYPE(value)) && !isEnumMember(value);
}

// One node that makes the objects and calls the function, over the tensors and constants in them.
Out callWithObjects(Tracer& t, PyObject* callable, const Args& args) {
  Ref<> positional = stealRef(PyTuple_New(static_cast<Py_ssize_t>(args.positional)));
  Ref<> named = stealRef(PyDict_New());
  for (size_t i = 0; i < args.positional; ++i)
    PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args.values[i]));
  for (size_t i = 0; i < args.keywordCount(); ++i)
    PyDict_SetItem(named.get(), args.name(i), args.values[args.positional + i]);
  t.made(positional);
  t.made(named);
  return callNested(t, torchObject("stator.polyfills.nonstrict.run_allowed"),
                    {callable, positional.get(), named.get()});
}

}  // namespace

Out callByRule(Tracer& tracer, const CallRow& row, PyObject* callable, const Args& args,
               Continuation then) {
  switch (row.kind) {
    case CallKind::kForbid:
      return tracer.breakWith(Reason::kForbidden, describe(callable));
    case CallKind::kConstantResult:
      return constantResult(tracer, callable, args);
    case CallKind::kGraph:
      if (callable == torchObject("torch._C._SDPAParams"))
        return callNested(tracer, torchObject("stator.polyfills.contexts.sdpa_params_in_graph"),
                          args);
      for (PyObject* value : args.values) {
        if (holdsMadeObject(tracer, value)) return callWithObjects(tracer, callable, args);
      }
      return tensorCall(tracer, graph::Op::kCallFunction, callable, args, false);
    case CallKind::kPolyfill:
      return row.whole ? callNested(tracer, row.polyfill, args)
                       : call(tracer, row.polyfill, args, then);
    default:
      return tracer.breakWith(Reason::kCallsOutside, describe(callable));
  }
}

// ---- functions of torch's and stator's that switch or tell

namespace {

Out returnTrue(Tracer&, const Args&) { return newRef(Py_True); }
Out returnFalse(Tracer&, const Args&) { return newRef(Py_False); }

// graph_break("why")
Out explicitBreak(Tracer& t, const Args& args) {
  // torch's optimizers break around their step so that a graph is under one grad mode; the graphs made here switch it
  // themselves.
  PyCodeObject* caller = t.frames.innermost().code->code();
  if (PyUnicode_CompareWithASCIIString(caller->co_name, "_use_grad") == 0 &&
      std::string_view(utf8(caller->co_filename)).ends_with("torch/optim/optimizer.py")) {
    return newRef(Py_None);
  }
  PyObject* message = args.values.size() == 1 ? args.values[0] : nullptr;
  bool text =
      message != nullptr && PyUnicode_CheckExact(message) && PyUnicode_GET_LENGTH(message) > 0;
  return t.breakWith(Reason::kExplicit, text ? utf8(message) : "");
}

// compile(f) inside of a compiled function: f is captured along with the rest.
Out compileInside(Tracer& t, const Args& args) {
  if (args.positional == 1 && args.values[0] != Py_None) return newRef(args.values[0]);
  return t.breakWith(Reason::kCallsOutside, "stator.compile() without a function");
}

// run_later(function, args, kwargs): behind the captured part, with the values that the program gave.
Out runLater(Tracer& t, const Args& args) {
  if (args.positional != 3) return t.breakWith(Reason::kCallsOutside, "run_later()");
  static PyObject* const function = torchObject("stator._late.run");
  Effects::LateCall late{function, {}};
  for (PyObject* value : args.values) late.arguments.push_back(newRef(value));
  t.effects.note();
  t.effects.callLate(std::move(late));
  return newRef(Py_None);
}

// Of a tensor in the trace: nothing has to be remembered beyond the call.
Out markStatic(Tracer& t, const Args& args) {
  if (args.values.empty() || !graph::isStandIn(args.values[0]))
    return t.breakWith(Reason::kCallsOutside, "stator.mark_static()");
  if (const shapes::TensorMeta* meta = graph::asStandIn(args.values[0])->meta) {
    // mark_static(tensor, dim=None or a number or several)
    PyObject* dims = args.values.size() > 1 ? args.values[1] : Py_None;
    for (size_t i = 0; i < meta->sizes.size(); ++i) {
      Ref<> number = stealRef(PyLong_FromSize_t(i));
      const bool wanted =
          dims == Py_None || PyLong_CheckExact(dims)
              ? dims == Py_None || PyLong_AsLongLong(dims) == static_cast<int64_t>(i)
              : PySequence_Contains(dims, number.get()) == 1;
      if (wanted) meta->sizes[i].value();
    }
    PyErr_Clear();
  }
  return newRef(Py_None);
}

// Nothing may be decided on a size that is marked unbacked; but a check that this very call does not pass is an error
// now.
bool failsNow(Tracer& t, const symbolic::Expr* condition) {
  for (int64_t number : symbolic::symbolsIn(condition)) {
    if (t.sizes.sourceOf(static_cast<size_t>(number)) == nullptr) return false;
  }
  const std::vector<int64_t>& hints = t.sizes.environment().hints();
  const std::optional<int64_t> value = symbolic::evaluate(condition, hints.data(), hints.size());
  return value && *value == 0;
}

// torch._check and its relatives. What holds needs no check; what only the graph knows is checked there, and relied on
// from here on.
Out checkCondition(Tracer& t, PyObject* function, const Args& args, size_t position) {
  if (args.positional > position) {
    PyObject* condition = args.values[position];
    if (condition == Py_True) return newRef(Py_None);
    if (symbolic::isSymScalar(condition) && symbolic::asSymScalar(condition)->of == &PyBool_Type) {
      const symbolic::Expr* known = symbolic::asSymScalar(condition)->condition;
      if (known != nullptr && failsNow(t, known)) {
        Args failing = args;
        failing.values[position] = Py_False;
        return inlineFunction(t, function, failing, Continuation::kPush);
      }
      checkInGraph(t, condition);
      return newRef(Py_None);
    }
  }
  return inlineFunction(t, function, args, Continuation::kPush);
}
Out checkFirst(Tracer& t, const Args& args) {
  return checkCondition(t, torchObject("torch._check"), args, 0);
}
Out checkSecond(Tracer& t, const Args& args) {
  return checkCondition(t, torchObject("torch._check_with"), args, 1);
}

// torch._check_is_size(i)
Out checkIsSize(Tracer& t, const Args& args) {
  if (args.values.size() == 1 && symbolic::isSymInt(args.values[0])) {
    Ref<> zero = stealRef(PyLong_FromLong(0));
    STATOR_VALUE(condition, compare(t, Py_GE, args.values[0], zero.get()));
    Args check;
    check.values = {condition.get()};
    check.positional = 1;
    t.world.keep(condition);
    return checkFirst(t, check);
  }
  return inlineFunction(t, torchObject("torch._check_is_size"), args, Continuation::kPush);
}

// What a rule on sizes asks of a condition: one that holds for all sizes but 0 and 1, holds.
Out sizeOblivious(Tracer& t, const Args& args) {
  if (args.values.empty()) return t.breakWith(Reason::kCallsOutside, "guard_size_oblivious()");
  PyObject* condition = args.values[0];
  if (PyBool_Check(condition)) return newRef(condition);
  if (!symbolic::isSymScalar(condition) || symbolic::asSymScalar(condition)->condition == nullptr)
    return t.breakWith(Reason::kCallsOutside, "guard_size_oblivious()");
  return newRef(t.sizes.environment().decideSize(symbolic::asSymScalar(condition)->condition)
                    ? Py_True
                    : Py_False);
}
template <bool fallback>
Out guardOr(Tracer& t, const Args& args) {
  if (args.values.empty()) return t.breakWith(Reason::kCallsOutside, "guard_or_false()");
  PyObject* condition = args.values[0];
  if (PyBool_Check(condition)) return newRef(condition);
  if (!symbolic::isSymScalar(condition))
    return t.breakWith(Reason::kCallsOutside, "guard_or_false()");
  const symbolic::Expr* known = symbolic::asSymScalar(condition)->condition;
  const std::optional<bool> settled =
      known != nullptr ? t.sizes.environment().known(t.sizes.environment().simplify(known))
                       : std::nullopt;
  return newRef(settled.value_or(fallback) ? Py_True : Py_False);
}
// comptime.assert_static(value)
Out assertStatic(Tracer& t, const Args& args) {
  for (PyObject* value : args.values) {
    const bool open = symbolic::isSymScalar(value) ||
                      (symbolic::isSymInt(value) &&
                       !t.sizes.environment().simplify(symbolic::dimOf(value).expr())->isInt());
    if (open) return t.breakWith(Reason::kCallsOutside, "comptime.assert_static() of a symbol");
  }
  return newRef(Py_None);
}
Out expectTrue(Tracer& t, const Args& args) {
  if (!args.values.empty() && PyBool_Check(args.values[0])) return newRef(args.values[0]);
  STATOR_VALUE(checked, checkFirst(t, args));
  return newRef(Py_True);
}

// Whether the program has said of it that calls are nodes.
Out isAllowed(Tracer& t, const Args& args) {
  NEED(1, "is_allowed");
  const CallRow* rule = findUserRule(args.values[0]);
  return newRef(rule != nullptr && rule->kind == CallKind::kGraph ? Py_True : Py_False);
}

Out isErrorOnBreak(Tracer& t, const Args&) {
  return newRef(t.torch.breakIsError() ? Py_True : Py_False);
}
Out setErrorOnBreak(Tracer& t, const Args& args) {
  if (args.values.size() != 1 || !PyBool_Check(args.values[0]))
    return t.breakWith(Reason::kCallsOutside, "set_error_on_break");
  t.torch.setBreakIsError(args.values[0] == Py_True);
  return newRef(Py_None);
}

template <CallHandler handler>
Out plainly(Tracer& t, PyObject*, const Args& args) {
  return handler(t, args);
}

// torch._dynamo, once loaded, has nn.Module's __init__ and __setstate__ note each module that is made. What they do is
// the original.
template <const char* name>
Out unpatched(Tracer& t, PyObject* function, const Args& args) {
  STATOR_VALUE(original, fromClosure(t, function, name));
  t.world.keep(original);
  return call(t, original.get(), args);
}
constexpr char kInit[] = "init", kSetState[] = "setstate", kFunction[] = "func";

// A function under nested_compile_region: captured along with the rest, and a region of the graph.
Out markedRegion(Tracer& t, PyObject* function, const Args& args) {
  STATOR_VALUE(original, fromClosure(t, function, kFunction));
  regions::noteMarked(original.get());
  return unpatched<kFunction>(t, function, args);
}

// kernel[grid](...) of Triton's comes to this method, of a kernel or of what chooses its configuration.
Out launchKernel(Tracer& t, PyObject* function, const Args& args) {
  PyObject* polyfill = torchObject("stator.polyfills.kernels.run");
  PyObject* judge = torchObject("stator._kernels.kind_of");
  bool compiles_only = false;  // run(warmup=True)
  for (size_t i = 0; i < args.keywordCount(); ++i)
    compiles_only |= PyUnicode_CompareWithASCIIString(args.name(i), "warmup") == 0 &&
                     args.values[args.positional + i] != Py_False;
  if (polyfill == nullptr || judge == nullptr || compiles_only || args.positional == 0)
    return t.breakWith(Reason::kSkippedModule, describe(function));
  Ref<> kind = stealRef(PyObject_CallOneArg(judge, args.values[0]));
  if (!kind) return t.raiseCurrentError();
  // What interprets kernels looks at the data: no backend that traces can have it.
  const bool captured = PyUnicode_CompareWithASCIIString(kind.get(), "compiled") == 0 ||
                        (PyUnicode_CompareWithASCIIString(kind.get(), "interpreted") == 0 &&
                         t.options.runs_as_captured);
  if (!captured) return t.breakWith(Reason::kSkippedModule, describe(function));
  return call(t, polyfill, args);
}

Out shapeAsTensor(Tracer& t, PyObject*, const Args& args) {
  return call(t, torchObject("stator.polyfills.tensors.shape_as_tensor"), args);
}

const std::unordered_map<std::string_view, FunctionHandler>& lateHandlers() {
  static const std::unordered_map<std::string_view, FunctionHandler> table = {
      {"torch._dynamo.mutation_guard.install_generation_tagging_init.<locals>.patched_init",
       unpatched<kInit>},
      {"torch._dynamo.mutation_guard.install_generation_tagging_init.<locals>.patched_setstate",
       unpatched<kSetState>},
      {"torch._higher_order_ops.invoke_subgraph.mark_compile_region.<locals>.wrap.<locals>.inner",
       markedRegion},
      {"triton.runtime.jit.JITFunction.run", launchKernel},
      {"triton.runtime.interpreter.InterpretedFunction.run", launchKernel},
      {"triton.runtime.autotuner.Autotuner.run", launchKernel},
      {"torch._dynamo.external_utils.is_compiling", plainly<returnTrue>},
      {"torch.fx._symbolic_trace.is_fx_tracing", plainly<returnFalse>},
      {"torch.fx._symbolic_trace.is_fx_symbolic_tracing", plainly<returnFalse>},
      {"torch.onnx.is_in_onnx_export", plainly<returnFalse>},
      {"torch.onnx.operators.shape_as_tensor", shapeAsTensor},
      {"torch.onnx._globals.is_in_onnx_export", plainly<returnFalse>},
      {"torch.onnx.utils.is_in_onnx_export", plainly<returnFalse>},
      {"torch.onnx._internal.torchscript_exporter.utils.is_in_onnx_export", plainly<returnFalse>},
      {"torch.fx.experimental.symbolic_shapes.expect_true", plainly<expectTrue>},
      {"torch.fx.experimental.symbolic_shapes.guard_size_oblivious", plainly<sizeOblivious>},
      {"torch.fx.experimental.symbolic_shapes.guard_or_false", plainly<guardOr<false>>},
      {"torch.fx.experimental.symbolic_shapes.guard_or_true", plainly<guardOr<true>>},
      {"torch.fx.experimental.symbolic_shapes.statically_known_true", plainly<guardOr<false>>},
      {"torch._dynamo.comptime._Comptime.assert_static", plainly<assertStatic>},
      {"torch._dynamo.comptime._Comptime.graph_break", plainly<explicitBreak>},
      {"torch._dynamo.comptime._Comptime.__call__", atCapture},
      {"torch._dynamo.comptime._Comptime.print", showAtCapture},
      {"torch._dynamo.comptime._Comptime.print_graph", showAtCapture},
      {"torch._dynamo.comptime._Comptime.print_disas", showAtCapture},
      {"torch._dynamo.comptime._Comptime.print_locals", showAtCapture},
      {"torch._dynamo.comptime._Comptime.print_value_stack", showAtCapture},
      {"torch._dynamo.comptime._Comptime.print_bt", showAtCapture},
      {"torch._dynamo.comptime._Comptime.print_guards", showAtCapture},
      {"torch._dynamo.comptime._Comptime.sleep", showAtCapture},
      {"stator._comptime.Comptime.__call__", atCapture},
      {"stator._comptime.Comptime.print", showAtCapture},
      {"stator._comptime.Comptime.print_graph", showAtCapture},
      {"stator._comptime.Comptime.print_disas", showAtCapture},
      {"stator._comptime.Comptime.print_locals", showAtCapture},
      {"stator._comptime.Comptime.print_value_stack", showAtCapture},
      {"stator._comptime.Comptime.print_bt", showAtCapture},
      {"stator._comptime.Comptime.print_guards", showAtCapture},
      {"stator._comptime.Comptime.graph_break", plainly<explicitBreak>},
      {"stator._comptime.Comptime.assert_static", plainly<assertStatic>},
      {"stator._comptime.Comptime.sleep", showAtCapture},
      {"torch._dynamo.decorators.graph_break", plainly<explicitBreak>},
      {"torch._dynamo.decorators.skip_frame", plainly<explicitBreak>},
      {"torch._dynamo.decorators.mark_static", plainly<markStatic>},
      {"torch._dynamo.utils._get_error_on_graph_break", plainly<isErrorOnBreak>},
      {"torch._dynamo.utils._set_error_on_graph_break", plainly<setErrorOnBreak>},
  };
  return table;
}

}  // namespace

FunctionHandler findLate(PyObject* function) {
  Ref<> module = stealRef(PyObject_GetAttrString(function, "__module__"));
  Ref<> name = stealRef(PyObject_GetAttrString(function, "__qualname__"));
  if (!module || !name || !PyUnicode_Check(module.get()) || !PyUnicode_Check(name.get())) {
    PyErr_Clear();
    return nullptr;
  }
  auto it = lateHandlers().find(std::string(utf8(module.get())) + "." + utf8(name.get()));
  return it == lateHandlers().end() ? nullptr : it->second;
}

void registerSwitches() {
  registerNonstrict();
  for (const char* path : {"torch._check"}) registerHandler(path, checkFirst), allowSymbols(path);
  registerHandler("torch._check_with", checkSecond);
  allowSymbols("torch._check_with");
  registerPolyfill("torch._check_tensor_all_with", "tensors.check_tensor_all_with");
  registerHandler("torch._check_is_size", checkIsSize);
  allowSymbols("torch._check_is_size");
  registerHandler("stator._switches.graph_break", explicitBreak);
  registerHandler("stator._switches.skip_frame", explicitBreak);
  registerHandler("stator._compile.compile", compileInside);
  registerHandler("stator._switches.is_compiling", returnTrue);
  registerHandler("stator._marks.mark_static", markStatic);
  registerHandler("stator.polyfills.switches.run_later", runLater);
  registerHandler("stator.polyfills.autograd.is_allowed", isAllowed);
  registerHandler("stator._core.error_on_break", isErrorOnBreak);
  registerHandler("stator._core.set_error_on_break", setErrorOnBreak);
}

// ---- doors

namespace {

PyObject* setCallRule(PyObject*, PyObject* arguments) {
  PyObject *callable = nullptr, *extra = Py_None;
  const char* rule = nullptr;
  if (!PyArg_ParseTuple(arguments, "Os|O:set_call_rule", &callable, &rule, &extra)) return nullptr;
  std::string_view text = rule;
  CallRow row;
  if (text == "allow_in_graph")
    row.kind = CallKind::kGraph;
  else if (text == "disallow_in_graph")
    row.kind = CallKind::kRefuse;
  else if (text == "forbid_in_graph")
    row.kind = CallKind::kForbid;
  else if (text == "assume_constant_result")
    row.kind = CallKind::kConstantResult;
  // until the rule is dropped
  else if (text == "substitute_in_graph" || text == "nonstrict_trace")
    row = CallRow{CallKind::kPolyfill, nullptr, Py_NewRef(extra), text == "nonstrict_trace"};
  else {
    PyErr_Format(PyExc_ValueError, "no such rule: %s", rule);
    return nullptr;
  }
  CallRow& known = userRules()[callable];
  Ref<> before = stealRef(known.polyfill);
  known = row;
  Py_RETURN_NONE;
}

PyObject* dropCallRule(PyObject*, PyObject* address) {
  void* key = PyLong_AsVoidPtr(address);
  if (key == nullptr && PyErr_Occurred()) return nullptr;
  Ref<> polyfill;
  if (auto it = userRules().find(static_cast<PyObject*>(key)); it != userRules().end()) {
    polyfill = stealRef(it->second.polyfill);
    userRules().erase(it);
  }
  Py_RETURN_NONE;
}

PyObject* setTorchMarks(PyObject*, PyObject* arguments) {
  TorchMarks marks;
  if (!PyArg_ParseTuple(arguments, "O!O!On:set_torch_marks", &PySet_Type, &marks.allowed,
                        &PySet_Type, &marks.disallowed, &marks.adopt, &marks.own))
    return nullptr;
  newRef(arguments).release();  // it holds them, for the life of the process
  torch_marks = marks;
  Py_RETURN_NONE;
}

PyObject* setDynamicSourcesFromPython(PyObject*, PyObject* asks) {
  setDynamicSources(asks == Py_None ? Ref<>() : newRef(asks));
  Py_RETURN_NONE;
}

PyObject* errorOnBreakFromPython(PyObject*, PyObject*) { return PyBool_FromLong(error_on_break); }
PyObject* setErrorOnBreakFromPython(PyObject*, PyObject* value) {
  int truth = PyObject_IsTrue(value);
  if (truth < 0) return nullptr;
  error_on_break = truth != 0;
  Py_RETURN_NONE;
}

}  // namespace

PyMethodDef switch_methods[] = {
    {"set_call_rule", setCallRule, METH_VARARGS,
     "set_call_rule(callable, rule, extra=None): how traces treat calls of it."},
    {"drop_call_rule", dropCallRule, METH_O,
     "drop_call_rule(id): forgets the rule of the callable with this id."},
    {"set_torch_marks", setTorchMarks, METH_VARARGS,
     "set_torch_marks(allowed, disallowed, adopt, own): torch's own sets of ids."},
    {"set_dynamic_sources", setDynamicSourcesFromPython, METH_O,
     "set_dynamic_sources(function or None): (source, rank) -> (dynamic dims, unbacked dims)."},
    {"error_on_break", errorOnBreakFromPython, METH_NOARGS,
     "Whether a break is an error on this thread."},
    {"set_error_on_break", setErrorOnBreakFromPython, METH_O, "set_error_on_break(bool)"},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace stator::interpret
