// The node of a tensor operation, the values that the program gets of it, and what it did to its arguments.
#include "base/stack_room.h"
#include "interpret/core/apparent_types.h"
#include "interpret/core/callers_fakes.h"
#include "interpret/core/known.h"
#include "interpret/core/symbol_nodes.h"
#include "interpret/tensors/tensor_call_steps.h"
#include "interpret/tensors/torch_calls.h"
#include "interpret/tensors/wrapper_tensors.h"
#include "interpret/tensors/writes.h"
#include "symbolic/sym_int.h"

#include <algorithm>

namespace stator::interpret {

namespace {

// A torch.Size of items that are no ints, which it would not take itself.
Ref<> sizeOf(const Ref<>& items) {
  Ref<> packed = stealRef(PyTuple_Pack(1, items.get()));
  return stealRef(packed ? PyTuple_Type.tp_new(sizeType(), packed.get(), nullptr) : nullptr);
}

bool isRagged(const shapes::Output& output) {
  static auto* const kind = reinterpret_cast<PyTypeObject*>(torchObject("torch.SymInt"));
  return output.constant && Py_TYPE(output.constant.get()) == kind;
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

PyObject* typeOfOutput(const Tracer& tracer, const shapes::Output& output) {
  return reinterpret_cast<PyObject*>(output.wrapper ? Py_TYPE(output.wrapper.get())
                                                    : resultType(tracer));
}

bool showsSymbol(const shapes::Output& output) {
  PyObject* constant = output.constant.get();
  if (constant == nullptr || !PyTuple_Check(constant))
    return constant != nullptr && symbolic::isSymbol(constant);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constant); ++i) {
    if (symbolic::isSymbol(PyTuple_GET_ITEM(constant, i))) return true;
  }
  return false;
}

}  // namespace

bool TensorCall::onlyConstants() const {
  if (inferred().mutates || inferred().random || !remember_) return false;
  return std::none_of(inferred().outputs.begin(), inferred().outputs.end(),
                      [](const shapes::Output& output) {
                        return output.kind == shapes::Output::Kind::kTensor || isRagged(output);
                      });
}

Out TensorCall::constants() {
  if (tracer_.sizes.areCallers() &&
      std::any_of(inferred().outputs.begin(), inferred().outputs.end(), showsSymbol))
    return breakWith(Reason::kUnsupportedTensorOp, "gives a SymInt of a caller's ShapeEnv");
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
  node_->repeatable = !inferred().written_inputs.empty() && !inferred().for_effect &&
                      !inferred().random && remember_ && !request_.wrapped;
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

Ref<> TensorCall::raggedSize(graph::Node* of, const shapes::Output& output) {
  of->wrapper = output.constant;
  Ref<> size =
      graph::makeStandIn(of, nullptr, reinterpret_cast<PyObject*>(Py_TYPE(output.constant.get())));
  tracer_.values.addMade(size.get(), tracer_.frames.instruction());
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
    Ref<> made = graph::makeStandIn(node_, node_->meta, typeOfOutput(tracer_, output));
    tracer_.values.addMade(made.get(), tracer_.frames.instruction());
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
  Ref<> made = graph::makeStandIn(item, item->meta, typeOfOutput(tracer_, output));
  tracer_.values.addMade(made.get(), tracer_.frames.instruction());
  return made;
}

Out TensorCall::severalValues() {
  Ref<> whole = graph::makeStandIn(node_, nullptr, reinterpret_cast<PyObject*>(&PyTuple_Type));
  tracer_.values.addMade(whole.get(), tracer_.frames.instruction());
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
    const bool grad_switched = facts.is_leaf && changed->meta->requires_grad != facts.requires_grad;
    if (changed->node->op == graph::Op::kInput &&
        (changed->meta->sizes != facts.sizes || grad_switched))
      tracer_.effects.noteChangedFacts();
    tracer_.graphs.current().metas.push_back(facts);
    tracer_.graphs.current().metas.back().storage_id = storage;
    changed->meta = &tracer_.graphs.current().metas.back();
  }
  if (!inferred().mutates) return;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (wasWritten(i)) noteWritten(tracer_, tensors_[i]);
  }
}

}  // namespace stator::interpret
