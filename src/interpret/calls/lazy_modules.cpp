// Lazy modules: `_infer_parameters`, the hook that gives a lazy module its parameters in its first call, runs for real
// during the trace. The one thing a capture does that the program can see. The trace goes on, to find further lazy
// modules, and is then started anew: what it knows of the module is out of date.
#include "base/parts.h"
#include "interpret/calls/inlining.h"
#include "interpret/calls/rows.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/contents.h"

namespace stator::interpret {

namespace {

// Arguments of the trace as objects that native code may have.
class RealArguments {
 public:
  explicit RealArguments(Tracer& tracer) : t_(tracer) {}

  // Whether some tensor does not exist yet, or not with this content.
  bool computed(PyObject* value, int depth = 0) {
    if (graph::isStandIn(value)) {
      const graph::Node* node = graph::asStandIn(value)->node;
      return node->op != graph::Op::kInput || !node->example || node->written;
    }
    if (depth > 8) return true;
    if (!PyTuple_Check(value) && !PyList_Check(value) && !PyDict_Check(value)) return false;
    Out items = contents(t_, value);
    return !items.ok() ||
           !everyPart(items.get(), [&](PyObject* item) { return !computed(item, depth + 1); });
  }

  // Null without an error: some object has no real counterpart.
  Ref<> real(PyObject* value, bool fakes, int depth = 0) {
    if (values::isScalar(value)) return newRef(value);
    if (graph::isStandIn(value))
      return fakes ? fake(graph::asStandIn(value)) : graph::asStandIn(value)->node->example;
    if (depth > 8) return Ref<>();
    if (PyTuple_Check(value) || PyList_Check(value)) {
      Out items = contents(t_, value);
      if (!items.ok()) return Ref<>();
      Ref<> list = stealRef(PyList_New(0));
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
        Ref<> item = real(PySequence_Fast_GET_ITEM(items.get(), i), fakes, depth + 1);
        if (!item || PyList_Append(list.get(), item.get()) < 0) return Ref<>();
      }
      if (PyList_CheckExact(value)) return list;
      Ref<> tuple = stealRef(PyList_AsTuple(list.get()));
      if (PyTuple_CheckExact(value)) return tuple;
      auto* type = reinterpret_cast<PyObject*>(Py_TYPE(value));
      return isNamedTuple(value) && !isStructSequence(value)
                 ? stealRef(PyObject_CallObject(type, tuple.get()))
                 : Ref<>();
    }
    if (PyDict_CheckExact(value) || PyODict_CheckExact(value)) {
      Out items = contents(t_, value);
      if (!items.ok()) return Ref<>();
      Ref<> dict = stealRef(PyDict_CheckExact(value) ? PyDict_New() : PyODict_New());
      PyObject *key = nullptr, *item = nullptr;
      for (Py_ssize_t at = 0; PyDict_Next(items.get(), &at, &key, &item);) {
        Ref<> converted = real(item, fakes, depth + 1);
        if (!converted || PyObject_SetItem(dict.get(), key, converted.get()) < 0) return Ref<>();
      }
      return dict;
    }
    if (values::isConstantDeep(value) || isNativeSafe(t_, value)) return newRef(value);
    values::Info* info = t_.values.find(value);
    bool untouched = info != nullptr && info->origin == values::Origin::kOutside &&
                     !info->overlay && !info->dirty;
    return untouched ? newRef(value) : Ref<>();
  }

 private:
  static Ref<> dims(const shapes::Dims& sizes) {
    Ref<> tuple = stealRef(PyTuple_New(static_cast<Py_ssize_t>(sizes.size())));
    for (size_t i = 0; tuple && i < sizes.size(); ++i)
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                       PyLong_FromLongLong(sizes[i].value()));
    return tuple;
  }

  Ref<> fake(graph::StandIn* stand_in) {
    if (stand_in->meta == nullptr) return Ref<>();
    if (auto known = fakes_.find(stand_in); known != fakes_.end()) return known->second;
    if (!mode_) mode_ = stealRef(PyObject_CallNoArgs(torchObject("stator._lazy.fake_mode")));
    const shapes::TensorMeta& meta = *stand_in->meta;
    t_.torch.noteGradsMatter();
    Ref<> sizes = dims(meta.sizes), strides = dims(meta.strides);
    Ref<> facts =
        stealRef(Py_BuildValue("(OOiiii)", sizes.get(), strides.get(), static_cast<int>(meta.dtype),
                               static_cast<int>(meta.device), static_cast<int>(meta.device_index),
                               meta.requires_grad ? 1 : 0));
    Ref<> made = mode_ && facts
                     ? stealRef(PyObject_CallFunctionObjArgs(torchObject("stator._lazy.fake"),
                                                             mode_.get(), facts.get(), nullptr))
                     : Ref<>();
    if (made) fakes_[stand_in] = made;
    return made;
  }

  Tracer& t_;
  Ref<> mode_;
  std::unordered_map<graph::StandIn*, Ref<>> fakes_;
};

// Whether the trace has changed something that the initialisation may look at.
bool writtenTo(Tracer& t, PyObject* module) {
  values::Info* info = t.values.find(module);
  return info == nullptr || info->overlay || info->attributes != nullptr;
}

// LazyModuleMixin._infer_parameters(self, module, args, kwargs=None)
Out inferParameters(Tracer& t, const Args& args) {
  PyObject* infer = torchObject("torch.nn.modules.lazy.LazyModuleMixin._infer_parameters");
  if (args.keywordCount() != 0 || args.positional < 3 || args.positional > 4)
    return t.breakWith(Reason::kRaises, "_infer_parameters");
  PyObject* module = args.values[0];
  if (t.isMade(module) || args.values[1] != module)
    return inlineFunction(t, infer, args, Continuation::kPush);
  // The new trace has to find the hook gone; one that lies on the stack of the driven frame would be called again.
  if (t.frames.size() == 1 && t.frames.stackAtEntry() > 0)
    return t.breakWith(Reason::kLazyModule, "the trace begins at its initialisation");
  if (writtenTo(t, module))
    return t.breakWith(Reason::kLazyModule, "its attributes were written before");
  // Eager draws the parameters after what the program has drawn before.
  if (t.effects.drewRandom() && !t.options.fullgraph)
    return t.breakWith(Reason::kLazyModule, "random numbers were drawn before");
  PyObject* helper = torchObject("stator._lazy.initialise");
  if (helper == nullptr) return t.breakWith(Reason::kLazyModule);
  RealArguments arguments(t);
  Ref<> no_keywords = stealRef(PyDict_New());
  PyObject* keywords = args.positional == 4 ? args.values[3] : no_keywords.get();
  bool fakes = arguments.computed(args.values[2]) || arguments.computed(keywords);
  Ref<> real_args = arguments.real(args.values[2], fakes),
        real_keywords = arguments.real(keywords, fakes);
  if (!real_args || !real_keywords) {
    PyErr_Clear();
    return t.breakWith(Reason::kLazyModule, "an argument cannot be handed to it during capture");
  }
  Ref<> done = stealRef(
      PyObject_CallFunctionObjArgs(helper, infer, module, real_args.get(), real_keywords.get(),
                                   t.torch.now().grad_enabled ? Py_True : Py_False, nullptr));
  if (!done) return t.raiseCurrentError();
  if (done.get() != Py_True)
    return t.breakWith(Reason::kLazyModule,
                       "its initialisation needs the data of a tensor, or raises");
  t.ending.startAnew();
  return newRef(Py_None);
}

}  // namespace

void registerLazyModules() {
  registerHandler("torch.nn.modules.lazy.LazyModuleMixin._infer_parameters", inferParameters);
}

}  // namespace stator::interpret
