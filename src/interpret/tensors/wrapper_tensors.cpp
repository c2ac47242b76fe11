// Tensors whose class has its own __torch_dispatch__ and can be taken apart with __tensor_flatten__: quantised weights,
// nested and distributed tensors. In the graph they are what they are, and a backend that differentiates takes them
// apart itself. The trace knows one by a fake instance of its class (graph::Node::wrapper), on which each operation is
// run once to see what comes out.
#include "interpret/tensors/wrapper_tensors.h"

#include "base/check.h"
#include "base/error_aside.h"
#include "base/text.h"
#include "interpret/core/apparent_types.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/outside_symbols.h"
#include "interpret/core/symbols.h"
#include "interpret/core/tables.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/attributes.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/tensors/nonstrict.h"
#include "interpret/tensors/rows.h"
#include "interpret/tensors/tensor_call.h"
#include "shapes/arg.h"
#include "shapes/dtypes.h"
#include "shapes/fallback.h"
#include "tensor/meta_of.h"

namespace stator::interpret {

namespace {

// What fails in a class's own methods is the class's matter: the program meets it when it runs, if it does.
Flow breakOnError(Tracer& t, PyTypeObject* type) {
  ErrorAside error;
  PyObject* instance = error.instance();
  static PyObject* const of_stator = torchObject("stator.exc.InternalError");
  if (PyErr_GivenExceptionMatches(instance, PyExc_KeyboardInterrupt) ||
      PyErr_GivenExceptionMatches(instance, of_stator)) {
    error.restore();
    throw PythonError();
  }
  Ref<> text = stealRef(PyObject_Str(instance));
  if (!text) PyErr_Clear();
  const char* said = text ? utf8OrNull(text.get()) : nullptr;
  if (said == nullptr) PyErr_Clear();
  return t.breakWith(Reason::kSubclass, std::string("a ") + type->tp_name + ": " +
                                            Py_TYPE(instance)->tp_name + ": " +
                                            (said != nullptr ? said : ""));
}

// The source of an inner tensor: an entry of the instance's dict as a rule, which no user code has to be run for.
const Source* innerSource(Tracer& t, PyObject* raw, const Source* source, PyObject* name,
                          PyObject* inner) {
  Ref<> dict = stealRef(PyObject_GenericGetDict(raw, nullptr));
  if (!dict) PyErr_Clear();
  PyObject* on_type = _PyType_Lookup(Py_TYPE(raw), name);
  if (dict && PyDict_GetItemWithError(dict.get(), name) == inner &&
      (on_type == nullptr || Py_TYPE(on_type)->tp_descr_set == nullptr))
    return t.world.child(SourceKind::kTensorAttr, source, name);
  if (on_type != nullptr && Py_TYPE(on_type) == &PyMemberDescr_Type)
    return t.world.child(SourceKind::kAttr, source, name);
  Ref<> getter = stealRef(PyObject_CallOneArg(torchObject("stator._wrappers.getter"), name));
  if (!getter) throw PythonError();
  return t.world.child(SourceKind::kAsked, source, getter.get());
}

// A number, or the text of an expression.
Ref<> tupleOf(const shapes::Dims& dims) {
  Ref<> tuple = stealRef(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
  for (size_t i = 0; tuple && i < dims.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                     dims[i].isStatic() ? PyLong_FromLongLong(dims[i].value())
                                        : PyUnicode_FromString(dims[i].text().c_str()));
  }
  if (!tuple || PyErr_Occurred()) throw PythonError();
  return tuple;
}

// kNumbers: the trace's fakes have no symbols. kFixed: they have, but not for parameters and buffers of modules.
enum class SizeKind : uint8_t { kNumbers, kSymbols, kFixed };

// A wrapper, and the sizes that it was found to have.
struct Outer {
  PyObject* raw = nullptr;
  shapes::Dims* sizes = nullptr;
};

// The parts of a wrapper that have its shape have its sizes, whatever these are: what the program asks of one holds
// for the other.
void joinSizes(Tracer& t, const shapes::Dims& outer, const shapes::Dims& inner) {
  symbolic::Environment& environment = t.sizes.environment();
  for (size_t i = 0; i < outer.size(); ++i) {
    if (outer[i].isStatic() || inner[i].isStatic()) continue;
    environment.decide(symbolic::equal(outer[i].expr(), inner[i].expr()));
  }
}

// (sizes, strides), and the guard on a tensor. Sizes that changed are symbols, if the trace's fakes can have them.
// `outer`: the wrapper that it is a part of, whose marks are its own where it has none and is of the same sizes.
Ref<> guardSizes(Tracer& t, PyObject* raw, const Source* source, SizeKind kind,
                 const Outer& outer = {}) {
  const bool symbolic = kind != SizeKind::kNumbers;
  std::shared_ptr<tensor::TensorGuard> guard = tensor::TensorGuard::of(raw);
  shapes::TensorMeta meta = tensor::metaOf(raw);
  if (!symbolic) guard->dynamo_attributes = 0;  // marks ask for symbols
  PyObject* marks_of = raw;
  const uint64_t own_marks = guard->dynamo_attributes;
  bool same_shape = false;
  if (symbolic && outer.raw != nullptr) {
    const std::shared_ptr<tensor::TensorGuard> whole = tensor::TensorGuard::of(outer.raw);
    same_shape = whole->sizes == guard->sizes;
    if (own_marks == 0 && whole->dynamo_attributes != 0 && same_shape) {
      guard->dynamo_attributes = whole->dynamo_attributes;
      marks_of = outer.raw;
    }
  }
  if (kind != SizeKind::kFixed) shapeFromOutside(t, marks_of, source, *guard, meta);
  guard->dynamo_attributes = own_marks;
  if (!symbolic) {
    // It has only noted the sizes, or they keep their values.
    for (shapes::Dims* dims : {&meta.sizes, &meta.strides}) {
      for (const shapes::Dim& dim : *dims) static_cast<void>(dim.value());
    }
    guard = tensor::TensorGuard::of(raw);
  }
  if (same_shape) joinSizes(t, *outer.sizes, meta.sizes);
  if (outer.raw == nullptr && outer.sizes != nullptr) *outer.sizes = meta.sizes;
  Ref<> sizes = tupleOf(meta.sizes), strides = tupleOf(meta.strides);
  t.world.guard(Guard{GuardKind::kTensor, source, nullptr, Ref<>(), 0, std::move(guard)});
  return stealRef(PyTuple_Pack(2, sizes.get(), strides.get()));
}

// Guards all that the class's operations may depend on: type, metadata, and the inner tensors at any depth. Ties their
// storages to the wrapper's. Gives (sizes and strides or None, {name: the same of an inner tensor}).
Out guardWrapper(Tracer& t, PyObject* raw, const Source* source, uint32_t storage, SizeKind kind) {
  const bool symbolic = kind != SizeKind::kNumbers;
  Ref<> parts = stealRef(PyObject_CallFunctionObjArgs(torchObject("stator._wrappers.describe"), raw,
                                                      symbolic ? Py_True : Py_False, nullptr));
  if (!parts) return breakOnError(t, Py_TYPE(raw));
  if (PyUnicode_Check(parts.get())) {
    return t.breakWith(Reason::kSubclass,
                       std::string("a ") + Py_TYPE(raw)->tp_name + " " + utf8(parts.get()));
  }
  PyObject* names = PyTuple_GET_ITEM(parts.get(), 0);
  Ref<> outer = newRef(Py_None), inside = stealRef(PyDict_New());
  shapes::Dims outer_sizes;
  if (PyTuple_GET_ITEM(parts.get(), 2) == Py_True) {
    outer = guardSizes(t, raw, source, kind, {nullptr, &outer_sizes});
  } else {
    t.world.guard(Guard{GuardKind::kType, source, nullptr,
                        newRef(reinterpret_cast<PyObject*>(Py_TYPE(raw)))});
  }
  t.world.guard(Guard{GuardKind::kIs,
                      t.world.child(SourceKind::kAsked, source, PyTuple_GET_ITEM(parts.get(), 1)),
                      nullptr, newRef(Py_True)});
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    PyObject* name = PyTuple_GET_ITEM(names, i);
    Ref<> inner = stealRef(PyObject_GetAttr(raw, name));
    if (!inner) return breakOnError(t, Py_TYPE(raw));
    const Source* at = innerSource(t, raw, source, name, inner.get());
    if (hasOwnDispatch(Py_TYPE(inner.get()))) {
      STATOR_VALUE(part, guardWrapper(t, inner.get(), at, storage, kind));
      PyDict_SetItem(inside.get(), name, part.get());
      continue;
    }
    const bool plain = PyTuple_GET_ITEM(parts.get(), 2) == Py_True;
    Ref<> sizes = guardSizes(t, inner.get(), at, kind, plain ? Outer{raw, &outer_sizes} : Outer{});
    PyDict_SetItem(inside.get(), name, stealRef(PyTuple_Pack(2, sizes.get(), Py_None)).get());
    if (PyTuple_GET_ITEM(parts.get(), 3) == name) {
      // Ragged sizes are equal if they come from the same tensor.
      for (const auto& [other, seen] : t.wrappers.ragged()) {
        t.world.guard(
            Guard{seen == inner.get() ? GuardKind::kSameAs : GuardKind::kNotSameAs, at, other});
      }
      t.wrappers.ragged().emplace_back(at, inner.get());
    }
    if (uintptr_t memory = tensor::storageOf(inner.get())) {
      t.wrappers.tie(t.storages.at(memory), storage);
    }
  }
  return stealRef(PyTuple_Pack(2, outer.get(), inside.get()));
}

// Symbols need a ShapeEnv, which a first capture, where all sizes are numbers, does without. One for all fakes of a
// trace.
void needFakes(Tracer& t, const Source* source = nullptr, PyObject* raw = nullptr) {
  if (t.wrappers.any()) return;
  // Nested tensors mark what is ragged in them themselves.
  bool marked = false;
  for (const char* mark : {"_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices",
                           "_dynamo_propagated_dynamic_indices"})
    marked |= raw != nullptr && PyObject_HasAttrString(raw, mark);
  const bool symbolic =
      marked || t.options.dynamic == DynamicMode::kAll ||
      (t.options.dynamic == DynamicMode::kAutomatic && source != nullptr &&
       t.options.history != nullptr && t.options.history->find(sourceKey(*source)) != nullptr);
  t.wrappers.setFakes(stealRef(
      PyObject_CallFunctionObjArgs(torchObject("stator._wrappers.Fakes"),
                                   symbolic || t.options.wrappers_read_data ? Py_True : Py_False,
                                   t.options.fullgraph ? Py_True : Py_False, nullptr)));
  if (!t.wrappers.any()) throw PythonError();
}

}  // namespace

bool fakesHaveSymbols(const Tracer& tracer) {
  Ref<> env = stealRef(PyObject_GetAttrString(tracer.wrappers.fakes(), "env"));
  return env && env.get() != Py_None;
}

Out wrapperFromOutside(Tracer& tracer, PyObject* raw, const Source* source) {
  static PyObject* const dispatch = PyUnicode_InternFromString("__torch_dispatch__");
  static PyObject* const function = PyUnicode_InternFromString("__torch_function__");
  PyTypeObject* type = Py_TYPE(raw);
  needFakes(tracer, source, raw);
  const bool symbolic = fakesHaveSymbols(tracer);
  // A handler of the program's has no part in what is asked here.
  tensor::TorchFunctionPause pause(true);
  uint32_t storage = tracer.storages.fresh();
  // Its sizes are looked up in the next capture.
  if (tracer.options.history != nullptr) tracer.options.history->at(sourceKey(*source));
  const bool of_module =
      source->kind == SourceKind::kParameter || source->kind == SourceKind::kBuffer;
  STATOR_VALUE(sizes, guardWrapper(tracer, raw, source, storage,
                                   !symbolic   ? SizeKind::kNumbers
                                   : of_module ? SizeKind::kFixed
                                               : SizeKind::kSymbols));
  for (PyObject* method : {dispatch, function}) {
    STATOR_VALUE(guarded, typeLookup(tracer, type, method));
  }
  if (wasWrittenThrough(tracer, storage))
    return tracer.breakWith(Reason::kSubclass,
                            "memory that was written to by way of another input");
  if (symbolic) shapes::tellSymbols(tracer.wrappers.fakes(), tracer.sizes.environment());
  Ref<> fake = stealRef(
      symbolic ? PyObject_CallMethod(tracer.wrappers.fakes(), "symbolic", "OO", raw, sizes.get())
               : PyObject_CallMethod(tracer.wrappers.fakes(), "of", "O", raw));
  if (!fake) return breakOnError(tracer, type);
  if (Py_TYPE(fake.get()) != type)
    return tracer.breakWith(Reason::kSubclass, std::string("an input is a ") + type->tp_name);
  values::Info& info = tracer.values.addOutside(raw, source);
  graph::Graph& root = tracer.graphs.root();
  root.metas.push_back(shapes::wrapperFacts(fake.get()));
  shapes::TensorMeta& meta = root.metas.back();
  meta.storage_id = storage;
  graph::Node* node = root.addInput(source, newRef(raw), &meta);
  node->wrapper = std::move(fake);
  node->location = tracer.location();
  node->scope = tracer.frames.innermost().scope;
  node->of_module = of_module;
  if (tracer.options.own_parameters && of_module) {
    node->specialised = true;
    tracer.world.guard(Guard{GuardKind::kIs, source, nullptr, newRef(raw)});
  }
  info.stand_in = graph::makeStandIn(node, &meta, reinterpret_cast<PyObject*>(type));
  tracer.values.addMade(info.stand_in.get(), 0);
  return info.stand_in;
}

Out wrapperAttr(Tracer& tracer, PyObject* stand_in, PyObject* name) {
  graph::StandIn* tensor = graph::asStandIn(stand_in);
  PyObject* fake = tensor->node->wrapper.get();
  Ref<> value = stealRef(PyObject_GetAttr(fake, name));
  if (!value) {
    PyErr_Clear();
    return Ref<>();
  }
  if (tensor::isTensor(value.get())) {
    auto& known = tracer.wrappers.inner(tensor->node);
    for (const auto& one : known) {
      if (one.fake.get() == value.get() && PyUnicode_Compare(one.name.get(), name) == 0 &&
          tracer.graphs.reachable(graph::asStandIn(one.stand_in.get())->node))
        return one.stand_in;
    }
    Args args;
    args.values = {stand_in, name};
    args.positional = 2;
    PyObject* read = builtinFunction("getattr");
    STATOR_VALUE(part, tensorCall(tracer, graph::Op::kCallFunction, read, args, true, read));
    graph::asStandIn(part.get())->node->wrapper = value;
    if (!tracer.frames.innermost().folding)
      tracer.wrappers.inner(tensor->node).push_back({newRef(name), value, part});
    return part;
  }
  // Of an input the real one is read, by its source.
  if (tensor->node->source != nullptr) return Ref<>();
  if (values::isConstantDeep(value.get())) return value;
  return tracer.breakWith(
      Reason::kUnsupportedAttribute,
      std::string(utf8(name)) + " of a " + Py_TYPE(fake)->tp_name + " that was made in the trace");
}

namespace {

// A frozen object of a class of Python's that the trace has made, as it is: no argument of a node can be one, so it
// goes into the function.
bool isFrozenObject(Tracer& t, PyObject* object) {
  static PyObject* const name = PyUnicode_InternFromString("__dataclass_params__");
  PyObject* params = _PyType_Lookup(Py_TYPE(object), name);
  if (params == nullptr || graph::isStandIn(object)) return false;
  Ref<> frozen = stealRef(PyObject_GetAttrString(params, "frozen"));
  if (!frozen) PyErr_Clear();
  return frozen.get() == Py_True && isPlainPart(t, object);
}

}  // namespace

Out makeWrapper(Tracer& tracer, PyTypeObject* type, const Args& args) {
  Ref<> target = newRef(reinterpret_cast<PyObject*>(type));
  Ref<> known =
      stealRef(PyObject_CallOneArg(torchObject("stator._wrappers.is_wrapper_type"), target.get()));
  if (!known) return breakOnError(tracer, type);
  if (known.get() != Py_True)
    return tracer.breakWith(Reason::kSubclass, std::string("makes a ") + type->tp_name);
  Args left;
  Ref<> inside = stealRef(PyDict_New()), names = stealRef(PyList_New(0));
  for (size_t i = 0; i < args.values.size(); ++i) {
    const bool named = i >= args.positional;
    if (isFrozenObject(tracer, args.values[i])) {
      Ref<> key = named ? newRef(args.name(i - args.positional)) : stealRef(PyLong_FromSize_t(i));
      PyDict_SetItem(inside.get(), key.get(), args.values[i]);
      continue;
    }
    left.values.push_back(args.values[i]);
    if (named)
      PyList_Append(names.get(), args.name(i - args.positional));
    else
      ++left.positional;
  }
  if (PyDict_GET_SIZE(inside.get()) == 0)
    return callForWrapper(tracer, graph::Op::kCallFunction, target.get(), args);
  Ref<> name_tuple = stealRef(PyList_AsTuple(names.get()));
  if (PyList_GET_SIZE(names.get()) > 0) left.names = name_tuple.get();
  target = stealRef(PyObject_CallFunctionObjArgs(torchObject("stator._wrappers.filled"),
                                                 target.get(), inside.get(), nullptr));
  if (!target) return tracer.raiseCurrentError();
  tracer.world.keep(target);
  tracer.world.keep(name_tuple);
  return callForWrapper(tracer, graph::Op::kCallFunction, target.get(), left);
}

Out callForWrapper(Tracer& tracer, graph::Op op, PyObject* target, const Args& args,
                   PyObject* facts) {
  needFakes(tracer);
  Wrappers::Making making(tracer.wrappers);
  return tensorCall(tracer, op, target, args, true, facts);
}

bool writesToShared(Tracer& tracer, uint32_t storage) {
  if (tracer.options.runs_as_captured || storage == 0) return false;
  if (tracer.storages.mixesGrads(storage)) return true;
  if (!tracer.wrappers.any()) return false;
  const std::unordered_set<uint32_t> tied = tracer.wrappers.tied(storage);
  int sharing = 0;
  for (const graph::Node* input : tracer.graphs.root().inputs())
    sharing += input->meta != nullptr && tied.count(input->meta->storage_id) != 0 ? 1 : 0;
  return sharing > 1;
}

const Source* raggedSource(Tracer& tracer, PyObject* size) {
  PyObject* ragged = graph::asStandIn(size)->node->wrapper.get();
  for (const graph::Node* input : tracer.graphs.root().inputs()) {
    if (!input->wrapper || input->source == nullptr) continue;
    Ref<> reader = stealRef(PyObject_CallFunctionObjArgs(
        torchObject("stator._wrappers.ragged_reader"), input->wrapper.get(), ragged, nullptr));
    if (!reader) {
      PyErr_Clear();
      continue;
    }
    if (reader.get() != Py_None)
      return tracer.world.child(SourceKind::kAsked, input->source, reader.get());
  }
  return nullptr;
}

namespace {

// Offsets or lengths that the graph makes: nested tensors of the same ones have the same ragged size, so one fake
// stands for them.
bool mayTellRaggedSizes(const graph::StandIn& value) {
  return value.node->op != graph::Op::kInput && value.meta != nullptr &&
         value.meta == value.node->meta && !value.node->wrapper && value.meta->sizes.size() == 1 &&
         shapes::isIntegral(value.meta->dtype) && value.meta->layout == 0 &&
         !value.meta->is_inference;
}

void giveFake(Tracer& t, graph::StandIn* value) {
  if (value->meta->isSymbolic() && !fakesHaveSymbols(t)) return;
  Ref<> sizes = tupleOf(value->meta->sizes), strides = tupleOf(value->meta->strides);
  Ref<> device = shapes::makeDevice(value->meta->device, value->meta->device_index);
  value->node->wrapper =
      stealRef(PyObject_CallMethod(t.wrappers.fakes(), "made", "OOOO", sizes.get(), strides.get(),
                                   shapes::dtypeObject(value->meta->dtype), device.get()));
  if (!value->node->wrapper) PyErr_Clear();
}

}  // namespace

bool prepareWrappers(Tracer& tracer, const std::vector<PyObject*>& arguments) {
  bool any = false;
  std::vector<graph::StandIn*> plain, offsets;
  for (PyObject* argument : arguments) {
    graph::forEachStandIn(argument, [&](graph::StandIn* used) {
      const bool ragged = used->meta == nullptr && used->node->wrapper;
      any |= ragged || wrapperOf(reinterpret_cast<PyObject*>(used)) != nullptr;
      if (mayTellRaggedSizes(*used)) offsets.push_back(used);
      // What a wrapper is made of here may be compared with what others are made of: one tensor, one fake.
      if (used->node->op == graph::Op::kInput && used->node->example && used->meta != nullptr &&
          used->meta == used->node->meta && !used->meta->isSymbolic() && !used->node->wrapper &&
          used->apparent_type == reinterpret_cast<PyObject*>(tensorType()))
        plain.push_back(used);
    });
  }
  if (!any && !tracer.wrappers.making()) return false;
  for (graph::StandIn* used : offsets) giveFake(tracer, used);
  for (graph::StandIn* used : plain) {
    if (!tensor::isExactTensor(used->node->example.get())) continue;
    used->node->wrapper = stealRef(
        PyObject_CallMethod(tracer.wrappers.fakes(), "of", "O", used->node->example.get()));
    if (!used->node->wrapper) PyErr_Clear();
  }
  return any;
}

namespace {

// torch makes one nested tensor for the whole process, at its first use, and hands it to every nested view. It is made
// for real: it outlives the call, and says nothing of it.
Out nestedDummy(Tracer& t, const Args& args) {
  static PyObject* const make = torchObject("torch.nested._internal.nested_tensor._nt_view_dummy");
  if (!args.values.empty()) return t.breakWith(Reason::kCallsOutside, "_nt_view_dummy");
  Ref<> dummy = stealRef(PyObject_CallNoArgs(make));
  if (!dummy) throw PythonError();
  return fromOutside(t, dummy.get(), t.world.sources().pinned(dummy.get()));
}

}  // namespace

void registerNestedTensors() {
  registerHandler("torch.nested._internal.nested_tensor._nt_view_dummy", nestedDummy);
}

}  // namespace stator::interpret
