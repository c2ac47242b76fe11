// Functions written in Python: arguments bound as CPython binds them, and a frame of the trace's own.
#include "interpret/calls/inlining.h"

#include "base/check.h"
#include "interpret/calls/calls.h"
#include "interpret/calls/folded_modules.h"
#include "interpret/calls/switches.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/errors.h"
#include "interpret/tensors/arrays.h"
#include "python/objects.h"

namespace stator::interpret {

namespace {

// Binds arguments to the callee's slots as CPython does. False: they do not fit, and the real call has to raise.
bool bind(Tracer& tracer, PyFunctionObject* function, PyCodeObject* code, const Args& args,
          SymbolicFrame& frame, Flow& flow) {
  int positional = code->co_argcount;
  int keyword_only = code->co_kwonlyargcount;
  int total = positional + keyword_only;
  bool takes_args = (code->co_flags & CO_VARARGS) != 0,
       takes_kwargs = (code->co_flags & CO_VARKEYWORDS) != 0;
  auto& slots = frame.slots;
  size_t given = args.positional;
  size_t direct = std::min(given, static_cast<size_t>(positional));
  for (size_t i = 0; i < direct; ++i) slots[i] = newRef(args.values[i]);
  int next_slot = total;
  if (takes_args) {
    Ref<> rest = stealRef(PyTuple_New(static_cast<Py_ssize_t>(given - direct)));
    for (size_t i = direct; i < given; ++i)
      PyTuple_SET_ITEM(rest.get(), static_cast<Py_ssize_t>(i - direct), Py_NewRef(args.values[i]));
    slots[static_cast<size_t>(next_slot++)] = rest;
  } else if (given > direct) {
    return false;
  }
  Ref<> extra;
  if (takes_kwargs) {
    extra = stealRef(PyDict_New());
    slots[static_cast<size_t>(next_slot)] = extra;
  }
  PyObject* slot_names = stator_code_slot_names(code);
  for (size_t k = 0; k < args.keywordCount(); ++k) {
    PyObject* name = args.name(k);
    PyObject* value = args.values[args.positional + k];
    int found = -1;
    for (int i = code->co_posonlyargcount; i < total && found < 0; ++i) {
      PyObject* candidate = PyTuple_GET_ITEM(slot_names, i);
      if (candidate == name || PyUnicode_Compare(candidate, name) == 0) found = i;
    }
    if (found >= 0) {
      if (slots[static_cast<size_t>(found)]) return false;
      slots[static_cast<size_t>(found)] = newRef(value);
    } else {
      if (!extra) return false;
      PyDict_SetItem(extra.get(), name, value);
    }
  }
  const Source* source = tracer.sourceOf(reinterpret_cast<PyObject*>(function));
  bool outside = source != nullptr;
  PyObject* defaults = function->func_defaults;
  bool defaults_outside = outside;
  if (values::Info* info = tracer.values.find(reinterpret_cast<PyObject*>(function));
      outside && info != nullptr && info->overlay) {
    static PyObject* const defaults_name = PyUnicode_InternFromString("__defaults__");
    if (PyObject* written = PyDict_GetItemWithError(info->overlay.get(), defaults_name)) {
      defaults = written;
      defaults_outside = false;
    }
  }
  if (defaults != nullptr && given < static_cast<size_t>(positional)) {
    Py_ssize_t count = PyTuple_GET_SIZE(defaults);
    for (Py_ssize_t i = std::max<Py_ssize_t>(0, count - positional); i < count; ++i) {
      size_t slot = static_cast<size_t>(positional - count + i);
      if (slots[slot]) continue;
      PyObject* raw = PyTuple_GET_ITEM(defaults, i);
      Out value = defaults_outside
                      ? fromOutside(tracer, raw,
                                    tracer.world.child(SourceKind::kDefault, source, nullptr, i))
                      : Out(newRef(raw));
      if (!value.ok()) {
        flow = value.flow();
        return true;
      }
      slots[slot] = value.take();
    }
  }
  for (int i = 0; i < positional; ++i) {
    if (!slots[static_cast<size_t>(i)]) return false;
  }
  for (int i = positional; i < total; ++i) {
    if (slots[static_cast<size_t>(i)]) continue;
    PyObject* name = PyTuple_GET_ITEM(slot_names, i);
    PyObject* raw = function->func_kwdefaults != nullptr
                        ? PyDict_GetItemWithError(function->func_kwdefaults, name)
                        : nullptr;
    if (raw == nullptr) return false;
    Out value =
        outside ? fromOutside(tracer, raw, tracer.world.child(SourceKind::kKwDefault, source, name))
                : Out(newRef(raw));
    if (!value.ok()) {
      flow = value.flow();
      return true;
    }
    slots[static_cast<size_t>(i)] = value.take();
  }
  return true;
}

}  // namespace

namespace {

// A generator has the names that its function had when it was called.
bool wasRenamed(Tracer& t, PyObject* function) {
  values::Info* info = t.values.find(function);
  if (info == nullptr || info->origin != values::Origin::kOutside) return false;
  const Ref<>& written = values::attributePart(info)->overlay;
  return written && (PyDict_GetItemString(written.get(), "__name__") != nullptr ||
                     PyDict_GetItemString(written.get(), "__qualname__") != nullptr);
}

}  // namespace

Out inlineFunction(Tracer& tracer, PyObject* callable, const Args& args, Continuation then) {
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(callable));
  switch (markOf(callable)) {
    case Mark::kDisabled:
    case Mark::kDisabledAlone:
      if (PyObject* own = behindTorchDynamosMark(callable)) {
        STATOR_VALUE(original, fromOutside(tracer, own, tracer.world.sources().pinned(own)));
        return call(tracer, original.get(), args, then);
      }
      return tracer.breakWith(Reason::kDisabled, nameOf(callable) + reasonOfDisabling(callable));
    case Mark::kForbidden:
      return tracer.breakWith(Reason::kForbidden, nameOf(callable));
    case Mark::kConstantResult:
      return constantResult(tracer, callable, args);
    case Mark::kNone:
      break;
  }
  if (FunctionHandler handler = findCode(code)) return handler(tracer, callable, args);
  // A wrapper that took over the name of what it wraps (functools.wraps).
  if (auto* function = reinterpret_cast<PyFunctionObject*>(callable);
      function->func_qualname != code->co_qualname && function->func_module != nullptr &&
      PyUnicode_CheckExact(function->func_module) &&
      PyUnicode_CompareWithASCIIString(function->func_module,
                                       "torch.fx.experimental.symbolic_shapes") == 0) {
    if (FunctionHandler late = findLate(callable)) return late(tracer, callable, args);
  }
  return enterFunction(tracer, callable, args, then);
}

Out enterFunction(Tracer& tracer, PyObject* callable, const Args& args, Continuation then) {
  auto* function = reinterpret_cast<PyFunctionObject*>(callable);
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  bytecode::CodeInfo* info = bytecode::CodeInfo::of(code);
  if (info == nullptr) throw PythonError();
  if (codePolicy(code) == CodePolicy::kSkip) {
    if (FunctionHandler late = findLate(callable)) return late(tracer, callable, args);
    return tracer.breakWith(Reason::kSkippedModule, nameOf(callable));
  }
  if (stator_code_traced(code))
    return tracer.breakWith(Reason::kCallsOutside, nameOf(callable) + ", which a tool watches");
  if ((code->co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0)
    return tracer.breakWith(Reason::kUnsupportedGenerator, "a coroutine");
  if ((code->co_flags & CO_GENERATOR) != 0 && wasRenamed(tracer, callable))
    return tracer.breakWith(Reason::kUnsupportedGenerator, "of a function that got another name");
  if (tracer.frames.size() > 400) return tracer.breakWith(Reason::kTraceLimit, "recursion");
  auto entered = std::make_unique<SymbolicFrame>();
  SymbolicFrame& frame = *entered;
  frame.code = info;
  frame.keep_code = newRef(reinterpret_cast<PyObject*>(code));
  frame.function = newRef(callable);
  frame.globals = function->func_globals;
  frame.builtins = function->func_builtins;
  frame.slots.resize(static_cast<size_t>(info->slotCount()));
  Flow flow = Flow::kOk;
  if (!bind(tracer, function, code, args, frame, flow)) return raiseBinding(tracer, callable, args);
  if (flow != Flow::kOk) return flow;
  frame.then = then;
  frame.call_site = tracer.location();
  frame.entered_at = tracer.frames.instruction();
  frame.scope = tracer.frames.empty() ? nullptr : tracer.frames.innermost().scope;
  frame.folding = !tracer.frames.empty() && tracer.frames.innermost().folding;
  if ((code->co_flags & CO_GENERATOR) != 0) {
    // The prologue of a generator makes its cells and stops at RETURN_GENERATOR; the first send goes on behind it.
    frame.generator = true;
    Ref<> generator = makeTraceGenerator(std::move(entered));
    asTraceIterator(generator.get())->index = 0;
    // stands for an object of another type: never rebuilt
    asTraceIterator(generator.get())->flag = isPolyfill(code);
    return tracer.made(generator);
  }
  if (tracer.options.specialize_modules) startNamedFold(tracer, callable, args, frame);
  tracer.frames.enter(std::move(entered));
  if (isArrayCode(code)) return settle(tracer, Flow::kEntered);
  return Flow::kEntered;
}

}  // namespace stator::interpret
