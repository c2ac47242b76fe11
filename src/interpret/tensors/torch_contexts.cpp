// torch's context managers that become nodes of the graph: autocast and inference mode, under the names that
// TorchDynamo gives them. The graph enters and leaves them by itself, so both ends have to lie in it: a trace that ends
// in between starts over and breaks at the entry, and what follows is captured under the real state.
#include "interpret/tensors/torch_contexts.h"

#include "base/error_aside.h"
#include "base/text.h"
#include "bytecode/opcodes.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/attribute_writes.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/native_calls.h"
#include "interpret/tensors/rows.h"
#include "shapes/arg.h"

#include <string_view>

namespace stator::interpret {

namespace {

Out attribute(Tracer& t, PyObject* object, const char* name) {
  Ref<> text = stealRef(PyUnicode_InternFromString(name));
  return t.above.runEntered(getAttr(t, object, text.get()));
}

Flow store(Tracer& t, PyObject* object, const char* name, PyObject* value) {
  Ref<> text = stealRef(PyUnicode_InternFromString(name));
  return t.above.runEntered(setAttr(t, object, text.get(), value)).flow();
}

graph::Node* addNode(Tracer& t, const char* function, Ref<> args) {
  graph::Node* node = t.graphs.current().addCall(
      graph::Op::kCallFunction, newRef(torchObject(function)), std::move(args), Ref<>());
  node->mutates = node->sets_mode = true;
  node->location = t.location();
  node->scope = t.frames.innermost().scope;
  t.frames.commit();
  return node;
}

// Opens a context whose entry is the call of `function`, to be closed by exit().
void open(Tracer& t, PyObject* object, const char* function, const char* leave, Ref<> args) {
  OpenContext context;
  context.object = object;
  context.entered_at = t.frames.instruction();
  context.outer = t.torch.now();
  graph::Node* node = addNode(t, function, std::move(args));
  node->leave = newRef(torchObject(leave));
  context.stand_in =
      graph::makeStandIn(node, nullptr, reinterpret_cast<PyObject*>(&PyBaseObject_Type));
  t.values.addMade(context.stand_in.get(), t.frames.instruction());
  t.torch.contexts().push_back(std::move(context));
}

// Closes the innermost context, which has to be the object's.
bool close(Tracer& t, PyObject* object, const char* function, OpenContext& closed) {
  if (t.torch.contexts().empty() || t.torch.contexts().back().object != object) return false;
  closed = std::move(t.torch.contexts().back());
  t.torch.contexts().pop_back();
  addNode(t, function, stealRef(PyTuple_Pack(1, closed.stand_in.get())));
  return true;
}

bool* autocastFlag(shapes::State& state, std::string_view device) {
  return device == "cpu" ? &state.autocast_cpu : device == "cuda" ? &state.autocast_cuda : nullptr;
}
shapes::DType* autocastDtype(shapes::State& state, std::string_view device) {
  return device == "cpu"    ? &state.autocast_cpu_dtype
         : device == "cuda" ? &state.autocast_cuda_dtype
                            : nullptr;
}

// The device that a question is about: the argument, or cuda.
std::string_view askedDevice(const Args& args) {
  if (args.values.empty()) return "cuda";
  return args.values.size() == 1 && PyUnicode_Check(args.values[0]) ? utf8(args.values[0]) : "";
}

bool cacheEnabled(Tracer& t) {
  for (size_t i = t.torch.contexts().size(); i-- > 0;) {
    if (t.torch.contexts()[i].sets_cache) return t.torch.contexts()[i].cache;
  }
  Ref<> now = stealRef(PyObject_CallNoArgs(torchObject("torch.is_autocast_cache_enabled")));
  return now.get() == Py_True;
}

Out isAutocastEnabled(Tracer& t, const Args& args) {
  bool* flag = autocastFlag(t.torch.now(), askedDevice(args));
  if (flag == nullptr) return callNative(t, torchObject("torch.is_autocast_enabled"), args);
  return newRef(*flag ? Py_True : Py_False);
}
Out isAutocastCpuEnabled(Tracer& t, const Args&) {
  return newRef(t.torch.now().autocast_cpu ? Py_True : Py_False);
}
Out isAutocastCacheEnabled(Tracer& t, const Args&) {
  return newRef(cacheEnabled(t) ? Py_True : Py_False);
}

Out getAutocastDtype(Tracer& t, const Args& args) {
  std::string_view device = askedDevice(args);
  bool* flag = autocastFlag(t.torch.now(), device);
  if (flag == nullptr || !*flag)
    return callNative(t, torchObject("torch.get_autocast_dtype"), args);
  return newRef(shapes::dtypeObject(*autocastDtype(t.torch.now(), device)));
}

Out enterAutocast(Tracer& t, const Args& args) {
  if (args.values.size() != 1)
    return t.breakWith(Reason::kRaises, "autocast.__enter__() takes no arguments");
  PyObject* self = args.values[0];
  STATOR_VALUE(device, attribute(t, self, "device"));
  STATOR_VALUE(dtype, attribute(t, self, "fast_dtype"));
  STATOR_VALUE(enabled, attribute(t, self, "_enabled"));
  STATOR_VALUE(cache, attribute(t, self, "_cache_enabled"));
  std::string_view name = PyUnicode_Check(device.get()) ? utf8(device.get()) : "";
  bool* flag = autocastFlag(t.torch.now(), name);
  shapes::DType scalar_type = shapes::dtypeOf(dtype.get());
  if (flag == nullptr || !PyBool_Check(enabled.get()) || !PyBool_Check(cache.get()) ||
      scalar_type == shapes::DType::Undefined) {
    return t.breakWith(Reason::kUnsupportedContext, "autocast for " + std::string(name));
  }
  Args asked;
  asked.values = {device.get()};
  asked.positional = 1;
  STATOR_VALUE(before, getAutocastDtype(t, asked));
  STATOR_FLOW(store(t, self, "prev_cache_enabled", cacheEnabled(t) ? Py_True : Py_False));
  STATOR_FLOW(store(t, self, "prev", *flag ? Py_True : Py_False));
  STATOR_FLOW(store(t, self, "prev_fastdtype", before.get()));
  open(t, self, "torch.amp.autocast_mode._enter_autocast", "torch.amp.autocast_mode._exit_autocast",
       stealRef(PyTuple_Pack(4, device.get(), dtype.get(), enabled.get(), cache.get())));
  t.torch.contexts().back().sets_cache = true;
  t.torch.contexts().back().cache = cache.get() == Py_True;
  *flag = enabled.get() == Py_True;
  *autocastDtype(t.torch.now(), name) = scalar_type;
  return newRef(self);
}

Out exitAutocast(Tracer& t, const Args& args) {
  OpenContext closed;
  if (args.values.empty() ||
      !close(t, args.values[0], "torch.amp.autocast_mode._exit_autocast", closed)) {
    return t.breakWith(Reason::kUnsupportedContext, "leaves an autocast that was entered before");
  }
  t.torch.now().autocast_cpu = closed.outer.autocast_cpu;
  t.torch.now().autocast_cuda = closed.outer.autocast_cuda;
  t.torch.now().autocast_cpu_dtype = closed.outer.autocast_cpu_dtype;
  t.torch.now().autocast_cuda_dtype = closed.outer.autocast_cuda_dtype;
  return newRef(Py_False);
}

Out enterInferenceMode(Tracer& t, const Args& args) {
  if (args.values.size() != 1)
    return t.breakWith(Reason::kRaises, "inference_mode.__enter__() takes no arguments");
  STATOR_VALUE(mode, attribute(t, args.values[0], "mode"));
  if (!PyBool_Check(mode.get())) return t.breakWith(Reason::kUnsupportedContext, "inference_mode");
  open(t, args.values[0], "torch.autograd.grad_mode._enter_inference_mode",
       "torch.autograd.grad_mode._exit_inference_mode", stealRef(PyTuple_Pack(1, mode.get())));
  t.torch.now().inference = mode.get() == Py_True;
  t.torch.now().grad_enabled = !t.torch.now().inference;
  return newRef(Py_None);
}

Out exitInferenceMode(Tracer& t, const Args& args) {
  OpenContext closed;
  if (args.values.empty() ||
      !close(t, args.values[0], "torch.autograd.grad_mode._exit_inference_mode", closed)) {
    return t.breakWith(Reason::kUnsupportedContext,
                       "leaves an inference mode that was entered before");
  }
  t.torch.now().inference = closed.outer.inference;
  t.torch.now().grad_enabled = closed.outer.grad_enabled;
  return newRef(Py_None);
}

// A profile that nobody can look at: made for a `with` without `as`, and without a function that gets the trace.
Out profile(Tracer& t, const Args& args) {
  const SymbolicFrame& frame = t.frames.innermost();
  const auto next = static_cast<size_t>(callIndex(frame)) + 1;
  const std::vector<bytecode::Instr>& instrs = frame.code->instrs();
  bool unseen = next + 1 < instrs.size() && instrs[next].opcode == BEFORE_WITH &&
                instrs[next + 1].opcode == POP_TOP && args.positional == 0;
  for (const char* reader : {"on_trace_ready", "schedule", "execution_trace_observer"})
    unseen &= args.keyword(reader) == nullptr;
  if (!unseen) return t.breakWith(Reason::kCallsOutside, "a profiler");
  static PyObject* const name = PyUnicode_InternFromString("profile");
  return t.above.callNested(torchObject("stator.polyfills.contexts.Range"), {name});
}

// enter_sdpa(context, backends, set_priority) of our polyfill: a node that chooses the kernels of attention.
Out enterSdpa(Tracer& t, const Args& args) {
  static auto* kind = reinterpret_cast<PyTypeObject*>(torchObject("torch._C._SDPBackend"));
  if (args.values.size() != 3 || !PyBool_Check(args.values[2]))
    return t.breakWith(Reason::kUnsupportedContext, "sdpa_kernel");
  Ref<> backends = newRef(args.values[1]);
  if (PyList_Check(backends.get())) {
    STATOR_VALUE(items, contents(t, backends.get()));
    backends = items;
  } else {
    backends = stealRef(PyList_New(0));
    PyList_Append(backends.get(), args.values[1]);
  }
  Ref<> numbers = stealRef(PyList_New(0));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(backends.get()); ++i) {
    PyObject* backend = PyList_GET_ITEM(backends.get(), i);
    if (kind == nullptr || Py_TYPE(backend) != kind)
      return t.breakWith(Reason::kUnsupportedContext, "sdpa_kernel");
    if (const sources::Source* source = t.sourceOf(backend))
      t.world.guard(guards::Guard{guards::GuardKind::kIs, source, nullptr, newRef(backend)});
    Ref<> number = stealRef(PyNumber_Long(backend));
    if (!number) return t.raiseCurrentError();
    if (PySequence_Contains(numbers.get(), number.get()) == 0)
      PyList_Append(numbers.get(), number.get());
  }
  Ref<> tuple = stealRef(PyList_AsTuple(numbers.get()));
  bool math =
      PyTuple_GET_SIZE(tuple.get()) == 1 && PyLong_AsLong(PyTuple_GET_ITEM(tuple.get(), 0)) == 0;
  open(t, args.values[0], "stator._contexts.enter_sdpa", "stator._contexts.leave_sdpa",
       stealRef(PyTuple_Pack(2, tuple.get(), args.values[2])));
  t.torch.now().other = math ? 1 : 2;  // as the rule of scaled_dot_product_attention reads it
  return newRef(Py_None);
}

Out leaveSdpa(Tracer& t, const Args& args) {
  OpenContext closed;
  if (args.values.empty() || !close(t, args.values[0], "stator._contexts.leave_sdpa", closed)) {
    return t.breakWith(Reason::kUnsupportedContext,
                       "leaves an sdpa_kernel that was entered before");
  }
  t.torch.now().other = closed.outer.other;
  return newRef(Py_None);
}

}  // namespace

// While a function of the user's is run for its result's shape.
OpenContextScope::OpenContextScope(const Tracer& tracer) {
  for (const OpenContext& context : tracer.torch.contexts()) {
    if (!context.stand_in) continue;  // a torch function mode, which the graph does not enter
    const graph::Node* node = graph::asStandIn(context.stand_in.get())->node;
    Ref<> token = stealRef(PyObject_Call(node->target.get(), node->args.get(), nullptr));
    if (!token)
      PyErr_Clear();
    else
      entered_.emplace_back(node->leave, token);
  }
}

OpenContextScope::~OpenContextScope() {
  ErrorKept kept;
  for (size_t i = entered_.size(); i-- > 0;) {
    Ref<> done = stealRef(PyObject_CallOneArg(entered_[i].first.get(), entered_[i].second.get()));
    if (!done) PyErr_Clear();
  }
}

void registerTorchContexts() {
  registerHandler("torch.amp.autocast_mode.autocast.__enter__", enterAutocast);
  registerHandler("torch.amp.autocast_mode.autocast.__exit__", exitAutocast);
  registerHandler("torch.autograd.grad_mode.inference_mode.__enter__", enterInferenceMode);
  registerHandler("torch.autograd.grad_mode.inference_mode.__exit__", exitInferenceMode);
  registerHandler("stator.polyfills.contexts.enter_sdpa", enterSdpa);
  registerHandler("stator.polyfills.contexts.leave_sdpa", leaveSdpa);
  registerPolyfill("torch.nn.attention.sdpa_kernel", "contexts.SdpaKernel");
  registerPolyfill("torch.autograd.graph.disable_saved_tensors_hooks",
                   "contexts.DisableSavedTensorsHooks");
  registerPolyfill("torch.autograd.profiler.record_function", "contexts.Range");
  registerPolyfill("torch.fx.traceback.annotate", "contexts.Range");
  registerHandler("torch.autograd.profiler.profile", profile);
  Ref<> profiler = stealRef(PyUnicode_FromString("torch.profiler"));
  if (Ref<> loaded = stealRef(PyImport_GetModule(profiler.get())))
    registerHandler("torch.profiler.profile", profile);
  registerWholePolyfill("torch._C._SDPAParams", "contexts.SdpaParams");
  registerHandler("torch.is_autocast_enabled", isAutocastEnabled);
  registerHandler("torch.is_autocast_cpu_enabled", isAutocastCpuEnabled);
  registerHandler("torch.is_autocast_cache_enabled", isAutocastCacheEnabled);
  registerHandler("torch.get_autocast_dtype", getAutocastDtype);
}

}  // namespace stator::interpret
