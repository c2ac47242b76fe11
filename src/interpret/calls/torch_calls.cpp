// Calls that become nodes of the graph, and what is read off a tensor without one.
#include "base/check.h"
#include "interpret/calls/tables.h"
#include "interpret/known_types.h"
#include "interpret/names.h"
#include "interpret/torch_names.h"
#include "interpret/trace_iterator.h"
#include "interpret/tracer.h"
#include "shapes/arg.h"
#include "symbolic/sym_int.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace stator::interpret {

using breaks::Reason;
using guards::Guard;
using guards::GuardKind;
using sources::Source;
using sources::SourceKind;

Out fromLong(Tracer& t, PyObject* value);

namespace {

const shapes::TensorMeta* metaOfStandIn(PyObject* object) {
  return graph::isStandIn(object) ? graph::asStandIn(object)->meta : nullptr;
}

bool isOpaque(PyObject* object) {
  return isTraceIterator(object) ||
         (graph::isStandIn(object) && graph::asStandIn(object)->meta == nullptr);
}

// Tensor arguments in the order in which shapes/ numbers them.
void collectTensors(PyObject* value, std::vector<PyObject*>& out) {
  if (metaOfStandIn(value) != nullptr) {
    out.push_back(value);
  } else if (PyTuple_Check(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
      collectTensors(PyTuple_GET_ITEM(value, i), out);
  } else if (PyList_Check(value)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); ++i)
      collectTensors(PyList_GET_ITEM(value, i), out);
  } else if (PySlice_Check(value)) {
    auto* slice = reinterpret_cast<PySliceObject*>(value);
    for (PyObject* part : {slice->start, slice->stop, slice->step}) collectTensors(part, out);
  } else if (PyDict_Check(value)) {
    PyObject *key = nullptr, *item = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(value, &position, &key, &item)) collectTensors(item, out);
  }
}

Reason reasonFor(shapes::Status status) {
  switch (status) {
    case shapes::Status::kDataDependent:
      return Reason::kDataDependentRead;
    case shapes::Status::kDynamicShape:
      return Reason::kDynamicOutputShape;
    case shapes::Status::kRaises:
      return Reason::kRaises;
    default:
      return Reason::kUnsupportedTensorOp;
  }
}

std::string targetName(PyObject* target) {
  if (PyUnicode_Check(target)) return PyUnicode_AsUTF8(target);
  Ref<> name = stealRef(PyObject_GetAttrString(target, "__name__"));
  if (!name) PyErr_Clear();
  return name ? PyUnicode_AsUTF8(name.get()) : "?";
}

// Methods that hand a single element to Python.
bool isRead(PyObject* target) {
  if (!PyUnicode_Check(target)) return false;
  std::string_view name = PyUnicode_AsUTF8(target);
  return name == "item" || name == "tolist" || name == "__int__" || name == "__index__" ||
         name == "__float__" || name == "__bool__" || name == "__complex__";
}

// Puts the stand-ins into the places that the skeleton numbers.
Ref<> fillSkeleton(PyObject* skeleton, const std::vector<Ref<>>& items) {
  if (PyLong_Check(skeleton)) return items[static_cast<size_t>(PyLong_AsLong(skeleton))];
  if (PyTuple_Check(skeleton) || PyList_Check(skeleton)) {
    Ref<> list = stealRef(PyList_New(0));
    for (Py_ssize_t i = 0; i < PyObject_Size(skeleton); ++i) {
      Ref<> part = stealRef(PySequence_GetItem(skeleton, i));
      PyList_Append(list.get(), fillSkeleton(part.get(), items).get());
    }
    return PyList_Check(skeleton) ? list : stealRef(PyList_AsTuple(list.get()));
  }
  return newRef(skeleton);
}

// A fact that is a tuple is a new object each time it is asked for.
Ref<> freshConstant(const Ref<>& constant) {
  if (!PyTuple_Check(constant.get()) || PyTuple_GET_SIZE(constant.get()) == 0) return constant;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constant.get()); ++i) {
    if (!symbolic::isSymInt(PyTuple_GET_ITEM(constant.get(), i))) continue;
    // torch.Size itself takes nothing but ints.
    Ref<> args = stealRef(PyTuple_Pack(1, constant.get()));
    return stealRef(args ? PyTuple_Type.tp_new(Py_TYPE(constant.get()), args.get(), nullptr)
                         : nullptr);
  }
  if (Py_TYPE(constant.get()) == sizeType())
    return stealRef(PyObject_CallOneArg(reinterpret_cast<PyObject*>(sizeType()), constant.get()));
  if (!PyTuple_CheckExact(constant.get())) return constant;
  Ref<> list = stealRef(PySequence_List(constant.get()));
  return stealRef(PyList_AsTuple(list.get()));
}

}  // namespace

Out Tracer::graphArgument(PyObject* value, int depth) {
  if (graph::isStandIn(value) && had_subgraphs && !isReachable(graph::asStandIn(value)->node)) {
    return breakWith(Reason::kUnsupportedTensorOp,
                     "a value that was made inside of a function of the graph");
  }
  if (graph::isStandIn(value) || values::isScalar(value) || symbolic::isSymbol(value))
    return newRef(value);
  if (values::isConstantDeep(value)) return newRef(value);
  if (depth > 6) return breakWith(Reason::kUnsupportedTensorOp, "a deeply nested argument");
  if (PyTuple_Check(value) || PyList_Check(value)) {
    STATOR_VALUE(items, contents(value));
    Py_ssize_t n = PyObject_Size(items.get());
    Ref<> list = stealRef(PyList_New(n));
    for (Py_ssize_t i = 0; i < n; ++i) {
      Ref<> raw = stealRef(PySequence_GetItem(items.get(), i));
      STATOR_VALUE(item, graphArgument(raw.get(), depth + 1));
      PyList_SET_ITEM(list.get(), i, item.release());
    }
    if (PyList_Check(value)) return list;
    return stealRef(PyList_AsTuple(list.get()));
  }
  if (PyDict_CheckExact(value)) {
    STATOR_VALUE(items, contents(value));
    Ref<> dict = stealRef(PyDict_New());
    PyObject *key = nullptr, *raw = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(items.get(), &position, &key, &raw)) {
      STATOR_VALUE(item, graphArgument(raw, depth + 1));
      PyDict_SetItem(dict.get(), key, item.get());
    }
    return dict;
  }
  if (PySlice_Check(value)) {
    auto* slice = reinterpret_cast<PySliceObject*>(value);
    STATOR_VALUE(start, graphArgument(slice->start, depth + 1));
    STATOR_VALUE(stop, graphArgument(slice->stop, depth + 1));
    STATOR_VALUE(step, graphArgument(slice->step, depth + 1));
    return stealRef(PySlice_New(start.get(), stop.get(), step.get()));
  }
  if (isTraceIterator(value)) {
    STATOR_VALUE(list, listOf(value));
    return graphArgument(list.get(), depth + 1);
  }
  if (PyType_Check(value) || PyCFunction_Check(value) || isEnumMember(value) ||
      isGraphModule(value))
    return newRef(value);
  if (PyLong_Check(value)) return fromLong(*this, value);
  return breakWith(Reason::kUnsupportedTensorOp,
                   std::string("an argument is a ") + Py_TYPE(value)->tp_name);
}

bool Tracer::hasStandIn(PyObject* value, int depth) {
  if (value == nullptr || depth > 8) return false;
  if (graph::isStandIn(value)) return graph::asStandIn(value)->node->op != graph::Op::kInput;
  if (values::isScalar(value)) return false;
  if (PyTuple_Check(value)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
      if (hasStandIn(PyTuple_GET_ITEM(value, i), depth + 1)) return true;
    }
  } else if (PyList_Check(value)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); ++i) {
      if (hasStandIn(PyList_GET_ITEM(value, i), depth + 1)) return true;
    }
  } else if (PyDict_Check(value)) {
    PyObject *key = nullptr, *item = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(value, &position, &key, &item)) {
      if (hasStandIn(item, depth + 1)) return true;
    }
  }
  return false;
}

bool Tracer::anyStandIn(const Args& args) {
  std::vector<PyObject*> found;
  for (PyObject* value : args.values) collectTensors(value, found);
  return !found.empty();
}

Out Tracer::tensorCall(graph::Op op, PyObject* target, const Args& args, bool remember,
                       PyObject* facts) {
  if (torch_function.relevant) {
    bool handled = false;
    Out out = dispatchTorchFunction(op, target, args, handled);
    if (handled || !out.ok()) return out;
  }
  // 1. Arguments as the graph will keep them.
  std::vector<Ref<>> keep;
  std::vector<PyObject*> values_now;
  keep.reserve(args.values.size());
  for (PyObject* value : args.values) {
    Out converted = graphArgument(value);
    if (converted.flow() == Flow::kBreak && !torch_function.relevant && hasOverloaded(args)) {
      torch_function.relevant = true;
      return tensorCall(op, target, args, remember, facts);
    }
    STATOR_VALUE(argument, std::move(converted));
    values_now.push_back(argument.get());
    keep.push_back(std::move(argument));
  }
  if (args.positional == 2 && (PySlice_Check(values_now[1]) || PyTuple_CheckExact(values_now[1]))) {
    if (Ref<> index = knownSlices(values_now[1])) {
      values_now[1] = index.get();
      keep.push_back(std::move(index));
    }
  }
  // 2. What comes out.
  shapes::Request request;
  request.target = facts != nullptr ? facts : target;
  request.args = values_now.data();
  request.positional = args.positional;
  request.kwnames = args.names;
  request.state = &state;
  request.remember = remember;
  request.reader.tensor_of = metaOfStandIn;
  request.reader.is_opaque = isOpaque;
  if (op == graph::Op::kCallFunction && target == builtinFunction("getattr")) {
    request.target = values_now[1];
    request.positional = 1;
  }
  std::optional<ProcessStateScope> states;
  if (!remember && !process_states.empty()) states.emplace(*this);
  std::optional<OpenContextScope> contexts;
  if (!remember && !open_contexts.empty()) contexts.emplace(*this);
  shapes::Answer answer = shapes::infer(request);
  contexts.reset();
  states.reset();
  if (answer.status == shapes::Status::kDataDependent && args.keywordCount() == 0 &&
      !values_now.empty()) {
    if (Ref<> tensor =
            args.positional == 1 && isRead(target) ? knownTensor(values_now[0]) : Ref<>()) {
      Ref<> value = stealRef(PyObject_CallMethod(tensor.get(), PyUnicode_AsUTF8(target), nullptr));
      if (!value) return raiseCurrentError();
      return value;
    }
  }
  if ((answer.status == shapes::Status::kDataDependent ||
       answer.status == shapes::Status::kRaises) &&
      options.capture_scalar_outputs && args.positional == 1 && args.keywordCount() == 0 &&
      isRead(target)) {
    STATOR_VALUE(read, readIntoGraph(target, values_now[0]));
    if (read) return read;
  }
  if (answer.status == shapes::Status::kUnsupported && has_scalars) {
    // No rule for a float without a value: with the value it has now, then.
    Args numbers = args;
    bool any = false;
    for (PyObject*& value : numbers.values) {
      if (!symbolic::isSymScalar(value) || !symbolic::asSymScalar(value)->backed) continue;
      keep_alive.push_back(concrete(value));
      value = keep_alive.back().get();
      any = true;
    }
    if (any) return tensorCall(op, target, numbers, remember, facts);
  }
  if (answer.status != shapes::Status::kOk) {
    return breakWith(reasonFor(answer.status),
                     targetName(target) + (answer.why.empty() ? "" : ": " + answer.why));
  }
  if (answer.inferred->mutates) {
    std::vector<PyObject*> involved;
    for (PyObject* value : values_now) collectTensors(value, involved);
    std::string why;
    if (writeMayFail(target, values_now, involved, why))
      return breakWith(Reason::kRaises, targetName(target) + ": " + why);
    answer = shapes::infer(request);  // an answer is good until the next question only
  }
  const shapes::Inferred& inferred = *answer.inferred;
  if (torch_function.relevant && !inferred.changed_inputs.empty()) {
    // The graph gets another object for an instance of a subclass, with the same memory and facts of its own.
    for (PyObject* value : values_now) {
      if (graph::isStandIn(value) && typeOf(value) != tensorType() &&
          typeOf(value) != parameterType() && typeOf(value) != &PyTuple_Type) {
        return breakWith(
            Reason::kUnsupportedTensorOp,
            targetName(target) + ": changes the facts of an instance of a tensor subclass");
      }
    }
  }
  bool any_tensor = inferred.mutates || inferred.random || !remember;
  for (const shapes::Output& output : inferred.outputs)
    any_tensor |= output.kind == shapes::Output::Kind::kTensor;
  std::vector<PyObject*> tensors;
  for (PyObject* value : values_now) collectTensors(value, tensors);
  if (!options.runs_as_captured) {
    // AOTAutograd computes gradients for inputs of the graph, and for nothing that becomes a leaf inside of it. A view of a leaf that is
    // taken without gradients says of itself that it is one, but no gradient comes to it.
    bool leaf = false;
    for (const shapes::Output& output : inferred.outputs) {
      if (output.kind != shapes::Output::Kind::kTensor || output.same_object_as >= 0) continue;
      const bool view_of_leaf =
          output.alias_of >= 0 &&
          graph::asStandIn(tensors[static_cast<size_t>(output.alias_of)])->meta->requires_grad;
      leaf |= output.meta.requires_grad && output.meta.is_leaf && !view_of_leaf;
    }
    for (const auto& [index, after] : inferred.changed_inputs) {
      const shapes::TensorMeta& before =
          *graph::asStandIn(tensors[static_cast<size_t>(index)])->meta;
      leaf |= after.requires_grad && after.is_leaf && !before.requires_grad;
    }
    if (leaf)
      return breakWith(
          Reason::kUnsupportedTensorOp,
          targetName(target) + ": a tensor starts to require grad inside of the graph");
  }
  // 3. Nothing but constants: a fact, no node.
  if (!any_tensor) {
    std::vector<Ref<>> items;
    for (const shapes::Output& output : inferred.outputs)
      items.push_back(freshConstant(output.constant));
    switch (inferred.structure) {
      case shapes::Structure::kSingle:
        return items.empty() ? newRef(Py_None) : items[0];
      case shapes::Structure::kNested:
        return fillSkeleton(inferred.skeleton.get(), items);
      default:
        break;
    }
    Ref<> list = stealRef(PyList_New(0));
    for (Ref<>& item : items) PyList_Append(list.get(), item.get());
    return inferred.structure == shapes::Structure::kList ? list
                                                          : stealRef(PyList_AsTuple(list.get()));
  }
  // 4. The same object comes back and nothing happened: no node either.
  bool single = inferred.structure == shapes::Structure::kSingle;
  if (single && !inferred.mutates && !inferred.random && inferred.outputs[0].same_object_as >= 0) {
    return newRef(tensors[static_cast<size_t>(inferred.outputs[0].same_object_as)]);
  }
  // 5. The node.
  Ref<> tuple = stealRef(PyTuple_New(static_cast<Py_ssize_t>(args.positional)));
  if (hasSymbols()) {
    for (PyObject*& value : values_now) {
      keep.push_back(lowered(value));
      value = keep.back().get();
    }
  }
  for (size_t i = 0; i < args.positional; ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(values_now[i]));
  Ref<> kwargs;
  if (args.keywordCount() > 0) {
    kwargs = stealRef(PyDict_New());
    for (size_t i = 0; i < args.keywordCount(); ++i)
      PyDict_SetItem(kwargs.get(), args.name(i), values_now[args.positional + i]);
  }
  graph::Node* node = graph->addCall(op, newRef(target), tuple, kwargs);
  node->location = location();
  node->scope = frames.back()->scope;
  node->mutates = inferred.mutates || inferred.random || !remember;
  node->called = true;
  drew_random |= inferred.random;
  // 6. Its values.
  std::vector<uint32_t> storages;
  auto factsOf = [&](const shapes::Output& output) -> const shapes::TensorMeta* {
    graph->metas.push_back(output.meta);
    shapes::TensorMeta& meta = graph->metas.back();
    if (output.alias_of >= 0)
      meta.storage_id =
          graph::asStandIn(tensors[static_cast<size_t>(output.alias_of)])->meta->storage_id;
    else if (output.alias_of_output >= 0)
      meta.storage_id = storages[static_cast<size_t>(output.alias_of_output)];
    else
      meta.storage_id = next_storage++;
    return &meta;
  };
  PyObject* tensor_type = reinterpret_cast<PyObject*>(tensorType());
  Ref<> result;
  if (single && inferred.outputs.size() == 1 &&
      inferred.outputs[0].kind == shapes::Output::Kind::kTensor) {
    const shapes::Output& output = inferred.outputs[0];
    node->meta = factsOf(output);
    if (output.same_object_as >= 0) {
      result = newRef(tensors[static_cast<size_t>(output.same_object_as)]);
    } else {
      result = graph::makeStandIn(node, node->meta, tensor_type);
      values.addMade(result, instruction_start);
    }
  } else if (single && inferred.outputs.size() <= 1) {
    result = inferred.outputs.empty() || !inferred.outputs[0].constant
                 ? newRef(Py_None)
                 : inferred.outputs[0].constant;
  } else {
    Ref<> whole = graph::makeStandIn(node, nullptr, reinterpret_cast<PyObject*>(&PyTuple_Type));
    values.addMade(whole, instruction_start);
    std::vector<Ref<>> items;
    // `inferred` is valid until the next inference only; kept for clarity
    std::vector<shapes::Output> outputs = inferred.outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const shapes::Output& output = outputs[i];
      if (output.kind == shapes::Output::Kind::kConstant) {
        storages.push_back(0);
        items.push_back(output.constant);
        continue;
      }
      if (output.same_object_as >= 0) {
        storages.push_back(0);
        items.push_back(newRef(tensors[static_cast<size_t>(output.same_object_as)]));
        continue;
      }
      Ref<> index = stealRef(PyLong_FromSize_t(i));
      Ref<> item_args = stealRef(PyTuple_Pack(2, whole.get(), index.get()));
      graph::Node* item = graph->addCall(graph::Op::kCallFunction,
                                         newRef(operatorFunction("getitem")), item_args, Ref<>());
      item->meta = factsOf(output);
      item->location = node->location;
      item->scope = node->scope;
      storages.push_back(item->meta->storage_id);
      Ref<> stand_in = graph::makeStandIn(item, item->meta, tensor_type);
      values.addMade(stand_in, instruction_start);
      items.push_back(stand_in);
    }
    if (inferred.structure == shapes::Structure::kNested) {
      result = fillSkeleton(inferred.skeleton.get(), items);
    } else {
      Ref<> list = stealRef(PyList_New(0));
      for (Ref<>& item : items) PyList_Append(list.get(), item.get());
      result = inferred.structure == shapes::Structure::kList
                   ? list
                   : stealRef(PyList_AsTuple(list.get()));
      if (inferred.structure == shapes::Structure::kNamed) {
        result = stealRef(PyObject_CallOneArg(inferred.type.get(), result.get()));
        if (!result) return raiseCurrentError();
      }
    }
    node->structure = result;
  }
  // 7. What it did to its arguments.
  for (const auto& [index, facts] : inferred.changed_inputs) {
    graph::StandIn* changed = graph::asStandIn(tensors[static_cast<size_t>(index)]);
    uint32_t storage = changed->meta->storage_id;
    graph->metas.push_back(facts);
    graph->metas.back().storage_id = storage;
    changed->meta = &graph->metas.back();
  }
  if (inferred.mutates) {
    bool named = !inferred.written_inputs.empty();  // otherwise any of them may be written to
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!named || std::count(inferred.written_inputs.begin(), inferred.written_inputs.end(),
                               static_cast<int>(i)) != 0)
        noteWritten(tensors[i]);
    }
  }
  return result;
}

void Tracer::noteWritten(PyObject* tensor) {
  uint32_t storage = graph::asStandIn(tensor)->meta->storage_id;
  for (graph::Node* input : rootGraph().inputs()) {
    if (input == graph::asStandIn(tensor)->node ||
        (storage != 0 && input->meta != nullptr && input->meta->storage_id == storage))
      input->written = true;
  }
}

// ---- rows ------------------------------------------------------------------------------------------------------------------------------

namespace {

Out returnTrue(Tracer&, const Args&) { return newRef(Py_True); }
Out returnFalse(Tracer&, const Args&) { return newRef(Py_False); }
Out returnNone(Tracer&, const Args&) { return newRef(Py_None); }

// nn.Module._call_impl would leave out the hooks that are to be called after an error too.
Out isCompiling(Tracer& t, const Args&) { return newRef(t.runsModuleCall() ? Py_False : Py_True); }

Out isGradEnabled(Tracer& t, const Args&) {
  return newRef(t.state.grad_enabled ? Py_True : Py_False);
}
Out isInferenceEnabled(Tracer& t, const Args&) {
  return newRef(t.state.inference ? Py_True : Py_False);
}

Out setGradEnabled(Tracer& t, const Args& args) {
  if (args.values.size() != 1 || !PyBool_Check(args.values[0]))
    return t.breakWith(Reason::kRaises, "_set_grad_enabled of what is no bool");
  bool enabled = args.values[0] == Py_True;
  // torch's own context managers leave out what changes nothing; a call that the program makes itself stays in the graph.
  PyObject* file = t.frames.back()->code->code()->co_filename;
  bool own = std::string_view(PyUnicode_AsUTF8(file)).ends_with("torch/autograd/grad_mode.py");
  if (enabled == t.state.grad_enabled && own) return newRef(Py_None);
  Ref<> tuple = stealRef(PyTuple_Pack(1, args.values[0]));
  graph::Node* node = t.graph->addCall(
      graph::Op::kCallFunction, newRef(torchObject("torch._C._set_grad_enabled")), tuple, Ref<>());
  node->mutates = node->sets_mode = true;
  node->location = t.location();
  node->scope = t.frames.back()->scope;
  t.state.grad_enabled = enabled;
  return newRef(Py_None);
}

Out isTensor(Tracer& t, const Args& args) {
  if (args.values.size() != 1) return t.breakWith(Reason::kRaises, "is_tensor");
  return newRef(graph::isStandIn(args.values[0]) ? Py_True : Py_False);
}

// A state that is guarded as a whole (GlobalState): what torch says now.
Out readState(Tracer& t, const Args&, const char* path) {
  return t.fromNative(stealRef(PyObject_CallNoArgs(torchObject(path))));
}
Out defaultDtype(Tracer& t, const Args& args) {
  return readState(t, args, "torch.get_default_dtype");
}

Out refuseBackward(Tracer& t, const Args&) { return t.breakWith(Reason::kBackward); }

Out makeSize(Tracer& t, const Args& args) {
  if (args.values.size() != 1) return t.callNative(reinterpret_cast<PyObject*>(sizeType()), args);
  STATOR_VALUE(items, t.listOf(args.values[0]));
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
  if (!t.isNativeSafe(items.get()))
    return t.breakWith(Reason::kUnsupportedObject, "torch.Size of what are no ints");
  return t.fromNative(
      stealRef(PyObject_CallOneArg(reinterpret_cast<PyObject*>(sizeType()), items.get())));
}

// Tensor.size(dim) and friends are facts; the rest goes through inference.
Out tensorSize(Tracer& t, const Args& args) {
  static PyObject* name = PyUnicode_InternFromString("size");
  if (!args.values.empty() && graph::isStandIn(args.values[0]) && args.positional == 1 &&
      args.keywordCount() == 0) {
    static PyObject* shape = PyUnicode_InternFromString("shape");
    return t.tensorAttr(args.values[0], shape);
  }
  if (args.positional == 2 && graph::isStandIn(args.values[0]) &&
      PyLong_CheckExact(args.values[1])) {
    const auto& sizes = graph::asStandIn(args.values[0])->meta->sizes;
    int64_t dim = PyLong_AsLongLong(args.values[1]), n = static_cast<int64_t>(sizes.size());
    if (dim < 0) dim += n;
    if (dim >= 0 && dim < n) return t.symInt(sizes[static_cast<size_t>(dim)]);
  }
  return t.tensorCall(graph::Op::kCallMethod, name, args);
}

// Where an input lies in its storage is no part of its guard: views at other offsets share what was captured.
Out tensorStorageOffset(Tracer& t, const Args& args) {
  static PyObject* name = PyUnicode_InternFromString("storage_offset");
  if (!args.values.empty() && graph::isStandIn(args.values[0])) {
    const shapes::TensorMeta* meta = graph::asStandIn(args.values[0])->meta;
    for (graph::Node* input : t.rootGraph().inputs()) {
      if (meta == nullptr || input->meta == nullptr || meta->storage_id == 0 ||
          input->meta->storage_id != meta->storage_id)
        continue;
      Ref<> offset = stealRef(PyLong_FromLongLong(input->meta->storage_offset.value()));
      t.guards->add(Guard{GuardKind::kEquals,
                          t.sources->child(SourceKind::kTensorSize, input->source, nullptr, -1),
                          nullptr, offset});
    }
  }
  return t.tensorCall(graph::Op::kCallMethod, name, args);
}

// Whether a backward pass under way computes gradients for some inputs alone: there is one engine, and it says so for this thread.
Out isCheckpointValid(Tracer& t, const Args&) {
  Ref<> valid = stealRef(PyObject_CallNoArgs(torchObject("torch.autograd._is_checkpoint_valid")));
  if (!valid) return t.raiseCurrentError();
  return valid.get() == Py_True
             ? Out(std::move(valid))
             : Out(t.breakWith(Reason::kCallsOutside, "inside of a backward pass"));
}

// Operations that take a number: eager reads it off a tensor of one element. The same in operations that take the tensor itself.
Out withScalarTensor(Tracer& t, const Args& args, PyObject* number, graph::Op op, PyObject* target,
                     const char* polyfill) {
  const shapes::TensorMeta* meta = metaOfStandIn(number);
  if (meta != nullptr && meta->sizes.empty()) return t.call(torchObject(polyfill), args);
  return t.tensorCall(op, target, args);
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
Out addcmul(Tracer& t, const Args& args) {
  static PyObject* name = PyUnicode_InternFromString("addcmul_");
  return withScalarTensor(t, args, args.keyword("value"), graph::Op::kCallMethod, name,
                          "stator.polyfills.tensors.addcmul_");
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
    std::string_view text = PyUnicode_AsUTF8(name);
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
      std::string_view where = PyUnicode_AsUTF8(home.get());
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
    while (PyDict_Next(type->tp_dict, &position, &name, &item)) {
      if (Py_TYPE(item) == &PyMethodDescr_Type || Py_TYPE(item) == &PyWrapperDescr_Type ||
          PyFunction_Check(item)) {
        registerRow(item, CallRow{CallKind::kGraph, nullptr});
      }
    }
  }
  for (const char* path : {"torch.manual_seed",
                           "torch.seed",
                           "torch.initial_seed",
                           "torch.set_default_dtype",
                           "torch.set_num_threads",
                           "torch.set_flush_denormal",
                           "torch.use_deterministic_algorithms",
                           "torch.Tensor.register_hook",
                           "torch.Tensor.storage",
                           "torch.Tensor.untyped_storage",
                           "torch.Tensor.data_ptr",
                           "torch.Tensor.share_memory_",
                           "torch.Tensor.retain_grad",
                           "torch.Tensor.register_post_accumulate_grad_hook",
                           "torch.Tensor.numpy",
                           "torch.Tensor.__repr__",
                           "torch.Tensor.__array__",
                           "torch.Tensor.__reduce_ex__",
                           "torch.Tensor.__deepcopy__",
                           "torch.Tensor.set_",
                           "torch.Tensor.__hash__",
                           "torch.from_numpy",
                           "torch.frombuffer"}) {
    std::string text(path);
    size_t last = text.rfind('.');
    PyObject* owner = torchObject(text.substr(0, last).c_str());
    Ref<> name = stealRef(PyUnicode_FromString(text.substr(last + 1).c_str()));
    PyObject* found = owner != nullptr && PyType_Check(owner)
                          ? _PyType_Lookup(reinterpret_cast<PyTypeObject*>(owner), name.get())
                          : torchObject(path);
    registerRow(found, CallRow{CallKind::kRefuse, nullptr});
  }
  registerHandler("torch.Tensor.backward", refuseBackward);
  registerHandler("torch.autograd.backward", refuseBackward);
  registerHandler("torch.autograd.grad", refuseBackward);
  registerHandler("torch.Tensor.size", tensorSize);
  registerHandler("torch.Tensor.storage_offset", tensorStorageOffset);
  registerHandler("torch._C._ImperativeEngine.is_checkpoint_valid", isCheckpointValid);
  registerHandler("torch._foreach_lerp_", foreachLerp);
  registerHandler("torch._foreach_pow", foreachPow);
  registerHandler("torch.Tensor.addcmul_", addcmul);
  registerHandler("torch.is_grad_enabled", isGradEnabled);
  registerHandler("torch._C.is_grad_enabled", isGradEnabled);
  registerHandler("torch.is_inference_mode_enabled", isInferenceEnabled);
  registerHandler("torch._C._set_grad_enabled", setGradEnabled);
  registerHandler("torch.is_tensor", isTensor);
  registerHandler("torch.get_default_dtype", defaultDtype);
  registerHandler("torch.Size", makeSize);
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
  for (const char* path : {"torch.distributed.is_available",
                           "torch._C._len_torch_dispatch_stack",
                           "torch._C._len_torch_function_stack",
                           "torch.device",
                           "torch.finfo",
                           "torch.iinfo",
                           "torch.promote_types",
                           "torch.can_cast",
                           "torch.is_deterministic_algorithms_warn_only_enabled",
                           "torch.are_deterministic_algorithms_enabled",
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
                           "torch.cuda.is_available"}) {
    registerPure(path);
  }
}

}  // namespace stator::interpret
