// The modes of __torch_function__ that are active in a trace: entered by `with`, pushed and popped by hand, counted,
// and a default device.
#include "interpret/tensors/function_modes.h"

#include "base/check.h"
#include "interpret/core/arguments.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/instance_attributes.h"
#include "interpret/tensors/rows.h"

namespace stator::interpret {

using tensor::TorchFunction;

namespace {

PyTypeObject* deviceContextType() {
  static auto* const type =
      reinterpret_cast<PyTypeObject*>(torchObject("torch.utils._device.DeviceContext"));
  return type;
}

}  // namespace

Ref<> deviceOfMode(PyObject* mode) {
  if (Py_TYPE(mode) == deviceType()) return newRef(mode);
  if (Py_TYPE(mode) != deviceContextType()) return Ref<>();
  static PyObject* const name = PyUnicode_InternFromString("device");
  return Ref<>::create(rawInstanceAttr(mode, name));
}

void readFunctionModes(Tracer& tracer) {
  tracer.torch_function.noteRelevant();
  for (int64_t i = 0; i < tensor::functionModes(); ++i) {
    PyObject* mode = tensor::functionMode(i);
    const Source* source = tracer.world.root(SourceKind::kFunctionMode, i);
    if (Py_TYPE(mode) == deviceContextType()) {
      // Its device is part of the guard of the thread's state.
      tracer.values.addOutside(mode, source);
      tracer.torch_function.modes().push_back(newRef(mode));
      continue;
    }
    tracer.torch_function.noteOuterModes();
    Out read = fromOutside(tracer, mode, source);
    STATOR_CHECK(read.ok(), "a mode that cannot be read");
    tracer.torch_function.modes().push_back(read.take());
  }
}

namespace {

void openContext(Tracer& t, PyObject* object) {
  OpenContext context;
  context.object = object;
  context.entered_at = t.frames.instruction();
  context.outer = t.torch.now();
  t.world.keep(newRef(object));
  t.torch.contexts().push_back(std::move(context));
  t.frames.commit();
}

bool closeContext(Tracer& t, PyObject* object) {
  if (t.torch.contexts().empty() || t.torch.contexts().back().object != object) return false;
  t.torch.contexts().pop_back();
  t.frames.commit();
  return true;
}

Out enterMode(Tracer& t, const Args& args) {
  if (args.values.size() != 1) return t.breakWith(Reason::kRaises, "__enter__");
  openContext(t, args.values[0]);
  t.torch_function.modes().push_back(newRef(args.values[0]));
  t.torch_function.noteRelevant();
  return newRef(args.values[0]);
}

Out leaveMode(Tracer& t, const Args& args) {
  if (args.values.empty() || t.torch_function.modes().empty() ||
      t.torch_function.modes().back().get() != args.values[0] || !closeContext(t, args.values[0])) {
    return t.breakWith(Reason::kUnsupportedContext, "leaves a mode that was entered before");
  }
  t.torch_function.modes().pop_back();
  return newRef(Py_None);
}

Out returnNone(Tracer&, const Args&) { return newRef(Py_None); }

Out defaultDevice(Tracer& t, const Args& args) {
  if (!args.values.empty())
    return t.breakWith(Reason::kRaises, "get_default_device() takes no arguments");
  for (size_t i = t.torch_function.modes().size(); i-- > 0;) {
    Ref<> device = deviceOfMode(t.torch_function.modes()[i].get());
    if (!device) continue;
    Ref<> index = stealRef(PyObject_GetAttrString(device.get(), "index"));
    Ref<> kind = stealRef(PyObject_GetAttrString(device.get(), "type"));
    if (index.get() == Py_None && PyUnicode_CompareWithASCIIString(kind.get(), "cpu") != 0 &&
        PyUnicode_CompareWithASCIIString(kind.get(), "meta") != 0) {
      return t.breakWith(Reason::kCallsOutside,
                         "get_default_device() of a device without an index");
    }
    return device;
  }
  return t.fromNative(stealRef(PyObject_CallOneArg(reinterpret_cast<PyObject*>(deviceType()),
                                                   stealRef(PyUnicode_FromString("cpu")).get())));
}

// switch_torch_function(context, state) and restore_torch_function(context, before) of our polyfills.
Out switchOff(Tracer& t, const Args& args) {
  if (args.values.size() != 2 || !PyLong_Check(args.values[1]))
    return t.breakWith(Reason::kUnsupportedContext, "DisableTorchFunction");
  openContext(t, args.values[0]);
  auto wanted = static_cast<TorchFunction>(PyLong_AsLong(args.values[1]));
  Ref<> before = stealRef(PyLong_FromLong(static_cast<long>(t.torch_function.state())));
  if (wanted > t.torch_function.state()) t.torch_function.setState(wanted);
  return before;
}

Out restore(Tracer& t, const Args& args) {
  if (args.values.size() != 2 || !PyLong_Check(args.values[1]) ||
      !closeContext(t, args.values[0])) {
    return t.breakWith(Reason::kUnsupportedContext, "leaves a context that was entered before");
  }
  t.torch_function.setState(static_cast<TorchFunction>(PyLong_AsLong(args.values[1])));
  return newRef(Py_None);
}

// What is on the stack by hand: the plan does the same to the real one, in the same order.
Out pushMode(Tracer& t, const Args& args) {
  NEED(1, "_push_on_torch_function_stack");
  if (!t.torch.contexts().empty())
    return t.breakWith(Reason::kCallsOutside, "a mode is pushed inside of a context");
  t.torch_function.modes().push_back(newRef(args.values[0]));
  t.torch_function.noteRelevant();
  t.effects.callLate(
      {torchObject("torch._C._push_on_torch_function_stack"), {newRef(args.values[0])}});
  return newRef(Py_None);
}

Out popMode(Tracer& t, const Args& args) {
  NEED(0, "_pop_torch_function_stack");
  if (t.torch_function.modes().empty())
    return t.breakWith(Reason::kCallsOutside, "Popping from an empty torch function mode stack");
  if (!t.torch.contexts().empty())
    return t.breakWith(Reason::kCallsOutside, "a mode is popped inside of a context");
  Ref<> mode = t.torch_function.modes().back();
  if (const Source* source = t.sourceOf(mode.get()))
    t.world.guard(Guard{GuardKind::kType, source, nullptr,
                        newRef(reinterpret_cast<PyObject*>(Py_TYPE(mode.get())))});
  t.torch_function.modes().pop_back();
  t.effects.callLate({torchObject("torch._C._pop_torch_function_stack"), {}});
  return mode;
}

Out countModes(Tracer& t, const Args& args) {
  NEED(0, "_len_torch_function_stack");
  return stealRef(PyLong_FromSize_t(t.torch_function.modes().size()));
}

Out modeAt(Tracer& t, const Args& args) {
  NEED(1, "_get_function_stack_at");
  const Py_ssize_t index = PyLong_Check(args.values[0]) ? PyLong_AsSsize_t(args.values[0]) : -1;
  if (index < 0 || index >= static_cast<Py_ssize_t>(t.torch_function.modes().size()))
    return t.breakWith(Reason::kRaises, "_get_function_stack_at");
  return t.torch_function.modes()[static_cast<size_t>(index)];
}

}  // namespace

void registerFunctionModes() {
  registerHandler("torch.overrides.TorchFunctionMode.__init__", returnNone);
  registerHandler("torch.overrides.TorchFunctionMode.__enter__", enterMode);
  registerHandler("torch.overrides.TorchFunctionMode.__exit__", leaveMode);
  registerHandler("torch.device.__enter__", enterMode);
  registerHandler("torch.device.__exit__", leaveMode);
  registerHandler("torch.get_default_device", defaultDevice);
  registerHandler("stator.polyfills.contexts.switch_torch_function", switchOff);
  registerHandler("stator.polyfills.contexts.restore_torch_function", restore);
  registerHandler("torch._C._push_on_torch_function_stack", pushMode);
  registerHandler("torch._C._pop_torch_function_stack", popMode);
  registerHandler("torch._C._len_torch_function_stack", countModes);
  registerHandler("torch._C._get_function_stack_at", modeAt);
}

}  // namespace stator::interpret
