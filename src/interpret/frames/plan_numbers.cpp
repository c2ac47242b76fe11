// What a graph computes, and numbers that are not known before the call, as steps of a plan.
#include "base/check.h"
#include "base/stack_room.h"
#include "interpret/core/apparent_types.h"
#include "interpret/core/known.h"
#include "interpret/core/symbol_nodes.h"
#include "interpret/core/symbols.h"
#include "interpret/frames/plan_builder.h"
#include "interpret/objects/scalars.h"
#include "interpret/tensors/tensor_attributes.h"
#include "interpret/tensors/torch_function.h"
#include "interpret/tensors/wrapper_tensors.h"
#include "symbolic/sym_int.h"

namespace stator::interpret {

using breaks::kNull;
using breaks::PlanOp;
using breaks::Register;

namespace {
// A size as a value that an exported graph gives out. An input is no output, since a plan reads it where the graph's
// caller has it.
Ref<> givenOut(Tracer& t, const symbolic::Expr* expr) {
  Ref<> node = symNode(t, symbolic::Dim::of(expr));
  if (!graph::isStandIn(node.get()) || graph::asStandIn(node.get())->node->op != graph::Op::kInput)
    return node;
  graph::Node* given =
      t.graphs.current().addCall(graph::Op::kCallFunction, newRef(torchObject("torch.sym_int")),
                                 stealRef(PyTuple_Pack(1, node.get())), Ref<>());
  PyObject* int_type = reinterpret_cast<PyObject*>(&PyLong_Type);
  given->scalar_type = newRef(int_type);
  given->size = symbolic::Dim::of(expr);
  Ref<> made = graph::makeStandIn(given, nullptr, int_type);
  t.values.addMade(made.get(), 0);
  return made;
}
}  // namespace

Register PlanBuilder::symbolicInt(const symbolic::Expr* expr) {
  needStack();
  using symbolic::Kind;
  auto known = symbolic_.find(expr);
  if (known != symbolic_.end()) return known->second;
  auto number = [&](int64_t value) {
    Ref<> boxed = stealRef(PyLong_FromLongLong(value));
    return constant(boxed.get());
  };
  auto call = [&](PyObject* function, Register left, Register right) {
    return add(PlanOp::kCall, nullptr, newRef(function), {left, right});
  };
  Register result = kNull;
  if (forExport() && !expr->isInt()) return symbolic_[expr] = value(givenOut(t_, expr).get());
  switch (expr->kind) {
    case Kind::kInt:
      result = number(expr->number);
      break;
    case Kind::kSymbol:
      if (t_.sizes.sources()[static_cast<size_t>(expr->number)] == nullptr) {
        result = value(symNode(t_, symbolic::Dim::of(expr)).get());
        break;
      }
      result = add(PlanOp::kSource, nullptr);
      plan_.steps.back().source = t_.sizes.sources()[static_cast<size_t>(expr->number)];
      break;
    case Kind::kSum:
      for (const symbolic::Part& part : expr->parts) {
        Register term = symbolicInt(part.expr);
        if (part.number != 1) term = call(operatorFunction("mul"), term, number(part.number));
        result = result == kNull ? term : call(operatorFunction("add"), result, term);
      }
      if (expr->number != 0) result = call(operatorFunction("add"), result, number(expr->number));
      break;
    case Kind::kProduct:
      for (const symbolic::Part& part : expr->parts) {
        Register factor = symbolicInt(part.expr);
        if (part.number != 1) factor = call(operatorFunction("pow"), factor, number(part.number));
        result = result == kNull ? factor : call(operatorFunction("mul"), result, factor);
      }
      break;
    case Kind::kFloorDiv:
      result = call(operatorFunction("floordiv"), symbolicInt(expr->parts[0].expr),
                    symbolicInt(expr->parts[1].expr));
      break;
    case Kind::kMod:
      result = call(operatorFunction("mod"), symbolicInt(expr->parts[0].expr),
                    symbolicInt(expr->parts[1].expr));
      break;
    case Kind::kPow:
      result = call(operatorFunction("pow"), symbolicInt(expr->parts[0].expr),
                    symbolicInt(expr->parts[1].expr));
      break;
    case Kind::kMin:
    case Kind::kMax: {
      std::vector<Register> operands;
      for (const symbolic::Part& part : expr->parts) operands.push_back(symbolicInt(part.expr));
      result = add(PlanOp::kCall, nullptr,
                   newRef(builtinFunction(expr->kind == Kind::kMin ? "min" : "max")), operands);
      break;
    }
    default:
      STATOR_CHECK(false, "a truth value as an int");
  }
  symbolic_[expr] = result;
  return result;
}

Register PlanBuilder::standIn(PyObject* object) {
  graph::Node* node = graph::asStandIn(object)->node;
  if (isHookHandle(object))
    return add(PlanOp::kCall, object, newRef(torchObject("stator._contexts.empty_handle")));
  // of a function that the graph calls
  if (node->home != &t_.graphs.current()) return fail(object);
  // A ragged size: backends that take nested tensors apart cannot give it out. An input may have the same.
  if (node->wrapper && graph::asStandIn(object)->meta == nullptr && !t_.options.runs_as_captured) {
    const sources::Source* source = raggedSource(t_, object);
    if (source == nullptr) return fail(object);
    const Register read = add(PlanOp::kSource, object);
    plan_.steps.back().source = source;
    return read;
  }
  bool cast = t_.torch_function.anyCasts() && isCast(object);
  bool input = node->op == graph::Op::kInput;
  Register result = kNull;
  if (input) {
    result = add(PlanOp::kSource, cast ? nullptr : object);
    plan_.steps.back().source = node->source;
    if (!cast) return result;
  } else {
    t_.graphs.current().addOutput(node);
    result = add(PlanOp::kGraphOutput, cast ? nullptr : object, Ref<>(), {},
                 t_.graphs.current().outputIndex(node));
  }
  if (cast) {
    // A leaf (a parameter that the program has made) has to stay the very tensor that the graph gives.
    const shapes::TensorMeta* meta = graph::asStandIn(object)->meta;
    bool leaf = !input && meta->requires_grad && meta->is_leaf;
    t_.torch.noteGradsMatter();
    result = add(PlanOp::kCall, object,
                 newRef(torchObject(leaf ? "stator._core.become" : "stator._core.as_subclass")),
                 {result, constant(graph::asStandIn(object)->apparent_type)});
  }
  values::Info* info = t_.values.find(object);
  if (info != nullptr && info->overlay) {
    PyObject *name = nullptr, *item = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(info->overlay.get(), &position, &name, &item))
      fill(PlanOp::kAttributeSet, {result, value(item)}, newRef(name));
  }
  return result;
}

Register PlanBuilder::symbolicScalar(PyObject* object) {
  symbolic::SymScalar* scalar = symbolic::asSymScalar(object);
  if (scalar->formula != nullptr) {
    std::vector<Register> operands;
    for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(scalar->formula); ++i)
      operands.push_back(value(PyTuple_GET_ITEM(scalar->formula, i)));
    return add(PlanOp::kCall, object, newRef(PyTuple_GET_ITEM(scalar->formula, 0)),
               std::move(operands));
  }
  // What is an input of the graph is read where it came from: the very object, and backends have no floats to give out.
  if (scalar->source == nullptr) return value(scalar->stand_in);
  Register result = add(PlanOp::kSource, object);
  plan_.steps.back().source = static_cast<const sources::Source*>(scalar->source);
  return result;
}

Register PlanBuilder::address(PyObject* object) {
  PyObject* of = addressTarget(t_, object);
  const bool is_id = t_.identities.addressOf(of) == object;
  const char* function = is_id ? "id" : "hash";  // of a tuple with tensors
  return add(PlanOp::kCall, object, newRef(builtinFunction(function)), {value(of)});
}

}  // namespace stator::interpret
