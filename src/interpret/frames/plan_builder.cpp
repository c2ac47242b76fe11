// Objects of the trace as steps of a plan: one step for each, and what decides which.
#include "interpret/frames/plan_builder.h"

#include "base/faults.h"
#include "base/stack_room.h"
#include "interpret/calls/classes.h"
#include "interpret/core/apparent_types.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/trace_traceback.h"
#include "interpret/objects/class_lookups.h"
#include "interpret/objects/scalars.h"
#include "sources/short_lived.h"
#include "symbolic/sym_int.h"

namespace stator::interpret {

using breaks::kNull;
using breaks::PlanOp;
using breaks::PlanStep;
using breaks::Register;

PlanBuilder::PlanBuilder(Tracer& tracer, breaks::Plan& plan) : t_(tracer), plan_(plan) {
  for (values::Info* info : t_.values.all()) {
    // The items of a kind of tuple are a plain tuple, which `t[:]` and `t * 1` give and which is not t.
    if (info->shadow && info->origin == values::Origin::kOutside &&
        !PyCell_Check(info->object.get()) &&
        (!PyTuple_Check(info->object.get()) ||
         Py_TYPE(info->object.get()) == Py_TYPE(info->shadow.get())))
      owner_of_[info->shadow.get()] = info->object.get();
  }
}

Register PlanBuilder::value(PyObject* object) {
  if (object == nullptr) return kNull;
  if (auto it = memo_.find(object); it != memo_.end()) return it->second;
  if (auto it = owner_of_.find(object); it != owner_of_.end()) return value(it->second);
  return build(object);
}

void PlanBuilder::effect(PlanOp op, Ref<> object, std::vector<Register> operands, int64_t number) {
  PlanStep step{op};
  step.number = number;
  step.object = std::move(object);
  step.operands = std::move(operands);
  effects_.push_back(std::move(step));
}

void PlanBuilder::finish() {
  plan_.commit = plan_.steps.size();
  for (PlanStep& step : effects_) plan_.steps.push_back(std::move(step));
  for (PlanStep& step : seeks_) plan_.steps.push_back(std::move(step));
  plan_.register_count = next_;
}

Register PlanBuilder::stackEntry(size_t index) {
  Register result = add(PlanOp::kStackEntry, nullptr);
  plan_.steps.back().source =
      t_.world.root(sources::SourceKind::kStack, static_cast<int64_t>(index));
  return result;
}

Register PlanBuilder::add(PlanOp op, PyObject* key, Ref<> object, std::vector<Register> operands,
                          int64_t number) {
  faultPoint();
  PlanStep step{op};
  step.result = next_++;
  step.object = std::move(object);
  step.operands = std::move(operands);
  step.number = number;
  Register result = step.result;
  plan_.steps.push_back(std::move(step));
  if (key != nullptr) {
    memo_[key] = result;
    // the memo's keys must stay unique until the plan is done
    t_.world.keep(newRef(key));
  }
  return result;
}

void PlanBuilder::fill(PlanOp op, std::vector<Register> operands, Ref<> object) {
  PlanStep step{op};
  step.object = std::move(object);
  step.operands = std::move(operands);
  plan_.steps.push_back(std::move(step));
}

bool PlanBuilder::madeHere(PyObject* object) {
  values::Info* info = t_.values.find(object);
  return info != nullptr && info->origin == values::Origin::kMade;
}

// A TypeVar is equal to nothing but itself: each call of the program makes another one.
bool PlanBuilder::isNewTypeParameter(PyObject* object) {
  return isTypingObject(object) && madeHere(object) &&
         Py_TYPE(object)->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

Register PlanBuilder::fail(PyObject* object) {
  failed_ = true;
  values::Info* info = t_.values.find(object);
  if (info != nullptr)
    t_.ending.restartAtEarliest(info->born, Reason::kCannotRebuild,
                                std::string("a ") + typeOf(t_, object)->tp_name);
  return kNull;
}

// Somebody may read it behind the trace.
Register PlanBuilder::unmadeText(PyObject* text) {
  failed_ = true;
  t_.texts.noteRead(text);
  t_.ending.startAnew();
  return kNull;
}

Register PlanBuilder::outside(PyObject* object, const values::Info& info) {
  Register result = add(PlanOp::kSource, object);
  plan_.steps.back().source = info.source;
  if (info.source->kind != sources::SourceKind::kProxied) return result;
  // The view that the program handed in; a class's __dict__ is a new one each time.
  if (info.source->base->kind != sources::SourceKind::kObjectDict) {
    plan_.steps.back().source = info.source->base;
    return result;
  }
  return memo_[object] = add(PlanOp::kCall, nullptr,
                             newRef(reinterpret_cast<PyObject*>(mappingProxyType())), {result});
}

Register PlanBuilder::scalar(PyObject* object) {
  const std::vector<const sources::Source*> origins = values::isNan(object)
                                                          ? t_.identities.sourcesOfScalar(object)
                                                          : std::vector<const sources::Source*>();
  if (origins.empty()) return constant(object);
  Register result = add(PlanOp::kSource, object);  // no other one equals it
  plan_.steps.back().source = origins[0];
  return result;
}

Register PlanBuilder::build(PyObject* object) {
  needStack();
  if (graph::isStandIn(object)) return standIn(object);
  if (isPendingText(object)) return unmadeText(object);
  if (values::isScalar(object)) return scalar(object);
  if (symbolic::isSymScalar(object)) return symbolicScalar(object);
  if (symbolic::isSymInt(object))
    return symbolicInt(t_.sizes.environment().simplify(symbolic::dimOf(object).expr()));
  if (isAddress(object)) return address(object);
  const values::Info* info = t_.values.find(object);
  if (info != nullptr && info->origin == values::Origin::kOutside) return outside(object, *info);
  if (isTraceIterator(object)) return iterator(object);
  if (info != nullptr && info->address_shown) return fail(object);
  PyTypeObject* type = Py_TYPE(object);
  if (isMadeClass(t_, object)) return fail(object);
  if (isMadeClass(t_, reinterpret_cast<PyObject*>(type)))
    return fail(reinterpret_cast<PyObject*>(type));
  if (t_.identities.isCodeConstant(object)) return constant(object);
  if (std::optional<Register> made = container(object)) return *made;
  if (values::isConstantDeep(object)) return constant(object);
  if (std::optional<Register> made = callable(object)) return *made;
  if (PyCell_Check(object)) {
    Register result = add(PlanOp::kCell, object);
    if (PyObject* held = PyCell_GET(object)) fill(PlanOp::kCellSet, {result, value(held)});
    return result;
  }
  if (isTraceTraceback(object)) return fail(object);
  if (PyExceptionInstance_Check(object)) return exception(object);
  if (PyType_Check(object) && sources::isShortLived(object)) {
    // A class of a function's body that nobody read by a name (the owner that a descriptor is given): not held.
    const Register result = add(PlanOp::kSource, object);
    plan_.steps.back().source = t_.world.sources().pinned(object);
    return result;
  }
  if (PyType_Check(object) || PyCFunction_Check(object) || PyModule_Check(object) ||
      PyCode_Check(object) || (isEnumMember(object) && !madeHere(object)) ||
      type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyGetSetDescr_Type ||
      type == &PyMemberDescr_Type || type == &PyProperty_Type ||
      (isOpaqueConstant(object) && !isNewTypeParameter(object))) {
    return constant(object);
  }
  return instance(object);
}

}  // namespace stator::interpret
