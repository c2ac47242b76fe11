// Calls that become nodes of the graph, and what is read off a tensor without one.
#include "interpret/tensors/torch_calls.h"

#include "base/numpy_number.h"
#include "interpret/core/apparent_types.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/sym_scalars.h"
#include "interpret/core/symbols.h"
#include "interpret/core/tables.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/known_scalars.h"
#include "interpret/tensors/torch_contexts.h"
#include "interpret/tensors/torch_function.h"
#include "interpret/tensors/torch_states.h"
#include "interpret/tensors/wrapper_tensors.h"
#include "interpret/tensors/writes.h"
#include "shapes/arg.h"
#include "shapes/dims.h"
#include "symbolic/sym_int.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace stator::interpret {

Out fromLong(Tracer& t, PyObject* value);
// calls/errors.cpp
Out tensorError(Tracer& t, PyObject* target, const Args& args, const std::vector<PyObject*>& now);

namespace {

const shapes::TensorMeta* metaOfStandIn(PyObject* object) {
  return graph::isStandIn(object) ? graph::asStandIn(object)->meta : nullptr;
}

// Of a plain tensor only while its facts are those that the fake has.
PyObject* knownFake(PyObject* object) {
  if (!graph::isStandIn(object)) return nullptr;
  const graph::StandIn* value = graph::asStandIn(object);
  if (value->meta == value->node->meta) return value->node->wrapper.get();
  return wrapperOf(object);
}

bool isOpaque(PyObject* object) {
  return isTraceIterator(object) ||
         (graph::isStandIn(object) && graph::asStandIn(object)->meta == nullptr &&
          !graph::asStandIn(object)->node->wrapper);
}

// A torch.Size of items that are no ints, which it would not take itself.
Ref<> sizeOf(const Ref<>& items) {
  Ref<> packed = stealRef(PyTuple_Pack(1, items.get()));
  return stealRef(packed ? PyTuple_Type.tp_new(sizeType(), packed.get(), nullptr) : nullptr);
}

bool isRagged(const shapes::Output& output) {
  static auto* const kind = reinterpret_cast<PyTypeObject*>(torchObject("torch.SymInt"));
  return output.constant && Py_TYPE(output.constant.get()) == kind;
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

// What torch takes a number of NumPy's for, but where it makes a tensor of it; null: it is none.
Ref<> pythonNumber(PyObject* value) {
  if (!isNumpyNumber(value)) return Ref<>();
  const std::string_view name = Py_TYPE(value)->tp_name;
  if (name.substr(0, 10) == "numpy.bool")
    return newRef(PyObject_IsTrue(value) ? Py_True : Py_False);
  return stealRef(name.substr(0, 11) == "numpy.float" ? PyNumber_Float(value)
                                                      : PyNumber_Long(value));
}

// A tensor that is made of such a number has its dtype.
bool keepsNumpyDtype(PyObject* target, const Args& args) {
  static PyObject* const makers[] = {
      torchObject("torch.tensor"), torchObject("torch.as_tensor"), torchObject("torch.asarray"),
      torchObject("torch.Tensor.new_tensor"), torchObject("torch.Tensor")};
  const bool maker =
      PyUnicode_Check(target)
          ? PyUnicode_CompareWithASCIIString(target, "new_tensor") == 0
          : std::find(std::begin(makers), std::end(makers), target) != std::end(makers);
  if (!maker) return false;
  bool any = false;
  for (PyObject* value : args.values) {
    any |= isNumpyNumber(value);
    if (!PyList_CheckExact(value) && !PyTuple_CheckExact(value)) continue;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i)
      any |= isNumpyNumber(PySequence_Fast_GET_ITEM(value, i));
  }
  return any;
}

bool givesGradients(const shapes::Inferred& inferred) {
  return std::any_of(inferred.outputs.begin(), inferred.outputs.end(),
                     [](const shapes::Output& output) { return output.meta.requires_grad; });
}

// The tensors that a call is to write its results into.
std::vector<PyObject*> tensorsOfOut(const shapes::Request& request) {
  std::vector<PyObject*> tensors;
  const Py_ssize_t keywords = request.kwnames == nullptr ? 0 : PyTuple_GET_SIZE(request.kwnames);
  for (Py_ssize_t i = 0; i < keywords; ++i) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(request.kwnames, i), "out") == 0)
      collectTensors(request.args[request.positional + static_cast<size_t>(i)], tensors);
  }
  return tensors;
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

// A list or tuple with a float that the graph computes, of which the value now is known.
bool holdsFloat(PyObject* value) {
  if (!PyTuple_Check(value) && !PyList_Check(value)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(value, i);
    if (symbolic::isSymScalar(item) && symbolic::asSymScalar(item)->backed) return true;
  }
  return false;
}

// Sizes of results that depend on data, symbols from `first` on: the graph reads each off a result that has it.
void readNewSizes(Tracer& t, size_t first, PyObject* result) {
  static PyObject* sym_size = torchObject("torch.ops.aten.sym_size.int");
  PyObject* int_type = reinterpret_cast<PyObject*>(&PyLong_Type);
  std::vector<PyObject*> results;
  collectTensors(result, results);
  for (size_t number = first; number < t.sizes.sources().size(); ++number) {
    const symbolic::Dim size = symbolic::Dim::of(symbolic::symbol(static_cast<int64_t>(number)));
    for (PyObject* tensor : results) {
      const shapes::Dims& sizes = metaOfStandIn(tensor)->sizes;
      const auto at = std::find_if(sizes.begin(), sizes.end(),
                                   [&](symbolic::Dim dim) { return dim.identical(size); });
      if (at == sizes.end()) continue;
      Ref<> dim = stealRef(PyLong_FromLong(static_cast<long>(at - sizes.begin())));
      graph::Node* node =
          t.graphs.current().addCall(graph::Op::kCallFunction, newRef(sym_size),
                                     stealRef(PyTuple_Pack(2, tensor, dim.get())), Ref<>());
      node->scalar_type = newRef(int_type);
      node->size = size;
      node->location = t.location();
      node->scope = t.frames.innermost().scope;
      Ref<> stand_in = graph::makeStandIn(node, nullptr, int_type);
      t.values.addMade(stand_in, t.frames.instruction());
      t.sizes.setNode(size.expr(), std::move(stand_in));
      break;
    }
  }
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

Out graphArgument(Tracer& tracer, PyObject* value, int depth) {
  if (graph::isStandIn(value) && tracer.graphs.hadSubgraphs() &&
      !tracer.graphs.reachable(graph::asStandIn(value)->node)) {
    return tracer.breakWith(Reason::kUnsupportedTensorOp,
                            "a value that was made inside of a function of the graph");
  }
  if (graph::isStandIn(value) || values::isScalar(value) || symbolic::isSymbol(value))
    return newRef(value);
  if (values::isConstantDeep(value)) return newRef(value);
  if (depth > 6) return tracer.breakWith(Reason::kUnsupportedTensorOp, "a deeply nested argument");
  if (PyTuple_Check(value) || PyList_Check(value)) {
    STATOR_VALUE(items, contents(tracer, value));
    Py_ssize_t n = PyObject_Size(items.get());
    Ref<> list = stealRef(PyList_New(n));
    for (Py_ssize_t i = 0; i < n; ++i) {
      Ref<> raw = stealRef(PySequence_GetItem(items.get(), i));
      STATOR_VALUE(item, graphArgument(tracer, raw.get(), depth + 1));
      PyList_SET_ITEM(list.get(), i, item.release());
    }
    if (PyList_Check(value)) return list;
    return stealRef(PyList_AsTuple(list.get()));
  }
  if (PyDict_CheckExact(value)) {
    STATOR_VALUE(items, contents(tracer, value));
    Ref<> dict = stealRef(PyDict_New());
    PyObject *key = nullptr, *raw = nullptr;
    Py_ssize_t position = 0;
    Py_hash_t hash = 0;
    while (_PyDict_Next(items.get(), &position, &key, &raw, &hash)) {
      STATOR_VALUE(item, graphArgument(tracer, raw, depth + 1));
      _PyDict_SetItem_KnownHash(dict.get(), key, item.get(), hash);
    }
    return dict;
  }
  if (PySlice_Check(value)) {
    auto* slice = reinterpret_cast<PySliceObject*>(value);
    STATOR_VALUE(start, graphArgument(tracer, slice->start, depth + 1));
    STATOR_VALUE(stop, graphArgument(tracer, slice->stop, depth + 1));
    STATOR_VALUE(step, graphArgument(tracer, slice->step, depth + 1));
    return stealRef(PySlice_New(start.get(), stop.get(), step.get()));
  }
  if (isTraceIterator(value)) {
    STATOR_VALUE(list, listOf(tracer, value));
    return graphArgument(tracer, list.get(), depth + 1);
  }
  if (PyType_Check(value) || PyCFunction_Check(value) || isEnumMember(value) ||
      isGraphModule(value))
    return newRef(value);
  if (PyLong_Check(value)) return fromLong(tracer, value);
  if (Ref<> number = pythonNumber(value)) return number;
  return tracer.breakWith(Reason::kUnsupportedTensorOp,
                          std::string("an argument is a ") + Py_TYPE(value)->tp_name);
}

Out tensorCall(Tracer& tracer, graph::Op op, PyObject* target, const Args& args, bool remember,
               PyObject* facts) {
  if (tracer.torch_function.relevant()) {
    bool handled = false;
    Out out = dispatchTorchFunction(tracer, op, target, args, handled);
    if (handled || !out.ok()) return out;
  }
  // 1. Arguments as the graph will keep them.
  std::vector<Ref<>> keep;
  std::vector<PyObject*> values_now;
  keep.reserve(args.values.size());
  if (keepsNumpyDtype(target, args))
    return tracer.breakWith(Reason::kUnsupportedTensorOp, "makes a tensor of a number of NumPy's");
  for (PyObject* value : args.values) {
    Out converted = graphArgument(tracer, value);
    if (converted.flow() == Flow::kBreak && !tracer.torch_function.relevant() &&
        hasOverloaded(tracer, args)) {
      tracer.torch_function.noteRelevant();
      return tensorCall(tracer, op, target, args, remember, facts);
    }
    STATOR_VALUE(argument, std::move(converted));
    values_now.push_back(argument.get());
    keep.push_back(std::move(argument));
  }
  const bool takes_item = target == operatorFunction("getitem");
  if (args.positional == 2 &&
      (PySlice_Check(values_now[1]) ||
       (takes_item && (PyTuple_CheckExact(values_now[1]) || graph::isStandIn(values_now[1]))))) {
    if (Ref<> index = knownSlices(tracer, values_now[1])) {
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
  request.state = &tracer.torch.now();
  request.remember = remember;
  request.reader.tensor_of = metaOfStandIn;
  request.reader.is_opaque = isOpaque;
  // Once such a tensor has come up: its class decides, and so does one that makes one.
  std::optional<tensor::TorchFunctionPause> handlers_ran;
  if (tracer.wrappers.any()) {
    request.wrapped = prepareWrappers(tracer, values_now) || tracer.wrappers.making();
    request.fakes = tracer.wrappers.fakes();
    if (request.wrapped) request.reader.wrapper_of = knownFake;
    if (request.wrapped && tracer.torch_function.relevant()) handlers_ran.emplace(true);
    if (request.wrapped && op == graph::Op::kCallMethod) {
      // The method of torch's, not what the class has put over it, which the trace may be inside of.
      PyObject* method = _PyType_Lookup(tensorType(), target);
      if (method != nullptr && _PyType_Lookup(typeOf(tracer, values_now[0]), target) != method) {
        op = graph::Op::kCallFunction;
        target = method;
      }
    }
  }
  if (op == graph::Op::kCallFunction && target == builtinFunction("getattr") && facts == nullptr) {
    request.target = values_now[1];
    request.positional = 1;
  }
  std::optional<ProcessStateScope> states;
  if (!remember && !tracer.torch.settings().empty()) states.emplace(tracer);
  std::optional<OpenContextScope> contexts;
  if (!remember && !tracer.torch.contexts().empty()) contexts.emplace(tracer);
  shapes::Answer answer = shapes::infer(request);
  contexts.reset();
  states.reset();
  handlers_ran.reset();
  std::optional<shapes::Inferred> kept;
  if (request.wrapped && answer.status == shapes::Status::kOk) {
    kept = *answer.inferred;
    answer.inferred = &*kept;
  }
  const size_t first_new = tracer.sizes.sources().size();
  for (size_t i = first_new; i < tracer.sizes.environment().symbolCount(); ++i) {
    const symbolic::Expr* added = symbolic::symbol(static_cast<int64_t>(i));
    tracer.sizes.addSymbol(nullptr, tracer.sizes.environment().rangeOf(added));
  }
  const bool new_sizes = tracer.sizes.sources().size() > first_new;
  if (answer.status == shapes::Status::kRaises && PyUnicode_Check(target) &&
      PyUnicode_CompareWithASCIIString(target, "tolist") == 0) {
    // Of every tensor but a fake one.
    answer.status = shapes::Status::kDataDependent;
    answer.why.clear();
  }
  if (answer.status == shapes::Status::kDataDependent && args.keywordCount() == 0 &&
      !values_now.empty()) {
    if (Ref<> tensor =
            args.positional == 1 && isRead(target) ? knownTensor(tracer, values_now[0]) : Ref<>()) {
      Ref<> value = stealRef(PyObject_CallMethod(tensor.get(), PyUnicode_AsUTF8(target), nullptr));
      if (!value) return tracer.raiseCurrentError();
      return value;
    }
  }
  if ((answer.status == shapes::Status::kDataDependent ||
       answer.status == shapes::Status::kRaises) &&
      tracer.options.capture_scalar_outputs && args.positional == 1 && args.keywordCount() == 0 &&
      isRead(target)) {
    STATOR_VALUE(read, readIntoGraph(tracer, target, values_now[0]));
    if (read) return read;
  }
  if (answer.status == shapes::Status::kUnsupported && tracer.sizes.hasScalars()) {
    // No rule for a float without a value: with the value it has now, then.
    Args numbers = args;
    bool any = false;
    for (size_t i = 0; i < numbers.values.size(); ++i) {
      PyObject*& value = numbers.values[i];
      if (holdsFloat(value)) {
        // The graph's copy of a list or tuple.
        if (!makeConcrete(tracer, values_now[i])) continue;
        value = tracer.world.keep(newRef(values_now[i]));
      } else if (symbolic::isSymScalar(value) && symbolic::asSymScalar(value)->backed) {
        value = tracer.world.keep(concrete(tracer, value));
      } else {
        continue;
      }
      any = true;
    }
    if (any) return tensorCall(tracer, op, target, numbers, remember, facts);
  }
  if ((answer.status == shapes::Status::kRaises ||
       answer.status == shapes::Status::kDataDependent) &&
      !values_now.empty() && !graph::isStandIn(values_now[0]) &&
      target == torchObject("torch.tensor")) {
    // A list with tensors of one element among its items: torch reads them. The same in operations.
    std::vector<PyObject*> inside;
    collectTensors(values_now[0], inside);
    if (!inside.empty())
      return tensorCall(tracer, op, torchObject("torch._refs.tensor"), args, remember, facts);
  }
  if (answer.status == shapes::Status::kRaises && facts == nullptr && remember &&
      !request.wrapped && (op == graph::Op::kCallMethod || op == graph::Op::kCallFunction)) {
    const std::string why = answer.why;
    STATOR_VALUE(none, tensorError(tracer, target, args, values_now));
    return tracer.breakWith(Reason::kRaises, targetName(target) + (why.empty() ? "" : ": " + why));
  }
  if (answer.status != shapes::Status::kOk) {
    return tracer.breakWith(reasonFor(answer.status),
                            targetName(target) + (answer.why.empty() ? "" : ": " + answer.why));
  }
  if (tracer.storages.anyLeafWrites() && tracer.torch.now().grad_enabled &&
      givesGradients(*answer.inferred)) {
    std::vector<PyObject*> involved;
    for (PyObject* value : values_now) collectTensors(value, involved);
    for (PyObject* tensor : involved) {
      const shapes::TensorMeta* meta = graph::asStandIn(tensor)->meta;
      if (meta != nullptr && tracer.storages.isLeafWritten(meta->storage_id))
        return tracer.breakWith(
            Reason::kUnsupportedMutation,
            targetName(target) + ": uses a leaf that was written to under no_grad");
    }
  }
  if (new_sizes && answer.inferred->mutates)
    return tracer.breakWith(Reason::kDynamicOutputShape,
                            targetName(target) + ": writes its result into a tensor");
  if (answer.inferred->mutates) {
    std::vector<PyObject*> involved;
    for (PyObject* value : values_now) collectTensors(value, involved);
    std::string why;
    // In-place operations write to the first, layers with a state to some others.
    std::vector<int> named_first = answer.inferred->written_inputs;
    if (named_first.empty() || named_first[0] == 0) named_first = {0};
    for (int index : named_first) {
      // What is written to comes first.
      std::vector<PyObject*> ordered = involved;
      const auto at = ordered.begin() + index;
      if (index > 0 && static_cast<size_t>(index) < ordered.size())
        std::rotate(ordered.begin(), at, at + 1);
      if (writeMayFail(tracer, target, values_now, ordered, why))
        return tracer.breakWith(Reason::kRaises, targetName(target) + ": " + why);
    }
    for (size_t i = 0; i < involved.size(); ++i) {
      PyObject* tensor = involved[i];
      const std::vector<int>& named = answer.inferred->written_inputs;
      const bool written =
          named.empty() || std::count(named.begin(), named.end(), static_cast<int>(i)) != 0;
      const uint32_t storage = graph::asStandIn(tensor)->meta->storage_id;
      if (written && writesToShared(tracer, storage)) {
        return tracer.breakWith(
            Reason::kUnsupportedMutation,
            targetName(target) +
                ": writes to memory of several inputs, with and without gradients or of wrappers");
      }
      // AOTAutograd saves what the write left for the backward pass, and writes once more there.
      if (written && !tracer.options.runs_as_captured && !tracer.torch.now().grad_enabled &&
          tracer.storages.hasGrads(storage))
        tracer.storages.noteLeafWrite(storage);
      if (tracer.storages.isHooked(storage))
        return tracer.breakWith(Reason::kCallsOutside, "writes to a tensor with a hook");
    }
    // an answer is good until the next question only
    if (!request.wrapped) answer = shapes::infer(request);
  }
  const shapes::Inferred& inferred = *answer.inferred;
  if (tracer.torch_function.relevant() && !inferred.changed_inputs.empty()) {
    // The graph gets another object for an instance of a subclass, with the same memory and facts of its own.
    for (PyObject* value : values_now) {
      if (graph::isStandIn(value) && typeOf(tracer, value) != tensorType() &&
          typeOf(tracer, value) != parameterType() && typeOf(tracer, value) != &PyTuple_Type) {
        return tracer.breakWith(
            Reason::kUnsupportedTensorOp,
            targetName(target) + ": changes the facts of an instance of a tensor subclass");
      }
    }
  }
  if (request.wrapped && !tracer.options.runs_as_captured) {
    // What takes wrappers apart has no way to give one other sizes.
    std::vector<PyObject*> involved;
    for (PyObject* value : values_now) collectTensors(value, involved);
    for (const auto& [index, after] : inferred.changed_inputs) {
      const graph::StandIn* changed = graph::asStandIn(involved[static_cast<size_t>(index)]);
      if (!shapes::identical(changed->meta->sizes, after.sizes) ||
          !shapes::identical(changed->meta->strides, after.strides))
        return tracer.breakWith(Reason::kUnsupportedMutation,
                                targetName(target) + ": changes the sizes of a wrapper subclass");
    }
  }
  bool any_tensor = inferred.mutates || inferred.random || !remember;
  for (const shapes::Output& output : inferred.outputs)
    any_tensor |= output.kind == shapes::Output::Kind::kTensor || isRagged(output);
  std::vector<PyObject*> tensors;
  for (PyObject* value : values_now) collectTensors(value, tensors);
  if (!tracer.options.runs_as_captured) {
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
      const graph::StandIn* changed = graph::asStandIn(tensors[static_cast<size_t>(index)]);
      leaf |= after.requires_grad && after.is_leaf && !changed->meta->requires_grad;
      // It has no way to give the memory of the caller's tensor another size.
      if (changed->node->source != nullptr &&
          !shapes::identical({changed->meta->storage_bytes}, {after.storage_bytes}))
        return tracer.breakWith(Reason::kUnsupportedMutation,
                                targetName(target) + ": resizes the memory of an input");
    }
    // Nor does it keep the strides of what a result is written into: it computes a new one and forgets the old.
    for (PyObject* out : tensorsOfOut(request)) {
      const shapes::TensorMeta& meta = *graph::asStandIn(out)->meta;
      if (!shapes::isContiguous(meta.sizes, meta.strides))
        return tracer.breakWith(Reason::kUnsupportedTensorOp,
                                targetName(target) + ": out= is a tensor that is not contiguous");
    }
    if (leaf)
      return tracer.breakWith(
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
    if (inferred.structure == shapes::Structure::kList) return list;
    Ref<> all = stealRef(PyList_AsTuple(list.get()));
    return inferred.type.get() == reinterpret_cast<PyObject*>(sizeType()) ? sizeOf(all) : all;
  }
  // 4. The same object comes back and nothing happened: no node either.
  bool single = inferred.structure == shapes::Structure::kSingle;
  if (single && !inferred.mutates && !inferred.random && inferred.outputs[0].same_object_as >= 0) {
    return newRef(tensors[static_cast<size_t>(inferred.outputs[0].same_object_as)]);
  }
  // 5. The node.
  Ref<> tuple = stealRef(PyTuple_New(static_cast<Py_ssize_t>(args.positional)));
  if (tracer.sizes.any()) {
    for (PyObject*& value : values_now) {
      keep.push_back(lowered(tracer, value));
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
  graph::Node* node = tracer.graphs.current().addCall(op, newRef(target), tuple, kwargs);
  node->location = tracer.location();
  node->scope = tracer.frames.innermost().scope;
  node->mutates = inferred.mutates || inferred.random || !remember;
  node->repeatable =
      !inferred.written_inputs.empty() && !inferred.random && remember && !request.wrapped;
  // reading a part of a tensor cannot fail
  node->called = !request.wrapped || target != builtinFunction("getattr");
  node->random = inferred.random;
  if (inferred.random) tracer.effects.noteRandom();
  // 6. Its values.
  std::vector<uint32_t> storages;
  auto facts_of = [&](const shapes::Output& output) -> const shapes::TensorMeta* {
    tracer.graphs.current().metas.push_back(output.meta);
    shapes::TensorMeta& meta = tracer.graphs.current().metas.back();
    if (output.alias_of >= 0) {
      PyObject* shared = tensors[static_cast<size_t>(output.alias_of)];
      meta.storage_id = graph::asStandIn(shared)->meta->storage_id;
      if (request.wrapped && static_cast<bool>(output.wrapper) != (wrapperOf(shared) != nullptr)) {
        // A wrapper and a part of it: memory of several tensors on one side.
        tracer.wrappers.tie(meta.storage_id, tracer.storages.following());
        meta.storage_id = tracer.storages.fresh();
      }
    } else if (output.alias_of_output >= 0)
      meta.storage_id = storages[static_cast<size_t>(output.alias_of_output)];
    else
      meta.storage_id = tracer.storages.fresh();
    return &meta;
  };
  auto type_of = [](const shapes::Output& output) {
    return reinterpret_cast<PyObject*>(output.wrapper ? Py_TYPE(output.wrapper.get())
                                                      : tensorType());
  };
  auto ragged_size = [&](graph::Node* of, const shapes::Output& output) {
    of->wrapper = output.constant;
    Ref<> size = graph::makeStandIn(of, nullptr,
                                    reinterpret_cast<PyObject*>(Py_TYPE(output.constant.get())));
    tracer.values.addMade(size, tracer.frames.instruction());
    return size;
  };
  Ref<> result;
  if (single && inferred.outputs.size() == 1 &&
      inferred.outputs[0].kind == shapes::Output::Kind::kTensor) {
    const shapes::Output& output = inferred.outputs[0];
    node->meta = facts_of(output);
    if (output.same_object_as >= 0) {
      result = newRef(tensors[static_cast<size_t>(output.same_object_as)]);
    } else {
      node->wrapper = output.wrapper;
      result = graph::makeStandIn(node, node->meta, type_of(output));
      tracer.values.addMade(result, tracer.frames.instruction());
    }
  } else if (single && inferred.outputs.size() == 1 && isRagged(inferred.outputs[0])) {
    result = ragged_size(node, inferred.outputs[0]);
  } else if (single && inferred.outputs.size() <= 1) {
    result = inferred.outputs.empty() || !inferred.outputs[0].constant
                 ? newRef(Py_None)
                 : inferred.outputs[0].constant;
  } else {
    Ref<> whole = graph::makeStandIn(node, nullptr, reinterpret_cast<PyObject*>(&PyTuple_Type));
    tracer.values.addMade(whole, tracer.frames.instruction());
    std::vector<Ref<>> items;
    // `inferred` is valid until the next inference only; kept for clarity
    std::vector<shapes::Output> outputs = inferred.outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const shapes::Output& output = outputs[i];
      if (output.kind == shapes::Output::Kind::kConstant && !isRagged(output)) {
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
      graph::Node* item = tracer.graphs.current().addCall(
          graph::Op::kCallFunction, newRef(operatorFunction("getitem")), item_args, Ref<>());
      item->location = node->location;
      item->scope = node->scope;
      if (isRagged(output)) {
        storages.push_back(0);
        items.push_back(ragged_size(item, output));
        continue;
      }
      item->meta = facts_of(output);
      storages.push_back(item->meta->storage_id);
      item->wrapper = output.wrapper;
      Ref<> stand_in = graph::makeStandIn(item, item->meta, type_of(output));
      tracer.values.addMade(stand_in, tracer.frames.instruction());
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
      if (inferred.structure == shapes::Structure::kNamed &&
          inferred.type.get() == reinterpret_cast<PyObject*>(sizeType())) {
        result = sizeOf(result);
      } else if (inferred.structure == shapes::Structure::kNamed) {
        result = stealRef(PyObject_CallOneArg(inferred.type.get(), result.get()));
        if (!result) return tracer.raiseCurrentError();
      }
    }
    node->structure = result;
  }
  if (new_sizes) readNewSizes(tracer, first_new, result.get());
  // 7. What it did to its arguments.
  if (request.wrapped || !inferred.changed_inputs.empty()) tracer.torch.noteGradsMatter();
  for (const auto& [index, facts] : inferred.changed_inputs) {
    graph::StandIn* changed = graph::asStandIn(tensors[static_cast<size_t>(index)]);
    uint32_t storage = changed->meta->storage_id;
    tracer.graphs.current().metas.push_back(facts);
    tracer.graphs.current().metas.back().storage_id = storage;
    changed->meta = &tracer.graphs.current().metas.back();
  }
  if (inferred.mutates) {
    bool named = !inferred.written_inputs.empty();  // otherwise any of them may be written to
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!named || std::count(inferred.written_inputs.begin(), inferred.written_inputs.end(),
                               static_cast<int>(i)) != 0)
        noteWritten(tracer, tensors[i]);
    }
  }
  return result;
}

void noteWritten(Tracer& tracer, PyObject* tensor) {
  uint32_t storage = graph::asStandIn(tensor)->meta->storage_id;
  for (graph::Node* input : tracer.graphs.root().inputs()) {
    if (input == graph::asStandIn(tensor)->node ||
        (storage != 0 && input->meta != nullptr && input->meta->storage_id == storage))
      input->written = true;
  }
  if (!tracer.wrappers.anyTies()) return;
  // What is written to in a part is written to in the whole, and the other way round.
  const std::unordered_set<uint32_t> involved = tracer.wrappers.tied(storage);
  for (graph::Node* input : tracer.graphs.root().inputs()) {
    if (input->meta != nullptr && input->meta->storage_id != 0 &&
        involved.count(input->meta->storage_id) != 0)
      input->written = true;
  }
}

bool anyStandIn(Tracer& tracer, const Args& args) {
  std::vector<PyObject*> found;
  for (PyObject* value : args.values) collectTensors(value, found);
  return !found.empty();
}

}  // namespace stator::interpret
