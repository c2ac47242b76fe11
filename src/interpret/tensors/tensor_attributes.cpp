// Attributes of tensors: facts, parts with a source of their own (grad), nodes of the graph, and what the user put
// there.
#include "interpret/tensors/tensor_attributes.h"

#include "base/text.h"
#include "interpret/core/apparent_types.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/descriptors.h"
#include "interpret/objects/items.h"
#include "interpret/objects/lookups.h"
#include "interpret/tensors/rows.h"
#include "interpret/tensors/tensor_call.h"
#include "interpret/tensors/torch_calls.h"
#include "interpret/tensors/torch_function.h"
#include "interpret/tensors/wrapper_tensors.h"
#include "known/own_objects.h"
#include "tensor/fake_modes.h"
#include "tensor/tensor_guard.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace stator::interpret {

namespace {

// What the trace has written (borrowed), the marker of a deletion, or null.
PyObject* writtenAttribute(Tracer& t, PyObject* stand_in, PyObject* name) {
  values::Info* info = t.values.find(stand_in);
  return info != nullptr && info->overlay ? PyDict_GetItemWithError(info->overlay.get(), name)
                                          : nullptr;
}

// The dict of an input's own attributes; null: the trace made the tensor, or has written attributes already.
Ref<> ownAttributes(Tracer& t, PyObject* stand_in) {
  graph::StandIn* tensor = graph::asStandIn(stand_in);
  values::Info* info = t.values.find(stand_in);
  if (tensor->node->source == nullptr || tensor->node->source->kind == SourceKind::kDrawn ||
      isCast(stand_in) || wrapperOf(stand_in) != nullptr || (info != nullptr && info->overlay))
    return Ref<>();
  Ref<> dict = stealRef(PyObject_GenericGetDict(tensor->node->example.get(), nullptr));
  if (!dict) PyErr_Clear();
  return dict;
}

// The same, once the program has asked for `tensor.__dict__`: attributes are its items then.
Ref<> shownAttributes(Tracer& t, PyObject* stand_in) {
  Ref<> dict = ownAttributes(t, stand_in);
  values::Info* info = dict ? t.values.find(dict.get()) : nullptr;
  if (info == nullptr) return Ref<>();
  const Source* source =
      t.world.child(SourceKind::kObjectDict, graph::asStandIn(stand_in)->node->source);
  // Somebody passed it as a dict.
  if (info->source != nullptr && info->source != source)
    t.world.guard(Guard{GuardKind::kSameAs, info->source, source});
  return dict;
}

graph::Node* gradFnNode() {
  static graph::Graph* const nowhere = new graph::Graph();
  static graph::Node* const node = nowhere->addInput(nullptr, Ref<>(), nullptr);
  return node;
}

// An autograd node of a result: known to be there, and nothing else is known. It belongs to no graph, so a program that
// does more with it than to ask whether it is None gets a break where it was read.
Ref<> someGradFn(Tracer& t) {
  Ref<> made = graph::makeStandIn(gradFnNode(), nullptr, torchObject("torch.autograd.graph.Node"));
  t.values.addMade(made.get(), t.frames.instruction());
  return made;
}

// A part that only the real tensor knows: of an input, it is read from there.
Out partOfInput(Tracer& t, graph::StandIn* tensor, PyObject* name) {
  if (tensor->node->source == nullptr)
    return t.breakWith(Reason::kUnsupportedAttribute, utf8(name));
  Ref<> real = stealRef(PyObject_GetAttr(tensor->node->example.get(), name));
  if (!real) return t.raiseCurrentError();
  return fromOutside(t, real.get(),
                     t.world.child(SourceKind::kGenericAttr, tensor->node->source, name));
}

bool isDataOf(PyObject* target) {
  return target != nullptr && PyFunction_Check(target) &&
         known::isOwnObject(target, "stator._contexts.data_of");
}

// The tensor that this one is a view of, as autograd has it; None: it is no view. Views of views have the first one's
// base.
Out baseOf(Tracer& t, PyObject* stand_in) {
  static PyObject* const name = PyUnicode_InternFromString("_base");
  Ref<> at = newRef(stand_in);
  while (true) {
    graph::StandIn* tensor = graph::asStandIn(at.get());
    if (tensor->node->source != nullptr) {
      STATOR_VALUE(base, partOfInput(t, tensor, name));
      if (base.get() != Py_None || at.get() == stand_in) return base;
      return at;
    }
    bool detached = isDataOf(tensor->node->target.get()) ||
                    (PyUnicode_Check(tensor->node->target.get()) &&
                     PyUnicode_CompareWithASCIIString(tensor->node->target.get(), "detach") == 0);
    if (tensor->node->op == graph::Op::kInput || tensor->meta->storage_id == 0 ||
        tensor->meta->is_inference || detached) {
      return t.breakWith(Reason::kUnsupportedAttribute, "_base");
    }
    PyObject* viewed = nullptr;
    graph::forEachStandIn(tensor->node->args.get(), [&](graph::StandIn* used) {
      if (viewed == nullptr && used->meta != nullptr &&
          used->meta->storage_id == tensor->meta->storage_id)
        viewed = reinterpret_cast<PyObject*>(used);
    });
    // A part of a node with several results.
    if (viewed == nullptr && tensor->node->target.get() == operatorFunction("getitem") &&
        tensor->node->op == graph::Op::kCallFunction) {
      PyObject* whole = PyTuple_GET_ITEM(tensor->node->args.get(), 0);
      if (graph::isStandIn(whole) && graph::asStandIn(whole)->meta == nullptr)
        return t.breakWith(Reason::kUnsupportedAttribute, "_base");
    }
    if (viewed == nullptr) return at.get() == stand_in ? newRef(Py_None) : at;
    at = newRef(viewed);
  }
}

}  // namespace

bool isSomeGradFn(PyObject* object) {
  return graph::isStandIn(object) && graph::asStandIn(object)->node == gradFnNode();
}

Out tensorAttr(Tracer& tracer, PyObject* stand_in, PyObject* name) {
  graph::StandIn* tensor = graph::asStandIn(stand_in);
  auto* type = reinterpret_cast<PyTypeObject*>(tensor->apparent_type);
  std::string_view text = utf8(name);
  if (isHookHandle(stand_in) && text == "remove")
    return stealRef(PyMethod_New(torchObject("stator._contexts.remove_hook"), stand_in));
  if (tensor->meta == nullptr)
    return tracer.breakWith(Reason::kUnsupportedAttribute, std::string(text));
  PyObject* found = _PyType_Lookup(type, name);
  if (tensor::isFakeTensorType(type)) {
    // Its sizes and the like are a tensor's; what says that it is a fake is its own.
    STATOR_VALUE(guarded, typeLookup(tracer, type, name));
    PyObject* of_tensor = _PyType_Lookup(tensorType(), name);
    const bool is_own = found != of_tensor && text != "device" && text != "__class__";
    const bool no_parameter = text == "_is_param" && !tensor->meta->is_parameter;
    const bool unknown = found == nullptr && tensor->node->source == nullptr && !no_parameter &&
                         writtenAttribute(tracer, stand_in, name) == nullptr;
    if (is_own || unknown)
      return tracer.breakWith(Reason::kUnsupportedAttribute,
                              std::string(text) + " of a FakeTensor");
    found = of_tensor;
  } else if (type != tensorType() && type != parameterType()) {
    // What a subclass brings is found and guarded as in any class.
    STATOR_VALUE(guarded, typeLookup(tracer, type, name));
    if (found != nullptr && found != _PyType_Lookup(tensorType(), name) && text != "__class__" &&
        text != "__dict__") {
      if (Py_TYPE(found)->tp_descr_get != nullptr)
        return bindDescriptor(tracer, found, stand_in, type, classEntry(tracer, type, name));
      STATOR_VALUE(own, instanceTensorAttr(tracer, stand_in, name));
      if (own) return own;
      return classAttrValue(tracer, type, name, found);
    }
  }
  if (tracer.torch_function.relevant() && found != nullptr &&
      Py_TYPE(found) == &PyGetSetDescr_Type && text != "__class__") {
    Args args;
    args.values = {stand_in, name};
    args.positional = 2;
    bool handled = false;
    Out out = dispatchTorchFunction(tracer, graph::Op::kCallFunction, builtinFunction("getattr"),
                                    args, handled);
    if (handled || !out.ok()) return out;
  }
  const shapes::TensorMeta& meta = *tensor->meta;
  auto boolean = [](bool b) { return newRef(b ? Py_True : Py_False); };
  if (text == "requires_grad" || text == "is_leaf" || text == "grad_fn" || text == "grad" ||
      text == "retains_grad" || text == "output_nr")
    tracer.torch.noteGradsMatter();
  if (text == "requires_grad") return boolean(meta.requires_grad);
  // Whether an input that requires grad is a leaf is no part of its guard, unless somebody asks.
  if ((text == "is_leaf" || text == "grad_fn") && meta.requires_grad &&
      tensor->node->source != nullptr) {
    static PyObject* is_leaf = PyUnicode_InternFromString("is_leaf");
    tracer.world.guard(
        Guard{GuardKind::kEquals,
              tracer.world.child(SourceKind::kGenericAttr, tensor->node->source, is_leaf), nullptr,
              boolean(tensor->node->meta->is_leaf)});
  }
  if (text == "is_leaf") return boolean(meta.is_leaf || !meta.requires_grad);
  if (text == "__class__") return newRef(tensor->apparent_type);
  if (text == "grad_fn")
    return !meta.requires_grad || meta.is_leaf ? newRef(Py_None) : someGradFn(tracer);
  if (text == "_base") return baseOf(tracer, stand_in);
  if (text == "__dict__" && tracer.torch_function.state() == tensor::TorchFunction::kEnabled) {
    if (Ref<> dict = ownAttributes(tracer, stand_in))
      return fromOutside(tracer, dict.get(),
                         tracer.world.child(SourceKind::kObjectDict, tensor->node->source));
    return tracer.breakWith(Reason::kUnsupportedAttribute, "__dict__ of a tensor");
  }
  if ((text == "output_nr" || text == "retains_grad" || text == "name") &&
      tensor->node->source != nullptr)
    return partOfInput(tracer, tensor, name);
  // What depends on the history of the very tensor, not on its facts.
  if (text == "_version" || text == "_grad_fn" || text == "_cdata" || text == "retains_grad" ||
      text == "output_nr" || text == "_backward_hooks" || text == "_post_accumulate_grad_hooks") {
    return tracer.breakWith(Reason::kUnsupportedAttribute, std::string(text));
  }
  if (text == "grad") {
    if (PyObject* written = writtenAttribute(tracer, stand_in, name)) return newRef(written);
    const Source* source = tensor->node->source;
    if (source == nullptr)
      return meta.requires_grad ? Out(tracer.breakWith(Reason::kUnsupportedAttribute, "grad"))
                                : Out(newRef(Py_None));
    // A write of the graph's may have given it a history.
    const bool has_history_now =
        meta.requires_grad && !meta.is_leaf && !tensor->node->meta->requires_grad;
    Ref<> real;
    if (!has_history_now) real = stealRef(tensor::gradOf(tensor->node->example.get()));
    if (!real)
      return tracer.breakWith(Reason::kUnsupportedAttribute, "grad of no leaf, which warns");
    return fromOutside(tracer, real.get(), tracer.world.child(SourceKind::kTensorGrad, source));
  }
  if (found != nullptr) {
    PyTypeObject* kind = Py_TYPE(found);
    if (kind == &PyMethodDescr_Type || kind == &PyWrapperDescr_Type || kind == &PyFunction_Type)
      return stealRef(PyMethod_New(found, stand_in));
    if (kind == &PyGetSetDescr_Type || kind == &PyProperty_Type) {
      Args args;
      args.values = {stand_in, name};
      args.positional = 2;
      // Writes to it are none that autograd counts: where the graph runs as it is, it has to be `data` itself.
      if (text == "data" && !tracer.options.runs_as_captured) {
        args.values.pop_back();
        args.positional = 1;
        return tensorCall(tracer, graph::Op::kCallFunction, torchObject("stator._contexts.data_of"),
                          args, true, torchObject("torch.detach"));
      }
      return tensorCall(tracer, graph::Op::kCallFunction, builtinFunction("getattr"), args);
    }
    if (kind == &PyStaticMethod_Type || kind == &PyClassMethod_Type)
      return tracer.breakWith(Reason::kUnsupportedAttribute, std::string(text));
    return classAttrValue(tracer, type, name, found);
  }
  return instanceTensorAttr(tracer, stand_in, name);
}

// An attribute that the user put on the tensor.
Out instanceTensorAttr(Tracer& tracer, PyObject* stand_in, PyObject* name) {
  graph::StandIn* tensor = graph::asStandIn(stand_in);
  if (PyObject* written = writtenAttribute(tracer, stand_in, name))
    return written == values::deletedMarker() ? Ref<>() : newRef(written);
  if (wrapperOf(stand_in) != nullptr) {
    STATOR_VALUE(part, wrapperAttr(tracer, stand_in, name));
    if (part) return part;
  }
  if (Ref<> shown = shownAttributes(tracer, stand_in)) return dictGet(tracer, shown.get(), name);
  if (const Source* source = isCast(stand_in) ? nullptr : tensor->node->source) {
    Ref<> dict = stealRef(PyObject_GenericGetDict(tensor->node->example.get(), nullptr));
    if (!dict) PyErr_Clear();
    const Source* child = tracer.world.child(SourceKind::kTensorAttr, source, name);
    PyObject* raw = dict ? PyDict_GetItemWithError(dict.get(), name) : nullptr;
    if (raw != nullptr) return fromOutside(tracer, raw, child);
    tracer.world.guard(Guard{GuardKind::kAbsent, child});
  }
  return Ref<>();
}

namespace {

// `t.grad = value`: an effect on the input, provided that torch will take it.
Flow setGrad(Tracer& t, PyObject* stand_in, PyObject* name, PyObject* value) {
  graph::StandIn* tensor = graph::asStandIn(stand_in);
  values::Info* info = t.values.find(stand_in);
  if (tensor->node->source == nullptr || info == nullptr ||
      tensor->node->home != &t.graphs.current()) {
    return t.breakWith(Reason::kUnsupportedMutation,
                       "sets the gradient of a tensor that was made in the trace");
  }
  if (value != Py_None) {
    const shapes::TensorMeta* grad =
        graph::isStandIn(value) ? graph::asStandIn(value)->meta : nullptr;
    const shapes::TensorMeta& own = *tensor->meta;
    if (grad == nullptr || value == stand_in || grad->sizes != own.sizes ||
        grad->dtype != own.dtype || grad->device != own.device ||
        grad->device_index != own.device_index || grad->layout != own.layout) {
      return t.breakWith(Reason::kUnsupportedMutation,
                         "sets a gradient that does not fit the tensor");
    }
    // A gradient of other strides is taken too; one that is part of autograd's own graph would close a cycle that only
    // torch can see.
  }
  writeOverlay(t, info, name, value);
  return Flow::kOk;
}

}  // namespace

namespace {

// By some operation so far. What autograd has kept of it for gradients is the tensor itself, whose data would be other
// data then.
bool isUsed(Tracer& t, const graph::Node* tensor) {
  static PyObject* const detach = PyUnicode_InternFromString("detach");
  PyObject* set = torchObject("stator._contexts.set_traced_data");
  PyObject* data = torchObject("stator._contexts.data_of");
  bool used = false;
  for (const graph::Node& node : std::as_const(t.graphs.current()).nodes()) {
    if (node.op == graph::Op::kInput || node.target.get() == detach || node.target.get() == set ||
        node.target.get() == data)
      continue;
    // Nothing is kept for gradients of what has none.
    if (node.meta != nullptr && !node.meta->requires_grad && !node.mutates) continue;
    auto look = [&](const graph::StandIn* one) { used |= one->node == tensor; };
    graph::forEachUsed(node, look);
  }
  return used;
}

// `t.data = value` in a graph that a backend traces: an input whose facts stay what they are, since gradients of uses
// before have its sizes.
bool takesTracedData(Tracer& t, PyObject* stand_in, PyObject* value) {
  const graph::StandIn* tensor = graph::asStandIn(stand_in);
  const shapes::TensorMeta &own = *tensor->meta, &other = *graph::asStandIn(value)->meta;
  const bool plain = typeOf(t, stand_in) == tensorType() || typeOf(t, stand_in) == parameterType();
  return plain && !isCast(stand_in) && tensor->node->source != nullptr &&
         tensor->node->home == &t.graphs.current() && (own.is_leaf || !own.requires_grad) &&
         shapes::identical(own.sizes, other.sizes) &&
         shapes::identical(own.strides, other.strides) && own.dtype == other.dtype &&
         own.device == other.device && own.device_index == other.device_index && own.layout == 0 &&
         other.layout == 0 && !own.is_inference && !other.is_inference && !t.wrappers.any() &&
         (!own.requires_grad || !isUsed(t, tensor->node));
}

// Once for each tensor: the backend sets it once, whatever the graph does.
void uncountWrite(Tracer& t, PyObject* stand_in) {
  PyObject* uncount = torchObject("stator._contexts.uncount_write");
  for (const Effects::LateCall& call : t.effects.lateCalls()) {
    if (call.function == uncount && call.arguments[0].get() == stand_in) return;
  }
  t.effects.callLate({uncount, {newRef(stand_in)}});
}

// Whether the graph gives other data to a tensor with this memory: AOTAutograd does that to inputs that it writes to in
// no other way.
bool hasNewData(Tracer& t, uint32_t storage) {
  const auto has_it = [&](PyObject* value) {
    return graph::isStandIn(value) && graph::asStandIn(value)->meta != nullptr &&
           graph::asStandIn(value)->meta->storage_id == storage;
  };
  PyObject* uncount = torchObject("stator._contexts.uncount_write");
  const auto& late = t.effects.lateCalls();
  if (std::none_of(late.begin(), late.end(),
                   [&](const Effects::LateCall& call) { return call.function == uncount; }))
    return false;
  PyObject* set = torchObject("stator._contexts.set_traced_data");
  for (const graph::Node& node : std::as_const(t.graphs.current()).nodes()) {
    if (node.target.get() == set && (has_it(PyTuple_GET_ITEM(node.args.get(), 0)) ||
                                     has_it(PyTuple_GET_ITEM(node.args.get(), 1))))
      return true;
  }
  return false;
}

// The `data` that this one is, or is a view of; null: it is none.
PyObject* dataBehind(PyObject* stand_in) {
  while (stand_in != nullptr && graph::asStandIn(stand_in)->meta != nullptr) {
    const graph::StandIn* at = graph::asStandIn(stand_in);
    if (at->node->op == graph::Op::kInput || at->meta->storage_id == 0) return nullptr;
    PyObject* viewed = nullptr;
    graph::forEachStandIn(at->node->args.get(), [&](graph::StandIn* used) {
      if (viewed == nullptr && used->meta != nullptr &&
          used->meta->storage_id == at->meta->storage_id)
        viewed = reinterpret_cast<PyObject*>(used);
    });
    if (isDataOf(at->node->target.get())) return stand_in;
    stand_in = viewed != stand_in ? viewed : nullptr;
  }
  return nullptr;
}

}  // namespace

Flow writeToData(Tracer& tracer, PyObject* stand_in) {
  if (hasNewData(tracer, graph::asStandIn(stand_in)->meta->storage_id))
    return tracer.breakWith(Reason::kUnsupportedMutation, "writes to a tensor whose data was set");
  PyObject* data = dataBehind(stand_in);
  if (data == nullptr) return Flow::kOk;
  PyObject* owner = PyTuple_GET_ITEM(graph::asStandIn(data)->node->args.get(), 0);
  const graph::StandIn* tensor = graph::asStandIn(owner);
  const bool input = tensor->node->source != nullptr;
  // What a backend that differentiates has kept of it for gradients would be found written to, and so would what its
  // graph gives as `data`.
  if (tensor->meta->requires_grad && (!input || isUsed(tracer, tensor->node))) {
    const char* why = "writes to the data of what has gradients";
    if (const values::Info* info = tracer.values.find(data))
      tracer.ending.restartAt(info->born, Reason::kUnsupportedMutation, why);
    return tracer.breakWith(Reason::kUnsupportedMutation, why);
  }
  if (input) uncountWrite(tracer, owner);
  return Flow::kOk;
}

Flow setTensorAttr(Tracer& tracer, PyObject* stand_in, PyObject* name, PyObject* value) {
  graph::StandIn* tensor = graph::asStandIn(stand_in);
  if (tensor->meta == nullptr)
    return tracer.breakWith(Reason::kUnsupportedMutation, "sets an attribute of a tensor");
  PyTypeObject* type = typeOf(tracer, stand_in);
  PyObject* found = _PyType_Lookup(type, name);
  if (type != tensorType() && type != parameterType()) {
    static PyObject* const hook = PyUnicode_InternFromString("__setattr__");
    if (PyFunction_Check(_PyType_Lookup(type, hook)) ||
        (found != nullptr && Py_TYPE(found)->tp_descr_set != nullptr)) {
      return tracer.breakWith(
          Reason::kUnsupportedMutation,
          std::string("sets the attribute ") + utf8(name) + " of a " + type->tp_name);
    }
    STATOR_VALUE(guarded, typeLookup(tracer, type, name));
  }
  static PyObject* requires_grad = PyUnicode_InternFromString("requires_grad");
  static PyObject* grad = PyUnicode_InternFromString("grad");
  if (value != nullptr && PyBool_Check(value) && PyUnicode_Compare(name, requires_grad) == 0) {
    static PyObject* setter = PyUnicode_InternFromString("requires_grad_");
    Args args;
    args.values = {stand_in, value};
    args.positional = 2;
    return tensorCall(tracer, graph::Op::kCallMethod, setter, args).flow();
  }
  if (value != nullptr && PyUnicode_Compare(name, grad) == 0)
    return setGrad(tracer, stand_in, name, value);
  static PyObject* data = PyUnicode_InternFromString("data");
  if (value != nullptr && graph::isStandIn(value) && graph::asStandIn(value)->meta != nullptr &&
      PyUnicode_Compare(name, data) == 0 && typeOf(tracer, value) == tensorType() &&
      (tracer.options.runs_as_captured || takesTracedData(tracer, stand_in, value))) {
    // Where the graph runs as it was captured, it does the same to the real tensor. Other backends do so behind the
    // graph.
    Args args;
    args.values = {stand_in, value};
    args.positional = 2;
    PyObject* set = torchObject("stator._contexts.set_data");
    Out done = tracer.options.runs_as_captured
                   ? tensorCall(tracer, graph::Op::kCallFunction, set, args, false)
                   : tensorCall(tracer, graph::Op::kCallFunction,
                                torchObject("stator._contexts.set_traced_data"), args, false, set);
    if (done.ok()) {
      tracer.effects.noteChangedFacts();
      noteWritten(tracer, stand_in);
      noteWritten(tracer, value);
      tracer.effects.note();
      if (!tracer.options.runs_as_captured) uncountWrite(tracer, stand_in);
    }
    return done.flow();
  }
  if (PyObject* fake = wrapperOf(stand_in); fake != nullptr && PyObject_HasAttr(fake, name)) {
    return tracer.breakWith(Reason::kUnsupportedMutation, std::string("sets the attribute ") +
                                                              utf8(name) + " that a " +
                                                              type->tp_name + " is made of");
  }
  // An attribute of the user's own; those that torch knows have effects of their own.
  values::Info* info = tracer.values.find(stand_in);
  if (info == nullptr || (found != nullptr && (Py_TYPE(found)->tp_descr_set != nullptr ||
                                               found == _PyType_Lookup(tensorType(), name)))) {
    return tracer.breakWith(Reason::kUnsupportedMutation,
                            std::string("sets the attribute ") + utf8(name) + " of a tensor");
  }
  if (Ref<> shown = shownAttributes(tracer, stand_in)) {
    if (value != nullptr) return setItem(tracer, shown.get(), name, value);
    STATOR_VALUE(old, dictGet(tracer, shown.get(), name));
    if (!old) return tracer.breakWith(Reason::kRaises, "deletes an attribute that is not there");
    return delItem(tracer, shown.get(), name);
  }
  if (value != nullptr) {
    writeOverlay(tracer, info, name, value);
    return Flow::kOk;
  }
  PyObject* written = writtenAttribute(tracer, stand_in, name);
  bool there = false;
  if (const Source* source = isCast(stand_in) ? nullptr : tensor->node->source) {
    Ref<> dict = stealRef(PyObject_GenericGetDict(tensor->node->example.get(), nullptr));
    if (!dict) PyErr_Clear();
    there = dict && PyDict_Contains(dict.get(), name) == 1;
    tracer.world.guard(Guard{there ? GuardKind::kPresent : GuardKind::kAbsent,
                             tracer.world.child(SourceKind::kTensorAttr, source, name)});
  }
  if (written == values::deletedMarker() || (written == nullptr && !there))
    return tracer.breakWith(Reason::kRaises, "deletes an attribute that is not there");
  eraseOverlay(tracer, info, name, there);
  return Flow::kOk;
}

namespace {

Out isView(Tracer& t, const Args& args) {
  if (args.values.size() != 1 || !graph::isStandIn(args.values[0]) ||
      graph::asStandIn(args.values[0])->meta == nullptr) {
    return t.breakWith(Reason::kRaises, "_is_view");
  }
  STATOR_VALUE(base, baseOf(t, args.values[0]));
  return newRef(base.get() == Py_None ? Py_False : Py_True);
}

}  // namespace

void registerTensorAttributes() { registerHandler("torch.Tensor._is_view", isView); }

}  // namespace stator::interpret
