// A call of a tensor operation, step by step: arguments as the graph keeps them, what comes out, whether it may be in this graph, the node,
// its values, and what it did to its arguments.
#include "interpret/tensors/tensor_call.h"

#include "base/faults.h"
#include "base/numpy_number.h"
#include "base/stack_room.h"
#include "base/text.h"
#include "interpret/core/apparent_types.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/sym_scalars.h"
#include "interpret/core/symbols.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/objects/errors.h"
#include "interpret/objects/known_scalars.h"
#include "interpret/tensors/data_numbers.h"
#include "interpret/tensors/tensor_attributes.h"
#include "interpret/tensors/torch_calls.h"
#include "interpret/tensors/torch_contexts.h"
#include "interpret/tensors/torch_function.h"
#include "interpret/tensors/torch_states.h"
#include "interpret/tensors/wrapper_tensors.h"
#include "interpret/tensors/writes.h"
#include "shapes/arg.h"
#include "shapes/data_sizes.h"
#include "shapes/dims.h"
#include "symbolic/sym_int.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace stator::interpret {

namespace {

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
  if (PyUnicode_Check(target)) return utf8(target);
  Ref<> name = stealRef(PyObject_GetAttrString(target, "__name__"));
  if (!name) PyErr_Clear();
  return name ? utf8(name.get()) : "?";
}

// Methods that hand a single element to Python.
bool isRead(PyObject* target) {
  if (!PyUnicode_Check(target)) return false;
  std::string_view name = utf8(target);
  return name == "item" || name == "tolist" || name == "__int__" || name == "__index__" ||
         name == "__float__" || name == "__bool__" || name == "__complex__";
}

// Puts the stand-ins into the places that the skeleton numbers.
Ref<> fillSkeleton(PyObject* skeleton, const std::vector<Ref<>>& items) {
  needStack();
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

class TensorCall {
 public:
  TensorCall(Tracer& tracer, graph::Op op, PyObject* target, const Args& args, bool remember,
             PyObject* facts)
      : tracer_(tracer),
        op_(op),
        target_(target),
        args_(args),
        remember_(remember),
        facts_(facts) {}
  Out run();

 private:
  // The call under another name, or with other arguments.
  Out again(PyObject* target, const Args& args) {
    return tensorCall(tracer_, op_, target, args, remember_, facts_);
  }
  Flow breakWith(Reason reason, const char* why) {
    return tracer_.breakWith(reason, targetName(target_) + ": " + why);
  }
  std::vector<PyObject*> involved() const {
    std::vector<PyObject*> tensors;
    for (PyObject* value : now_) collectTensors(value, tensors);
    return tensors;
  }
  bool wasWritten(size_t tensor) const {
    const std::vector<int>& named = inferred().written_inputs;
    return named.empty() || std::count(named.begin(), named.end(), static_cast<int>(tensor)) != 0;
  }
  const shapes::Inferred& inferred() const { return *answer_.inferred; }

  Flow takeArguments();
  void infer();
  void askWrappers(std::optional<tensor::TorchFunctionPause>& handlers_ran);
  // No answer: what the program gets instead, if there is a way; ok with null: none.
  Out withoutAnswer();
  Out withNumbers();
  bool onlyScales() const;
  Flow mayBeInGraph();
  Flow checkLeafUse();
  Flow checkWrites();
  Flow checkChangedFacts();
  Flow checkForAutograd();
  bool onlyConstants() const;
  Out constants() const;
  void addNode();
  const shapes::TensorMeta* factsOf(const shapes::Output& output);
  Ref<> raggedSize(graph::Node* of, const shapes::Output& output);
  Ref<> singleValue();
  Out severalValues();
  Ref<> itemValue(PyObject* whole, size_t index, const shapes::Output& output);
  void noteEffects();

  Tracer& tracer_;
  graph::Op op_;
  PyObject* target_;
  const Args& args_;
  const bool remember_;
  bool any_float_ = false;
  PyObject* facts_;
  std::vector<Ref<>> keep_;
  std::vector<PyObject*> now_;    // the arguments, as the graph will keep them
  std::vector<PyObject*> asked_;  // the same for inference, where that is given something else
  bool overloaded_ = false;       // an argument has a __torch_function__ after all
  shapes::Request request_;
  shapes::Answer answer_;
  std::optional<shapes::Inferred> kept_;
  size_t first_new_ = 0;  // the first symbol that the operation brought
  bool new_sizes_ = false;
  std::vector<PyObject*> tensors_;
  graph::Node* node_ = nullptr;
  std::vector<uint32_t> storages_;  // of the outputs so far
};

Flow TensorCall::takeArguments() {
  keep_.reserve(args_.values.size());
  if (keepsNumpyDtype(target_, args_))
    return tracer_.breakWith(Reason::kUnsupportedTensorOp, "makes a tensor of a number of NumPy's");
  for (PyObject* value : args_.values) {
    Out converted = graphArgument(tracer_, value);
    if (converted.flow() == Flow::kBreak && !tracer_.torch_function.relevant() &&
        hasOverloaded(tracer_, args_)) {
      tracer_.torch_function.noteRelevant();
      overloaded_ = true;
      return Flow::kOk;
    }
    STATOR_VALUE(argument, std::move(converted));
    now_.push_back(argument.get());
    keep_.push_back(std::move(argument));
  }
  const bool takes_item = target_ == operatorFunction("getitem");
  if (args_.positional == 2 &&
      (PySlice_Check(now_[1]) ||
       (takes_item && (PyTuple_CheckExact(now_[1]) || graph::isStandIn(now_[1]))))) {
    if (Ref<> index = knownSlices(tracer_, now_[1])) {
      now_[1] = index.get();
      keep_.push_back(std::move(index));
    }
  }
  return Flow::kOk;
}

// Once a tensor with a class of its own has come up: that class decides, and so does one that makes one.
void TensorCall::askWrappers(std::optional<tensor::TorchFunctionPause>& handlers_ran) {
  request_.wrapped = prepareWrappers(tracer_, now_) || tracer_.wrappers.making();
  request_.fakes = tracer_.wrappers.fakes();
  if (!request_.wrapped) return;
  request_.reader.wrapper_of = knownFake;
  if (tracer_.torch_function.relevant()) handlers_ran.emplace(true);
  if (op_ != graph::Op::kCallMethod) return;
  // The method of torch's, not what the class has put over it, which the trace may be inside of.
  PyObject* method = _PyType_Lookup(tensorType(), target_);
  if (method != nullptr && _PyType_Lookup(typeOf(tracer_, now_[0]), target_) != method) {
    op_ = graph::Op::kCallFunction;
    target_ = method;
  }
}

void TensorCall::infer() {
  pythonFaultPoint();
  request_.target = facts_ != nullptr ? facts_ : target_;
  request_.args = now_.data();
  // Which of the two a bool is that becomes data, nothing that is inferred depends on.
  static PyObject* const of_bools[] = {torchObject("torch.scalar_tensor"),
                                       torchObject("torch.tensor"), torchObject("torch.full")};
  const bool takes_bools = facts_ == nullptr && std::find(std::begin(of_bools), std::end(of_bools),
                                                          target_) != std::end(of_bools);
  if ((!remember_ || takes_bools || any_float_) && tracer_.sizes.hasScalars()) {
    asked_ = now_;
    for (PyObject*& value : asked_) {
      const bool is_float =
          symbolic::isSymScalar(value) && symbolic::asSymScalar(value)->of == &PyFloat_Type;
      if (remember_ && is_float && !any_float_) continue;
      value = keep_.emplace_back(withSomeNumbers(value)).get();
    }
    request_.args = asked_.data();
  }
  request_.positional = args_.positional;
  request_.kwnames = args_.names;
  request_.state = &tracer_.torch.now();
  request_.remember = remember_;
  request_.reader.tensor_of = metaOfStandIn;
  request_.reader.is_opaque = isOpaque;
  std::optional<tensor::TorchFunctionPause> handlers_ran;
  if (tracer_.wrappers.any()) askWrappers(handlers_ran);
  if (op_ == graph::Op::kCallFunction && target_ == builtinFunction("getattr") &&
      facts_ == nullptr) {
    request_.target = now_[1];
    request_.positional = 1;
  }
  {
    std::optional<ProcessStateScope> states;
    if (!remember_ && !tracer_.torch.settings().empty()) states.emplace(tracer_);
    std::optional<OpenContextScope> contexts;
    if (!remember_ && !tracer_.torch.contexts().empty()) contexts.emplace(tracer_);
    shapes::DataSizesAllowed data_sizes(tracer_.options.fullgraph);
    answer_ = shapes::infer(request_);
  }
  handlers_ran.reset();
  if (request_.wrapped && answer_.status == shapes::Status::kOk) {
    kept_ = *answer_.inferred;
    answer_.inferred = &*kept_;
  }
  first_new_ = tracer_.sizes.sources().size();
  for (size_t i = first_new_; i < tracer_.sizes.environment().symbolCount(); ++i) {
    const symbolic::Expr* added = symbolic::symbol(static_cast<int64_t>(i));
    tracer_.sizes.addSymbol(nullptr, tracer_.sizes.environment().rangeOf(added));
  }
  new_sizes_ = tracer_.sizes.sources().size() > first_new_;
  if (answer_.status == shapes::Status::kUnsupported && !any_float_ && onlyScales()) {
    any_float_ = true;  // gives the same facts
    infer();
  }
}

// The symbolic floats among the arguments are factors: no fact of a result depends on their values.
bool TensorCall::onlyScales() const {
  bool any = false;
  for (size_t i = 0; i < args_.values.size(); ++i) {
    if (!symbolic::isSymScalar(args_.values[i])) continue;
    if (i < args_.positional || symbolic::asSymScalar(args_.values[i])->of != &PyFloat_Type)
      return false;
    const std::string_view name = utf8(args_.name(i - args_.positional));
    if (name != "alpha" && name != "value" && name != "beta") return false;
    any = true;
  }
  return any;
}

// No rule for a float without a value: with the value it has now, then. Ok with null: there is none.
Out TensorCall::withNumbers() {
  Args numbers = args_;
  bool any = false;
  for (size_t i = 0; i < numbers.values.size(); ++i) {
    PyObject*& value = numbers.values[i];
    if (holdsFloat(value)) {
      // The graph's copy of a list or tuple.
      if (!makeConcrete(tracer_, now_[i])) continue;
      value = tracer_.world.keep(newRef(now_[i]));
    } else if (symbolic::isSymScalar(value) && hasValue(tracer_, value)) {
      value = tracer_.world.keep(concrete(tracer_, value));
    } else {
      continue;
    }
    any = true;
  }
  if (any) return again(target_, numbers);
  return Ref<>();
}

Out TensorCall::withoutAnswer() {
  using shapes::Status;
  if (answer_.status == Status::kRaises && PyUnicode_Check(target_) &&
      PyUnicode_CompareWithASCIIString(target_, "tolist") == 0) {
    // Of every tensor but a fake one.
    answer_.status = Status::kDataDependent;
    answer_.why.clear();
  }
  const bool one_argument = args_.positional == 1 && args_.keywordCount() == 0;
  const bool raises = answer_.status == Status::kRaises;
  const bool reads = answer_.status == Status::kDataDependent;
  if (reads && one_argument && isRead(target_)) {
    if (Ref<> tensor = knownTensor(tracer_, now_[0])) {
      return tracer_.fromNative(
          stealRef(PyObject_CallMethod(tensor.get(), utf8(target_), nullptr)));
    }
  }
  if ((reads || raises) && tracer_.options.capture_scalar_outputs && one_argument &&
      isRead(target_)) {
    STATOR_VALUE(read, readIntoGraph(tracer_, target_, now_[0]));
    if (read) return read;
  }
  if (reads && tracer_.options.capture_scalar_outputs && args_.positional >= 2 &&
      (target_ == operatorFunction("getitem") || target_ == operatorFunction("setitem"))) {
    // torch reads the numbers that bounds and indices are: the graph does it before.
    STATOR_VALUE(index, readIndex(tracer_, args_.values[1]));
    if (index) {
      Args with_numbers = args_;
      with_numbers.values[1] = tracer_.world.keep(std::move(index));
      return again(target_, with_numbers);
    }
  }
  if (answer_.status == Status::kUnsupported && tracer_.sizes.hasScalars()) {
    STATOR_VALUE(value, withNumbers());
    if (value) return value;
  }
  if ((raises || reads) && !now_.empty() && !graph::isStandIn(now_[0]) &&
      target_ == torchObject("torch.tensor")) {
    // A list with tensors of one element among its items: torch reads them. The same in operations.
    std::vector<PyObject*> inside;
    collectTensors(now_[0], inside);
    if (!inside.empty()) return again(torchObject("torch._refs.tensor"), args_);
  }
  const std::string why = answer_.why;
  if (raises && facts_ == nullptr && remember_ && !request_.wrapped &&
      (op_ == graph::Op::kCallMethod || op_ == graph::Op::kCallFunction)) {
    STATOR_VALUE(none, tensorError(tracer_, target_, args_, now_));
  }
  return tracer_.breakWith(reasonFor(answer_.status),
                           targetName(target_) + (why.empty() ? "" : ": " + why));
}

Flow TensorCall::checkLeafUse() {
  if (!tracer_.storages.anyLeafWrites() || !tracer_.torch.now().grad_enabled ||
      !givesGradients(inferred()))
    return Flow::kOk;
  for (PyObject* tensor : involved()) {
    const shapes::TensorMeta* meta = graph::asStandIn(tensor)->meta;
    if (meta != nullptr && tracer_.storages.isLeafWritten(meta->storage_id))
      return breakWith(Reason::kUnsupportedMutation,
                       "uses a leaf that was written to under no_grad");
  }
  return Flow::kOk;
}

Flow TensorCall::checkWrites() {
  if (new_sizes_) return breakWith(Reason::kDynamicOutputShape, "writes its result into a tensor");
  const std::vector<PyObject*> tensors = involved();
  std::string why;
  // In-place operations write to the first, layers with a state to some others.
  std::vector<int> named_first = inferred().written_inputs;
  if (named_first.empty() || named_first[0] == 0) named_first = {0};
  for (int index : named_first) {
    // What is written to comes first.
    std::vector<PyObject*> ordered = tensors;
    const auto at = ordered.begin() + index;
    if (index > 0 && static_cast<size_t>(index) < ordered.size())
      std::rotate(ordered.begin(), at, at + 1);
    if (writeMayFail(tracer_, target_, now_, ordered, why))
      return breakWith(Reason::kRaises, why.c_str());
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool written = wasWritten(i);
    const uint32_t storage = graph::asStandIn(tensors[i])->meta->storage_id;
    if (written && writesToShared(tracer_, storage))
      return breakWith(
          Reason::kUnsupportedMutation,
          "writes to memory of several inputs, with and without gradients or of wrappers");
    if (written && !tracer_.options.runs_as_captured) {
      STATOR_FLOW(writeToData(tracer_, tensors[i]));
      STATOR_FLOW(writeToOneOfViews(tracer_, tensors[i], tensors));
    }
    // AOTAutograd saves what the write left for the backward pass, and writes once more there.
    if (written && !tracer_.options.runs_as_captured && !tracer_.torch.now().grad_enabled &&
        tracer_.storages.hasGrads(storage))
      tracer_.storages.noteLeafWrite(storage);
    if (tracer_.storages.isHooked(storage))
      return tracer_.breakWith(Reason::kCallsOutside, "writes to a tensor with a hook");
  }
  // an answer is good until the next question only
  if (!request_.wrapped) answer_ = shapes::infer(request_);
  return Flow::kOk;
}

Flow TensorCall::checkChangedFacts() {
  if (tracer_.torch_function.relevant() && !inferred().changed_inputs.empty()) {
    // The graph gets another object for an instance of a subclass, with the same memory and facts of its own.
    for (PyObject* value : now_) {
      if (graph::isStandIn(value) && typeOf(tracer_, value) != tensorType() &&
          typeOf(tracer_, value) != parameterType() && typeOf(tracer_, value) != &PyTuple_Type)
        return breakWith(Reason::kUnsupportedTensorOp,
                         "changes the facts of an instance of a tensor subclass");
    }
  }
  if (!request_.wrapped || tracer_.options.runs_as_captured) return Flow::kOk;
  // What takes wrappers apart has no way to give one other sizes.
  for (const auto& [index, after] : inferred().changed_inputs) {
    const graph::StandIn* changed = graph::asStandIn(tensors_[static_cast<size_t>(index)]);
    if (!shapes::identical(changed->meta->sizes, after.sizes) ||
        !shapes::identical(changed->meta->strides, after.strides))
      return breakWith(Reason::kUnsupportedMutation, "changes the sizes of a wrapper subclass");
  }
  return Flow::kOk;
}

// AOTAutograd computes gradients for inputs of the graph, and for nothing that becomes a leaf inside of it. A view of a leaf that is
// taken without gradients says of itself that it is one, but no gradient comes to it.
Flow TensorCall::checkForAutograd() {
  if (tracer_.options.runs_as_captured) return Flow::kOk;
  bool leaf = false;
  for (const shapes::Output& output : inferred().outputs) {
    if (output.kind != shapes::Output::Kind::kTensor || output.same_object_as >= 0) continue;
    const bool view_of_leaf =
        output.alias_of >= 0 &&
        graph::asStandIn(tensors_[static_cast<size_t>(output.alias_of)])->meta->requires_grad;
    leaf |= output.meta.requires_grad && output.meta.is_leaf && !view_of_leaf;
  }
  for (const auto& [index, after] : inferred().changed_inputs) {
    const graph::StandIn* changed = graph::asStandIn(tensors_[static_cast<size_t>(index)]);
    leaf |= after.requires_grad && after.is_leaf && !changed->meta->requires_grad;
    // It has no way to give the memory of the caller's tensor another size.
    if (changed->node->source != nullptr &&
        !shapes::identical({changed->meta->storage_bytes}, {after.storage_bytes}))
      return breakWith(Reason::kUnsupportedMutation, "resizes the memory of an input");
  }
  // Nor does it keep the strides of what a result is written into: it computes a new one and forgets the old.
  for (PyObject* out : tensorsOfOut(request_)) {
    const shapes::TensorMeta& meta = *graph::asStandIn(out)->meta;
    if (!shapes::isContiguous(meta.sizes, meta.strides))
      return breakWith(Reason::kUnsupportedTensorOp, "out= is a tensor that is not contiguous");
  }
  if (leaf)
    return breakWith(Reason::kUnsupportedTensorOp,
                     "a tensor starts to require grad inside of the graph");
  return Flow::kOk;
}

Flow TensorCall::mayBeInGraph() {
  STATOR_FLOW(checkLeafUse());
  if (inferred().mutates) STATOR_FLOW(checkWrites());
  tensors_ = involved();
  STATOR_FLOW(checkChangedFacts());
  return checkForAutograd();
}

bool TensorCall::onlyConstants() const {
  if (inferred().mutates || inferred().random || !remember_) return false;
  return std::none_of(inferred().outputs.begin(), inferred().outputs.end(),
                      [](const shapes::Output& output) {
                        return output.kind == shapes::Output::Kind::kTensor || isRagged(output);
                      });
}

Out TensorCall::constants() const {
  std::vector<Ref<>> items;
  for (const shapes::Output& output : inferred().outputs)
    items.push_back(freshConstant(output.constant));
  switch (inferred().structure) {
    case shapes::Structure::kSingle:
      return items.empty() ? newRef(Py_None) : items[0];
    case shapes::Structure::kNested:
      return fillSkeleton(inferred().skeleton.get(), items);
    default:
      break;
  }
  Ref<> list = stealRef(PyList_New(0));
  for (Ref<>& item : items) PyList_Append(list.get(), item.get());
  if (inferred().structure == shapes::Structure::kList) return list;
  Ref<> all = stealRef(PyList_AsTuple(list.get()));
  return inferred().type.get() == reinterpret_cast<PyObject*>(sizeType()) ? sizeOf(all) : all;
}

void TensorCall::addNode() {
  Ref<> tuple = stealRef(PyTuple_New(static_cast<Py_ssize_t>(args_.positional)));
  if (tracer_.sizes.any()) {
    for (PyObject*& value : now_) {
      keep_.push_back(lowered(tracer_, value));
      value = keep_.back().get();
    }
  }
  for (size_t i = 0; i < args_.positional; ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(now_[i]));
  Ref<> kwargs;
  if (args_.keywordCount() > 0) {
    kwargs = stealRef(PyDict_New());
    for (size_t i = 0; i < args_.keywordCount(); ++i)
      PyDict_SetItem(kwargs.get(), args_.name(i), now_[args_.positional + i]);
  }
  node_ = tracer_.graphs.current().addCall(op_, newRef(target_), tuple, kwargs);
  node_->location = tracer_.location();
  node_->scope = tracer_.frames.innermost().scope;
  node_->mutates = inferred().mutates || inferred().random || !remember_;
  node_->repeatable =
      !inferred().written_inputs.empty() && !inferred().random && remember_ && !request_.wrapped;
  // reading a part of a tensor cannot fail
  node_->called = !request_.wrapped || target_ != builtinFunction("getattr");
  node_->random = inferred().random;
  if (inferred().random) tracer_.effects.noteRandom();
}

const shapes::TensorMeta* TensorCall::factsOf(const shapes::Output& output) {
  tracer_.graphs.current().metas.push_back(output.meta);
  shapes::TensorMeta& meta = tracer_.graphs.current().metas.back();
  if (output.alias_of >= 0) {
    PyObject* shared = tensors_[static_cast<size_t>(output.alias_of)];
    meta.storage_id = graph::asStandIn(shared)->meta->storage_id;
    if (request_.wrapped && static_cast<bool>(output.wrapper) != (wrapperOf(shared) != nullptr)) {
      // A wrapper and a part of it: memory of several tensors on one side.
      tracer_.wrappers.tie(meta.storage_id, tracer_.storages.following());
      meta.storage_id = tracer_.storages.fresh();
    }
  } else if (output.alias_of_output >= 0) {
    meta.storage_id = storages_[static_cast<size_t>(output.alias_of_output)];
  } else {
    meta.storage_id = tracer_.storages.fresh();
  }
  return &meta;
}

PyObject* typeOfOutput(const shapes::Output& output) {
  return reinterpret_cast<PyObject*>(output.wrapper ? Py_TYPE(output.wrapper.get()) : tensorType());
}

Ref<> TensorCall::raggedSize(graph::Node* of, const shapes::Output& output) {
  of->wrapper = output.constant;
  Ref<> size =
      graph::makeStandIn(of, nullptr, reinterpret_cast<PyObject*>(Py_TYPE(output.constant.get())));
  tracer_.values.addMade(size, tracer_.frames.instruction());
  return size;
}

Ref<> TensorCall::singleValue() {
  if (inferred().outputs.empty()) return newRef(Py_None);
  const shapes::Output& output = inferred().outputs[0];
  if (output.kind == shapes::Output::Kind::kTensor) {
    node_->meta = factsOf(output);
    if (output.same_object_as >= 0)
      return newRef(tensors_[static_cast<size_t>(output.same_object_as)]);
    node_->wrapper = output.wrapper;
    Ref<> made = graph::makeStandIn(node_, node_->meta, typeOfOutput(output));
    tracer_.values.addMade(made, tracer_.frames.instruction());
    return made;
  }
  if (isRagged(output)) return raggedSize(node_, output);
  return output.constant ? output.constant : newRef(Py_None);
}

Ref<> TensorCall::itemValue(PyObject* whole, size_t number, const shapes::Output& output) {
  storages_.push_back(0);
  if (output.kind == shapes::Output::Kind::kConstant && !isRagged(output)) return output.constant;
  if (output.same_object_as >= 0)
    return newRef(tensors_[static_cast<size_t>(output.same_object_as)]);
  Ref<> index = stealRef(PyLong_FromSize_t(number));
  Ref<> item_args = stealRef(PyTuple_Pack(2, whole, index.get()));
  graph::Node* item = tracer_.graphs.current().addCall(
      graph::Op::kCallFunction, newRef(operatorFunction("getitem")), item_args, Ref<>());
  item->location = node_->location;
  item->scope = node_->scope;
  if (isRagged(output)) return raggedSize(item, output);
  item->meta = factsOf(output);
  storages_.back() = item->meta->storage_id;
  item->wrapper = output.wrapper;
  Ref<> made = graph::makeStandIn(item, item->meta, typeOfOutput(output));
  tracer_.values.addMade(made, tracer_.frames.instruction());
  return made;
}

Out TensorCall::severalValues() {
  Ref<> whole = graph::makeStandIn(node_, nullptr, reinterpret_cast<PyObject*>(&PyTuple_Type));
  tracer_.values.addMade(whole, tracer_.frames.instruction());
  std::vector<Ref<>> items;
  for (size_t i = 0; i < inferred().outputs.size(); ++i)
    items.push_back(itemValue(whole.get(), i, inferred().outputs[i]));
  Ref<> result;
  if (inferred().structure == shapes::Structure::kNested) {
    result = fillSkeleton(inferred().skeleton.get(), items);
  } else {
    Ref<> list = stealRef(PyList_New(0));
    for (Ref<>& item : items) PyList_Append(list.get(), item.get());
    const bool is_list = inferred().structure == shapes::Structure::kList;
    result = is_list ? list : stealRef(PyList_AsTuple(list.get()));
  }
  if (inferred().structure == shapes::Structure::kNamed) {
    result = inferred().type.get() == reinterpret_cast<PyObject*>(sizeType())
                 ? sizeOf(result)
                 : stealRef(PyObject_CallOneArg(inferred().type.get(), result.get()));
    if (!result) return tracer_.raiseCurrentError();
  }
  node_->structure = result;
  return result;
}

void TensorCall::noteEffects() {
  if (request_.wrapped || !inferred().changed_inputs.empty()) tracer_.torch.noteGradsMatter();
  for (const auto& [index, facts] : inferred().changed_inputs) {
    graph::StandIn* changed = graph::asStandIn(tensors_[static_cast<size_t>(index)]);
    const uint32_t storage = changed->meta->storage_id;
    tracer_.graphs.current().metas.push_back(facts);
    tracer_.graphs.current().metas.back().storage_id = storage;
    changed->meta = &tracer_.graphs.current().metas.back();
  }
  if (!inferred().mutates) return;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (wasWritten(i)) noteWritten(tracer_, tensors_[i]);
  }
}

Out TensorCall::run() {
  STATOR_FLOW(takeArguments());
  if (overloaded_) return again(target_, args_);
  std::vector<AssumedEqual> assumed;
  for (bool inferred = false; !inferred;) {
    try {
      infer();
      inferred = true;
    } catch (const symbolic::Undecided& open) {
      if (!mayAssume(tracer_, open.condition)) throw;
      assume(tracer_, open.condition, assumed);
    }
  }
  if (answer_.status != shapes::Status::kOk) return withoutAnswer();
  STATOR_FLOW(mayBeInGraph());
  if (onlyConstants()) return constants();
  const bool single =
      inferred().structure == shapes::Structure::kSingle && inferred().outputs.size() <= 1;
  // The same object comes back and nothing happened: no node either.
  if (inferred().structure == shapes::Structure::kSingle && !inferred().mutates &&
      !inferred().random && inferred().outputs[0].same_object_as >= 0)
    return newRef(tensors_[static_cast<size_t>(inferred().outputs[0].same_object_as)]);
  addNode();
  Ref<> result;
  if (single) {
    result = singleValue();
  } else {
    STATOR_VALUE(values, severalValues());
    result = std::move(values);
  }
  if (new_sizes_) readNewSizes(tracer_, first_new_, result.get());
  for (const AssumedEqual& equal : assumed) check(tracer_, equal);
  noteEffects();
  return result;
}

}  // namespace

Out tensorCall(Tracer& tracer, graph::Op op, PyObject* target, const Args& args, bool remember,
               PyObject* facts) {
  for (size_t i = 0; i < args.keywordCount(); ++i) {
    if (PyUnicode_AsUTF8(args.name(i)) != nullptr) continue;
    PyErr_Clear();
    return tracer.breakWith(Reason::kUnsupportedTensorOp, "a keyword that no encoding knows");
  }
  if (tracer.torch_function.relevant()) {
    bool handled = false;
    Out out = dispatchTorchFunction(tracer, op, target, args, handled);
    if (handled || !out.ok()) return out;
  }
  return TensorCall(tracer, op, target, args, remember, facts).run();
}

}  // namespace stator::interpret
