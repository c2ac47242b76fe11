// Functions written in Python: arguments bound as CPython binds them, and a frame of the trace's own.
#include "interpret/calls/inlining.h"

#include "base/check.h"
#include "bytecode/binding.h"
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

// The slots of a frame of the trace's own, which arguments and defaults are bound to.
class Slots {
 public:
  Slots(Tracer& tracer, PyFunctionObject* function, const bytecode::Parameters& parameters,
        const Args& args, SymbolicFrame& frame)
      : tracer_(tracer),
        function_(function),
        parameters_(parameters),
        args_(args),
        slots_(frame.slots),
        source_(tracer.sourceOf(reinterpret_cast<PyObject*>(function))) {}

  // Not kOk: a default could not be read.
  Flow flow() const { return flow_; }

  PyObject* given(Py_ssize_t i) const { return args_.values[static_cast<size_t>(i)]; }
  PyObject* named(Py_ssize_t i) const {
    return args_.values[args_.positional + static_cast<size_t>(i)];
  }
  bool has(int slot) const { return static_cast<bool>(slots_[static_cast<size_t>(slot)]); }
  void set(int slot, PyObject* value) { keep(slot, newRef(value)); }
  void keep(int slot, Ref<> value) { slots_[static_cast<size_t>(slot)] = std::move(value); }
  static bool takesName(PyObject*) { return true; }
  static bool isName(PyObject* parameter, PyObject* name) {
    return parameter == name || PyUnicode_Compare(parameter, name) == 0;
  }
  bool setDefaults(int) {
    PyObject* written = writtenDefaults();
    PyObject* defaults = written != nullptr ? written : function_->func_defaults;
    const Py_ssize_t count = defaults != nullptr ? PyTuple_GET_SIZE(defaults) : 0;
    const Py_ssize_t positional = parameters_.positional;
    for (Py_ssize_t i = std::max<Py_ssize_t>(0, count - positional); i < count; ++i) {
      const int slot = static_cast<int>(positional - count + i);
      if (has(slot)) continue;
      const Source* source = source_ != nullptr && written == nullptr
                                 ? tracer_.world.child(SourceKind::kDefault, source_, nullptr, i)
                                 : nullptr;
      if (!read(slot, PyTuple_GET_ITEM(defaults, i), source)) return false;
    }
    return true;
  }
  bool setKeywordDefault(int slot) {
    PyObject* name = parameters_.name(slot);
    PyObject* raw = function_->func_kwdefaults != nullptr
                        ? PyDict_GetItemWithError(function_->func_kwdefaults, name)
                        : nullptr;
    if (raw == nullptr) return false;
    return read(
        slot, raw,
        source_ != nullptr ? tracer_.world.child(SourceKind::kKwDefault, source_, name) : nullptr);
  }

 private:
  // source null: the function was made in the trace
  bool read(int slot, PyObject* raw, const Source* source) {
    Out value = source != nullptr ? fromOutside(tracer_, raw, source) : Out(newRef(raw));
    flow_ = value.flow();
    if (value.ok()) keep(slot, value.take());
    return flow_ == Flow::kOk;
  }
  PyObject* writtenDefaults() {
    static PyObject* const name = PyUnicode_InternFromString("__defaults__");
    values::Info* info = tracer_.values.find(reinterpret_cast<PyObject*>(function_));
    return source_ != nullptr && info != nullptr && info->overlay
               ? PyDict_GetItemWithError(info->overlay.get(), name)
               : nullptr;
  }

  Tracer& tracer_;
  PyFunctionObject* function_;
  const bytecode::Parameters& parameters_;
  const Args& args_;
  std::vector<Ref<>>& slots_;
  const Source* source_;
  Flow flow_ = Flow::kOk;
};

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
  const bytecode::Parameters parameters(code);
  Slots slots(tracer, function, parameters, args, frame);
  const auto given = static_cast<Py_ssize_t>(args.positional);
  const bool fits = bytecode::bindArguments(parameters, given, args.names, slots);
  if (slots.flow() != Flow::kOk) return slots.flow();
  if (!fits) return raiseBinding(tracer, callable, args);
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
  if (isArrayCode(code)) return runEntered(tracer, Flow::kEntered);
  return Flow::kEntered;
}

}  // namespace stator::interpret
