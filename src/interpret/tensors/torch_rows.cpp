// The rows of torch: which functions and methods are nodes, which are facts, which run outside of graphs.
#include "base/text.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/symbols.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/native_calls.h"
#include "interpret/objects/operators.h"
#include "interpret/tensors/rows.h"
#include "interpret/tensors/tensor_attributes.h"
#include "interpret/tensors/tensor_call.h"
#include "python/objects.h"
#include "python/opcode_numbers.h"
#include "shapes/arg.h"
#include "symbolic/sym_int.h"
#include "tensor/devices.h"

#include <string_view>

namespace stator::interpret {

Out fromLong(Tracer& t, PyObject* value);
namespace {

Out returnTrue(Tracer&, const Args&) { return newRef(Py_True); }
Out returnFalse(Tracer&, const Args&) { return newRef(Py_False); }
Out returnNone(Tracer&, const Args&) { return newRef(Py_None); }

// nn.Module._call_impl would leave out the hooks that are to be called after an error too.
Out isCompiling(Tracer& t, const Args&) { return newRef(runsModuleCall(t) ? Py_False : Py_True); }

// `with torch.cuda.device(i)`: gives the device that was current. One that stays is no change.
Out exchangeDevice(Tracer& t, const Args& args) {
  const bool one = args.values.size() == 1 && args.positional == 1 && PyLong_Check(args.values[0]);
  const int64_t wanted = one ? PyLong_AsLongLong(args.values[0]) : -1;
  if (one && wanted == -1 && !PyErr_Occurred()) return newRef(args.values[0]);
  PyErr_Clear();
  if (!one || wanted != tensor::currentDevice())
    return t.breakWith(Reason::kCallsOutside, "sets the current device");
  return newRef(args.values[0]);
}

Out isGradEnabled(Tracer& t, const Args&) {
  return newRef(t.torch.now().grad_enabled ? Py_True : Py_False);
}
Out isInferenceEnabled(Tracer& t, const Args&) {
  return newRef(t.torch.now().inference ? Py_True : Py_False);
}

Out setGradEnabled(Tracer& t, const Args& args) {
  if (args.values.size() != 1 || !PyBool_Check(args.values[0]))
    return t.breakWith(Reason::kRaises, "_set_grad_enabled of what is no bool");
  bool enabled = args.values[0] == Py_True;
  // torch's own context managers leave out what changes nothing; a call that the program makes itself stays in the
  // graph.
  PyObject* file = t.frames.innermost().code->code()->co_filename;
  bool own = std::string_view(utf8(file)).ends_with("torch/autograd/grad_mode.py");
  if (enabled == t.torch.now().grad_enabled && own) return newRef(Py_None);
  Ref<> tuple = stealRef(PyTuple_Pack(1, args.values[0]));
  graph::Node* node = t.graphs.current().addCall(
      graph::Op::kCallFunction, newRef(torchObject("torch._C._set_grad_enabled")), tuple, Ref<>());
  node->mutates = node->sets_mode = true;
  node->location = t.location();
  node->scope = t.frames.innermost().scope;
  t.torch.now().grad_enabled = enabled;
  return newRef(Py_None);
}

Out isTensor(Tracer& t, const Args& args) {
  if (args.values.size() != 1) return t.breakWith(Reason::kRaises, "is_tensor");
  if (graph::isStandIn(args.values[0])) return newRef(Py_True);
  Args asked;
  asked.values = {args.values[0], reinterpret_cast<PyObject*>(tensorType())};
  asked.positional = 2;
  return t.above.callNested(builtinFunction("isinstance"), asked);
}

// Where torch.autograd.grad and its relatives have the arguments that decide how their tensors are differentiated.
struct GradientArguments {
  size_t of, create_graph, by;
};

// A backend that differentiates makes one function of autograd's of a graph: gradients by values that lie inside of it
// are not to be had from outside, nor gradients of its gradients.
Out breakAtGradients(Tracer& t, const Args& args, const GradientArguments& places) {
  auto argument = [&](size_t place, const char* name) {
    return place < args.positional ? args.values[place] : args.keyword(name);
  };
  auto isMade = [](PyObject* value) {
    bool made = false;
    graph::forEachStandIn(value, [&](graph::StandIn* used) {
      made |=
          used->node->op != graph::Op::kInput && used->meta != nullptr && used->meta->requires_grad;
    });
    return made;
  };
  PyObject* again = argument(places.create_graph, "create_graph");
  const bool is_again = again != nullptr && again != Py_False && again != Py_None;
  if (isMade(args.values.empty() ? nullptr : args.values[places.of]) &&
      (is_again || isMade(argument(places.by, "inputs"))))
    t.ending.noteDifferentiatesWithin();
  return t.breakWith(Reason::kBackward);
}

Out breakAtGrad(Tracer& t, const Args& args) { return breakAtGradients(t, args, {0, 4, 1}); }
Out breakAtBackward(Tracer& t, const Args& args) { return breakAtGradients(t, args, {0, 3, 5}); }
Out breakAtOwnBackward(Tracer& t, const Args& args) { return breakAtGradients(t, args, {0, 3, 4}); }

Out makeSize(Tracer& t, const Args& args) {
  if (args.values.size() != 1) return callNative(t, reinterpret_cast<PyObject*>(sizeType()), args);
  STATOR_VALUE(items, listOf(t, args.values[0]));
  bool symbols = false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i)
    symbols |= symbolic::isSymInt(PyList_GET_ITEM(items.get(), i));
  if (symbols) {
    shapes::Dims sizes;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
      PyObject* item = PyList_GET_ITEM(items.get(), i);
      if (!symbolic::isSymInt(item) && !PyLong_CheckExact(item))
        return t.breakWith(Reason::kUnsupportedObject, "torch.Size of what are no ints");
      sizes.push_back(symbolic::isSymInt(item) ? symbolic::dimOf(item)
                                               : symbolic::Dim(PyLong_AsLongLong(item)));
    }
    return shapes::sizeObject(sizes);
  }
  if (!isNativeSafe(t, items.get()))
    return t.breakWith(Reason::kUnsupportedObject, "torch.Size of what are no ints");
  return t.fromNative(
      stealRef(PyObject_CallOneArg(reinterpret_cast<PyObject*>(sizeType()), items.get())));
}

// The product of the sizes, of which some may be symbols.
Out sizeNumel(Tracer& t, const Args& args) {
  if (args.values.size() != 1 || !PyTuple_Check(args.values[0]))
    return callNative(t, torchObject("torch.Size.numel"), args);
  STATOR_VALUE(items, listOf(t, args.values[0]));
  Ref<> product = stealRef(PyLong_FromLong(1));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    STATOR_VALUE(next, t.above.runEntered(
                           binary(t, NB_MULTIPLY, product.get(), PyList_GET_ITEM(items.get(), i))));
    product = std::move(next);
  }
  return product;
}

// Tensor.size(dim) and friends are facts; the rest goes through inference.
Out tensorSize(Tracer& t, const Args& args) {
  static PyObject* name = PyUnicode_InternFromString("size");
  if (!args.values.empty() && graph::isStandIn(args.values[0]) && args.positional == 1 &&
      args.keywordCount() == 0) {
    static PyObject* shape = PyUnicode_InternFromString("shape");
    return tensorAttr(t, args.values[0], shape);
  }
  if (args.positional == 2 && graph::isStandIn(args.values[0]) &&
      PyLong_CheckExact(args.values[1])) {
    const auto& sizes = graph::asStandIn(args.values[0])->meta->sizes;
    int64_t dim = PyLong_AsLongLong(args.values[1]), n = static_cast<int64_t>(sizes.size());
    if (dim < 0) dim += n;
    if (dim >= 0 && dim < n && !t.sizes.areCallers())
      return symInt(t, sizes[static_cast<size_t>(dim)]);
  }
  return tensorCall(t, graph::Op::kCallMethod, name, args);
}

// Where an input lies in its storage is no part of its guard: views at other offsets share what was captured.
Out tensorStorageOffset(Tracer& t, const Args& args) {
  static PyObject* name = PyUnicode_InternFromString("storage_offset");
  if (!args.values.empty() && graph::isStandIn(args.values[0])) {
    const shapes::TensorMeta* meta = graph::asStandIn(args.values[0])->meta;
    for (graph::Node* input : t.graphs.root().inputs()) {
      if (meta == nullptr || input->meta == nullptr || meta->storage_id == 0 ||
          input->meta->storage_id != meta->storage_id)
        continue;
      Ref<> offset = stealRef(PyLong_FromLongLong(input->meta->storage_offset.value()));
      t.world.guard(Guard{GuardKind::kEquals,
                          t.world.child(SourceKind::kTensorSize, input->source, nullptr, -1),
                          nullptr, offset});
    }
  }
  return tensorCall(t, graph::Op::kCallMethod, name, args);
}

// torch.ops.<library>.<operator>.<overload>: looked up once for the process, and kept by torch.
Out operatorByName(Tracer& t, const Args& args) {
  if (args.values.size() != 2 || args.keywordCount() != 0 || !PyUnicode_CheckExact(args.values[1]))
    return t.breakWith(Reason::kRaises, "torch.ops");
  Ref<> found = stealRef(PyObject_GetAttr(args.values[0], args.values[1]));
  if (!found) return t.raiseCurrentError();
  if (t.values.find(found.get()) != nullptr || values::isScalar(found.get())) return found;
  return fromOutside(t, found.get(), t.world.sources().pinned(found.get()));
}

// Whether a backward pass under way computes gradients for some inputs alone: there is one engine, and it says so for
// this thread.
Out isCheckpointValid(Tracer& t, const Args&) {
  Ref<> valid = stealRef(PyObject_CallNoArgs(torchObject("torch.autograd._is_checkpoint_valid")));
  if (!valid) return t.raiseCurrentError();
  return valid.get() == Py_True
             ? Out(std::move(valid))
             : Out(t.breakWith(Reason::kCallsOutside, "inside of a backward pass"));
}

// Operations that take a number: eager reads it off a tensor of one element. The same in operations that take the
// tensor itself.
Out withScalarTensor(Tracer& t, const Args& args, PyObject* number, graph::Op op, PyObject* target,
                     const char* polyfill) {
  const shapes::TensorMeta* meta =
      graph::isStandIn(number) ? graph::asStandIn(number)->meta : nullptr;
  if (meta != nullptr && meta->sizes.empty()) return t.above.call(torchObject(polyfill), args);
  return tensorCall(t, op, target, args);
}
Out foreachLerp(Tracer& t, const Args& args) {
  PyObject* weight = args.positional > 2 ? args.values[2] : args.keyword("weight");
  return withScalarTensor(t, args, weight, graph::Op::kCallFunction,
                          torchObject("torch._foreach_lerp_"),
                          "stator.polyfills.tensors.foreach_lerp_");
}
Out foreachPow(Tracer& t, const Args& args) {
  PyObject* base = args.positional > 0 ? args.values[0] : nullptr;
  return withScalarTensor(t, args, base, graph::Op::kCallFunction,
                          torchObject("torch._foreach_pow"),
                          "stator.polyfills.tensors.foreach_pow");
}

void registerModule(const char* module, bool python_functions, std::string_view own_prefix = "") {
  PyObject* owner = torchObject(module);
  if (owner == nullptr) return;
  Ref<> dict = stealRef(PyObject_GetAttrString(owner, "__dict__"));
  if (!dict || !PyDict_Check(dict.get())) {
    PyErr_Clear();
    return;
  }
  PyObject *name = nullptr, *item = nullptr;
  Py_ssize_t position = 0;
  // Beside its operators, `torch` itself holds functions that read or set states of the process.
  PyObject* operators =
      std::string_view(module) == "torch" ? torchObject("torch._C._VariableFunctions") : nullptr;
  while (PyDict_Next(dict.get(), &position, &name, &item)) {
    std::string_view text = utf8(name);
    if (text.substr(0, 2) == "__" || text == "_add_docstr") continue;
    if (PyCFunction_Check(item)) {
      if (operators != nullptr) {
        Ref<> same = stealRef(PyObject_GetAttr(operators, name));
        if (!same) PyErr_Clear();
        if (!same && text != "_segment_reduce") continue;
      }
      registerRow(item, CallRow{CallKind::kGraph, nullptr});
    } else if (python_functions && PyFunction_Check(item) && text[0] != '_') {
      Ref<> home = stealRef(PyObject_GetAttrString(item, "__module__"));
      if (!home || !PyUnicode_Check(home.get())) {
        PyErr_Clear();
        continue;
      }
      std::string_view where = utf8(home.get());
      if (where == module || where == "torch._jit_internal" ||
          (!own_prefix.empty() && where == own_prefix)) {
        registerRow(item, CallRow{CallKind::kGraph, nullptr});
      }
    }
  }
}

}  // namespace

Out fromLong(Tracer& t, PyObject* value) {
  // A subclass of int (IntEnum and the like): torch takes it as the int it is.
  return t.fromNative(stealRef(PyLong_FromLongLong(PyLong_AsLongLong(value))));
}

void registerTorch() {
  for (const char* module :
       {"torch", "torch._C._nn", "torch._C._fft", "torch._C._linalg", "torch._C._special",
        "torch._C._sparse", "torch._C._nested", "torch.linalg", "torch.fft", "torch.special"}) {
    registerModule(module, false);
  }
  registerModule("torch.functional", true);
  registerModule("torch.nn.functional", true);
  // Methods of tensors: those in C, and those that torch.Tensor defines in Python.
  for (PyTypeObject* type : {tensorType(), tensorType()->tp_base}) {
    PyObject *name = nullptr, *item = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(stator_type_dict(type), &position, &name, &item)) {
      if (Py_TYPE(item) == &PyMethodDescr_Type || Py_TYPE(item) == &PyWrapperDescr_Type ||
          PyFunction_Check(item)) {
        registerRow(item, CallRow{CallKind::kGraph, nullptr});
      }
    }
  }
  for (const char* path :
       {"torch.manual_seed", "torch.seed", "torch.initial_seed", "torch.set_num_threads",
        "torch.set_flush_denormal", "torch.use_deterministic_algorithms",
        "torch.Tensor.register_hook", "torch.Tensor.storage", "torch.Tensor.untyped_storage",
        "torch.Tensor.data_ptr", "torch.Tensor.share_memory_",
        // of the memory itself, which no fake has
        "torch.Tensor.is_set_to", "torch.Tensor.apply_", "torch.Tensor.map_", "torch.Tensor.map2_",
        "torch.Tensor.storage_type", "torch.Tensor.is_shared", "torch.Tensor.is_pinned",
        "torch.Tensor.pin_memory", "torch.Tensor.record_stream", "torch.Tensor.retain_grad",
        "torch.Tensor.register_post_accumulate_grad_hook", "torch.Tensor.numpy",
        "torch.Tensor.__repr__", "torch.Tensor.__array__", "torch.Tensor.__reduce_ex__",
        "torch.Tensor.__deepcopy__", "torch.Tensor.set_", "torch.Tensor.__hash__",
        "torch.from_numpy", "torch.frombuffer"}) {
    std::string text(path);
    size_t last = text.rfind('.');
    PyObject* owner = torchObject(text.substr(0, last).c_str());
    Ref<> name = stealRef(PyUnicode_FromString(text.substr(last + 1).c_str()));
    PyObject* found = owner != nullptr && PyType_Check(owner)
                          ? _PyType_Lookup(reinterpret_cast<PyTypeObject*>(owner), name.get())
                          : torchObject(path);
    registerRow(found, CallRow{CallKind::kRefuse, nullptr});
  }
  registerHandler("torch.Tensor.backward", breakAtOwnBackward);
  registerHandler("torch.autograd.backward", breakAtBackward);
  registerHandler("torch.autograd.grad", breakAtGrad);
  registerHandler("torch.Tensor.size", tensorSize);
  registerHandler("torch.Tensor.storage_offset", tensorStorageOffset);
  registerHandler("torch._C._ImperativeEngine.is_checkpoint_valid", isCheckpointValid);
  registerHandler("torch._foreach_lerp_", foreachLerp);
  registerHandler("torch._foreach_pow", foreachPow);
  for (const char* path : {"torch._foreach_lerp_", "torch._foreach_pow"}) allowSymbols(path);
  registerHandler("torch.is_grad_enabled", isGradEnabled);
  registerHandler("torch._C.is_grad_enabled", isGradEnabled);
  registerHandler("torch.is_inference_mode_enabled", isInferenceEnabled);
  registerHandler("torch._C._set_grad_enabled", setGradEnabled);
  registerHandler("torch.is_tensor", isTensor);
  registerHandler("torch.Size", makeSize);
  registerHandler("torch.Size.numel", sizeNumel);
  for (const char* owner : {"_Ops", "_OpNamespace", "OpOverloadPacket"})
    registerHandler((std::string("torch._ops.") + owner + ".__getattr__").c_str(), operatorByName);
  registerHandler("torch.compiler.is_compiling", isCompiling);
  for (const char* path : {"torch.compiler.is_dynamo_compiling", "torch._utils.is_compiling"})
    registerHandler(path, returnTrue);
  for (const char* path : {"torch.jit.is_scripting", "torch.jit.is_tracing",
                           "torch._jit_internal.is_scripting", "torch._C._is_tracing",
                           "torch.compiler.is_exporting", "torch.nn.modules.module.is_scripting"}) {
    registerHandler(path, returnFalse);
  }
  for (const char* path : {"torch._C._log_api_usage_once", "torch._C._get_tracing_state",
                           "torch._logging.warning_once"})
    registerHandler(path, returnNone);
  for (const char* path : {"torch._C._cuda_exchangeDevice", "torch._C._cuda_maybeExchangeDevice"})
    registerHandler(path, exchangeDevice);
  for (const char* path : {"torch.distributed.is_available",
                           "torch._C._len_torch_dispatch_stack",
                           "torch.device",
                           "torch.finfo",
                           "torch.iinfo",
                           "torch.promote_types",
                           "torch.can_cast",
                           "torch.get_num_threads",
                           "torch.typename",
                           "torch._C._get_cudnn_enabled",
                           "torch._C._get_mkldnn_enabled",
                           "torch._C._get_flash_sdp_enabled",
                           "torch.backends.mha.get_fastpath_enabled",
                           "torch.get_autocast_gpu_dtype",
                           "torch._C._get_privateuse1_backend_name",
                           "torch._C._is_any_autocast_enabled",
                           "torch._C._get_cublas_allow_tf32",
                           "torch._C._is_autocast_available",
                           "torch._C._are_functorch_transforms_active",
                           "torch._C._nn._parse_to",
                           "torch.cuda.current_device",
                           "torch.cuda.device_count",
                           "torch.cuda.is_bf16_supported",
                           "torch.cuda.is_available"}) {
    registerPure(path);
  }
  registerPolyfill("torch.broadcast_shapes", "sizes.broadcast_shapes");
}

}  // namespace stator::interpret
