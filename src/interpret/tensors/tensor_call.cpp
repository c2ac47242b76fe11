// A call of a tensor operation: its arguments as the graph keeps them, and what comes out.
#include "interpret/tensors/tensor_call.h"

#include "base/faults.h"
#include "base/numpy_number.h"
#include "base/parts.h"
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
#include "interpret/objects/outside_numbers.h"
#include "interpret/tensors/data_numbers.h"
#include "interpret/tensors/function_facts.h"
#include "interpret/tensors/tensor_attributes.h"
#include "interpret/tensors/tensor_call_steps.h"
#include "interpret/tensors/torch_calls.h"
#include "interpret/tensors/torch_contexts.h"
#include "interpret/tensors/torch_function.h"
#include "interpret/tensors/torch_states.h"
#include "interpret/tensors/wrapper_tensors.h"
#include "shapes/arg.h"
#include "shapes/data_sizes.h"
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

// The operation speaks for itself (a condition that no data can meet, say), and not of its arguments.
bool isUsersError(PyObject* error) {
  if (error == nullptr) return false;
  const std::string_view name = Py_TYPE(error)->tp_name;
  return name.substr(name.rfind('.') + 1) == "UserError";
}

Reason reasonFor(const shapes::Answer& answer) {
  switch (answer.status) {
    case shapes::Status::kDataDependent:
      return Reason::kDataDependentRead;
    case shapes::Status::kDynamicShape:
      return Reason::kDynamicOutputShape;
    case shapes::Status::kRaises:
      return isUsersError(answer.error.get()) ? Reason::kRaises : Reason::kOperationRaises;
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

// A list or tuple with a float that the graph computes, of which the value now is known.
bool holdsFloat(PyObject* value) {
  if (!PyTuple_Check(value) && !PyList_Check(value)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(value, i);
    if (symbolic::isSymScalar(item) && symbolic::asSymScalar(item)->backed) return true;
  }
  return false;
}

}  // namespace

Flow TensorCall::breakWith(Reason reason, const char* why) {
  return tracer_.breakWith(reason, targetName(target_) + ": " + why);
}

std::vector<PyObject*> TensorCall::involved() const {
  std::vector<PyObject*> tensors;
  for (PyObject* value : now_) collectTensors(value, tensors);
  return tensors;
}

bool TensorCall::wasWritten(size_t tensor) const {
  const std::vector<int>& named = inferred().written_inputs;
  return named.empty() || std::count(named.begin(), named.end(), static_cast<int>(tensor)) != 0;
}

Flow TensorCall::takeArguments() {
  keep_.reserve(args_.values.size());
  if (keepsNumpyDtype(target_, args_))
    return tracer_.breakWith(Reason::kUnsupportedTensorOp, "makes a tensor of a number of NumPy's");
  for (PyObject* value : args_.values) {
    if (answersForAll(tracer_, value))
      return breakWith(Reason::kUnsupportedObject,
                       "an argument whose class reads attributes itself");
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
    shapes::DataSizesAllowed data_sizes(tracer_.options.fullgraph &&
                                        tracer_.options.fake_mode == nullptr);
    std::optional<shapes::Inferred> told;
    if (!request_.wrapped) told = factsOfFunction(tracer_, target_, args_);
    if (told) {
      kept_ = std::move(told);
      answer_ = shapes::Answer{.inferred = &*kept_};
    } else {
      answer_ = shapes::infer(request_);
    }
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
  if (answer_.status == shapes::Status::kUnsupported && !any_float_ && tracer_.sizes.hasScalars() &&
      floatsAreData(target_, args_)) {
    any_float_ = true;  // any gives the same facts
    infer();
  }
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

// torch reads the tensors among the sizes that it is given; the trace knows them. Ok with null: it does not.
Out TensorCall::withKnownSizes() {
  Args numbers = args_;
  bool any = false;
  for (size_t i = op_ == graph::Op::kCallMethod ? 1 : 0; i < numbers.values.size(); ++i) {
    Ref<> known = knownSizes(tracer_, now_[i]);
    if (!known) {
      const bool is_index = target_ == operatorFunction("getitem") && !PySlice_Check(now_[i]);
      STATOR_VALUE(outside, outsideSizes(tracer_, now_[i], is_index));
      known = std::move(outside);
    }
    if (!known) continue;
    any = true;
    numbers.values[i] = tracer_.world.keep(std::move(known));
  }
  if (any) return again(target_, numbers);
  return Ref<>();
}

// An argument is of a class of its own, and the graph has what it is made of: an error would name that.
bool TensorCall::classIsLost() const {
  for (size_t i = 0; i < args_.values.size(); ++i) {
    PyObject* value = args_.values[i];
    if (!graph::isStandIn(value) && !symbolic::isSymbol(value) &&
        Py_TYPE(value) != Py_TYPE(now_[i]))
      return true;
  }
  return false;
}

Out TensorCall::withoutAnswer() {
  using shapes::Status;
  if (answer_.status == Status::kWarns)
    return tracer_.above.runEntered(
        tracer_.above.inlineFunction(target_, args_, Continuation::kPush));
  if (answer_.status == Status::kRaises && PyUnicode_Check(target_) &&
      PyUnicode_CompareWithASCIIString(target_, "tolist") == 0) {
    // Of every tensor but a fake one.
    answer_.status = Status::kDataDependent;
    answer_.why.clear();
  }
  const bool one_argument = args_.positional == 1 && args_.keywordCount() == 0;
  const bool raises = answer_.status == Status::kRaises;
  const bool reads = answer_.status == Status::kDataDependent;
  if (request_.wrapped && (reads || answer_.status == Status::kDynamicShape) &&
      (tracer_.options.fullgraph || tracer_.options.capture_scalar_outputs) &&
      !fakesHaveSymbols(tracer_)) {
    tracer_.wrappers.noteReadsData();
    tracer_.ending.startAnew();
    return tracer_.breakWith(reasonFor(answer_), targetName(target_));
  }
  if (reads && one_argument && isRead(target_)) {
    if (Ref<> tensor = knownTensor(tracer_, now_[0])) {
      return tracer_.fromNative(
          stealRef(PyObject_CallMethod(tensor.get(), utf8(target_), nullptr)));
    }
    STATOR_VALUE(read, readOutside(tracer_, target_, now_[0]));
    if (read) return read;
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
  if (reads && !isRead(target_)) {
    STATOR_VALUE(value, withKnownSizes());
    if (value) return value;
  }
  const std::string why = answer_.why;
  if (raises && facts_ == nullptr && remember_ && !request_.wrapped && !classIsLost() &&
      (op_ == graph::Op::kCallMethod || op_ == graph::Op::kCallFunction)) {
    STATOR_VALUE(none, tensorError(tracer_, target_, args_, now_));
  }
  return tracer_.breakWith(reasonFor(answer_),
                           targetName(target_) + (why.empty() ? "" : ": " + why));
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

namespace {

// A number, or lists of numbers, of which one is a symbol and none a tensor.
bool isOfSymbols(PyObject* data, bool& any) {
  needStack();
  any |= symbolic::isSymbol(data);
  if (PyList_CheckExact(data) || PyTuple_CheckExact(data) || Py_TYPE(data) == sizeType()) {
    return everyItem(data, [&](PyObject* item) { return isOfSymbols(item, any); });
  }
  return symbolic::isSymbol(data) || PyLong_CheckExact(data) || PyFloat_CheckExact(data);
}

// torch.tensor and torch.as_tensor of sizes: backends that trace would take the numbers of this call. The same in
// operations.
bool isTensorOfSymbols(PyObject* target, const Args& args) {
  static PyObject* const tensor = torchObject("torch.tensor");
  static PyObject* const as_tensor = torchObject("torch.as_tensor");
  if ((target != tensor || args.positional != 1) && (target != as_tensor || args.positional == 0))
    return false;
  bool any = false;
  return isOfSymbols(args.values[0], any) && any;
}

// as_tensor(data, dtype, device) with what torch.tensor takes by name alone.
Args withNames(Tracer& tracer, const Args& args) {
  if (args.positional == 1) return args;
  Args named = args;
  Ref<> names = stealRef(PyTuple_New(static_cast<Py_ssize_t>(args.values.size() - 1)));
  for (size_t i = 1; i < args.values.size(); ++i) {
    PyObject* name = i >= args.positional ? newRef(args.name(i - args.positional)).release()
                                          : PyUnicode_InternFromString(i == 1 ? "dtype" : "device");
    PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(i - 1), name);
  }
  named.positional = 1;
  named.names = tracer.world.keep(std::move(names));
  return named;
}

}  // namespace

Out tensorCall(Tracer& tracer, graph::Op op, PyObject* target, const Args& args, bool remember,
               PyObject* facts) {
  for (size_t i = 0; i < args.keywordCount(); ++i) {
    if (utf8OrNull(args.name(i)) == nullptr)
      return tracer.breakWith(Reason::kUnsupportedTensorOp, "a keyword that no encoding knows");
  }
  if (tracer.torch_function.relevant() || hasUnreadOverloaded(tracer, args)) {
    bool handled = false;
    Out out = dispatchTorchFunction(tracer, op, target, args, handled);
    if (handled || !out.ok()) return out;
  }
  if (op == graph::Op::kCallFunction && facts == nullptr && isTensorOfSymbols(target, args)) {
    return TensorCall(tracer, op, torchObject("torch._refs.tensor"), withNames(tracer, args),
                      remember, torchObject("torch.tensor"))
        .run();
  }
  return TensorCall(tracer, op, target, args, remember, facts).run();
}

}  // namespace stator::interpret
