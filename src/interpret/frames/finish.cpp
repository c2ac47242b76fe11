// The end of a trace: what escapes is rebuilt, what was changed is replayed, and each frame gets the state in which it
// goes on.
#include "interpret/frames/finish.h"

#include "base/check.h"
#include "interpret/core/apparent_types.h"
#include "interpret/core/known.h"
#include "interpret/core/tracer.h"
#include "interpret/frames/plan_builder.h"
#include "interpret/objects/contents.h"
#include "interpret/objects/outside_iterators.h"
#include "interpret/tensors/checks.h"
#include "interpret/tensors/parameters.h"
#include "interpret/tensors/random_draws.h"
#include "interpret/tensors/torch_calls.h"
#include "interpret/tensors/torch_function.h"
#include "interpret/tensors/torch_states.h"
#include "python/objects.h"
#include "values/dicts.h"

#include <unordered_map>
#include <unordered_set>

namespace stator::interpret {

using breaks::kKeep;
using breaks::kNull;
using breaks::PlanOp;
using breaks::Register;

namespace {

// A cell that the driven frame made when it was entered: nobody outside has it, and the frame ends with the plan.
bool diesWithFrame(Tracer& t, const values::Info& info) {
  bytecode::CodeInfo* code = bytecode::CodeInfo::of(stator_frame_code(t.world.frame()));
  return code != nullptr && PyCell_Check(info.object.get()) && info.source != nullptr &&
         info.source->kind == sources::SourceKind::kLocal &&
         info.source->index < code->slotCount() - PyCode_GetNumFree(code->code()) &&
         stator_frame_offset(t.world.frame()) == code->firstLegal();
}

void setCell(PlanBuilder& builder, const values::Info& info) {
  builder.effect(PlanOp::kCellSet, Ref<>(),
                 {builder.value(info.object.get()), builder.value(info.shadow.get())});
}

// What these cells hold matters only if something that escapes holds the cell; what it holds may hold another one.
void setCellsThatEscape(PlanBuilder& builder, std::vector<values::Info*> cells) {
  for (bool found = true; found;) {
    found = false;
    for (values::Info*& cell : cells) {
      if (cell == nullptr || !builder.makes(cell->object.get())) continue;
      setCell(builder, *std::exchange(cell, nullptr));
      found = true;
    }
  }
}

void addCalls(PlanBuilder& builder, const std::vector<Effects::LateCall>& calls) {
  for (const Effects::LateCall& call : calls) {
    std::vector<Register> operands;
    for (const Ref<>& argument : call.arguments) operands.push_back(builder.value(argument.get()));
    builder.effect(PlanOp::kEffectCall, newRef(call.function), std::move(operands));
  }
}

// Its iterators, of which there may be some outside, tell of changes, but not of items that were replaced.
void writeDeque(Tracer& t, PlanBuilder& builder, const values::Info& info) {
  constexpr Py_ssize_t kMost = 200;  // items replaced one by one
  PyObject* object = info.object.get();
  PyObject* shadow = info.shadow.get();
  auto effect = [&](const char* path, std::vector<Register> operands) {
    builder.effect(PlanOp::kEffectCall, newRef(torchObject(path)), std::move(operands));
  };
  Ref<> list = values::itemsOf(shadow);
  t.world.keep(list);
  const Py_ssize_t size = PyList_GET_SIZE(list.get());
  if (Py_TYPE(shadow) == dequeType() && size <= kMost && Py_SIZE(object) == size &&
      stator_deque_changes(shadow) == static_cast<size_t>(size)) {
    for (Py_ssize_t i = 0; i < size; ++i) {
      Ref<> index = stealRef(PyLong_FromSsize_t(i));
      effect("collections.deque.__setitem__", {builder.value(object), builder.value(index.get()),
                                               builder.value(PyList_GET_ITEM(list.get(), i))});
    }
    return;
  }
  Register contents = builder.rebuilt(list.get());
  effect("collections.deque.clear", {builder.value(object)});
  effect("collections.deque.extend", {builder.value(object), contents});
}

void addEffects(Tracer& t, PlanBuilder& builder, bool returns) {
  addCalls(builder, t.effects.firstCalls());
  std::vector<values::Info*> dying_cells;
  // Before what they go over is written to: a container that was changed is not gone over any further in the trace.
  for (const values::Info* info : t.values.all()) {
    if (info->dirty && info->taken > 0)
      builder.effect(PlanOp::kSkip, Ref<>(), {builder.value(info->object.get())}, info->taken);
  }
  for (const ClassState::Change& change : t.classes.changes()) {
    if (change.before.get() == change.now.get()) continue;
    static PyObject* const set = PyObject_GetAttrString(classDescriptor(), "__set__");
    builder.effect(PlanOp::kEffectCall, newRef(set),
                   {builder.value(change.object.get()), builder.value(change.now.get())});
  }
  for (size_t i = 0; i < t.values.all().size(); ++i) {
    values::Info* info = t.values.all()[i];
    PyObject* object = info->object.get();
    bool input = graph::isStandIn(object) &&
                 graph::asStandIn(object)->node->op == graph::Op::kInput && !isCast(object);
    if (info->origin != values::Origin::kOutside && !(input && info->overlay)) continue;
    for (values::Info* part : {info, info->attribute_part.get()}) {
      if (part == nullptr || !part->overlay) continue;
      bool dict = part == info && PyDict_Check(object), type = PyType_Check(object);
      auto erase = [&](PyObject* name) {
        if (dict)
          builder.effect(PlanOp::kDictDelete, Ref<>(),
                         {builder.value(object), builder.value(name)});
        else
          builder.effect(type ? PlanOp::kTypeAttributeDelete : PlanOp::kAttributeDelete,
                         newRef(name), {builder.value(object)});
      };
      PyObject *name = nullptr, *item = nullptr;
      Py_ssize_t position = 0;
      while (PyDict_Next(part->overlay.get(), &position, &name, &item)) {
        if (item == values::deletedMarker() ||
            (part->set_again && PySet_Contains(part->set_again.get(), name) == 1))
          erase(name);
      }
      position = 0;
      while (PyDict_Next(part->overlay.get(), &position, &name, &item)) {
        if (item == values::deletedMarker()) continue;
        if (dict)
          builder.effect(PlanOp::kDictStore, Ref<>(),
                         {builder.value(object), builder.value(name), builder.value(item)});
        else
          builder.effect(type ? PlanOp::kTypeAttributeSet : PlanOp::kAttributeSet, newRef(name),
                         {builder.value(object), builder.value(item)});
      }
    }
    if (!info->dirty || info->taken > 0) continue;
    if (takerOf(t, object) != nullptr) {
      builder.moveOutside(*info);
      continue;
    }
    if (PyCell_Check(object)) {
      if (returns && diesWithFrame(t, *info))
        dying_cells.push_back(info);
      else
        setCell(builder, *info);
    } else if (info->appended) {
      std::vector<Register> operands{builder.value(object)};
      for (Py_ssize_t k = 0; k < PyList_GET_SIZE(info->appended.get()); ++k)
        operands.push_back(builder.value(PyList_GET_ITEM(info->appended.get(), k)));
      builder.effect(PlanOp::kListExtend, Ref<>(), std::move(operands));
    } else if (info->shadow && isRandomGenerator(object)) {
      builder.setRandomState(builder.value(object), info->shadow.get(), true);
    } else if (info->shadow) {
      if (isDeque(object)) {
        writeDeque(t, builder, *info);
        continue;
      }
      if (PySet_Check(info->shadow.get()) && !PySet_CheckExact(info->shadow.get())) {
        info->shadow = stealRef(stator_set_like(&PySet_Type, info->shadow.get()));
        STATOR_CHECK(info->shadow, "a copy of a set");
      }
      Register contents = builder.rebuilt(info->shadow.get());
      PlanOp op = PyList_Check(object)   ? PlanOp::kListReplace
                  : PyDict_Check(object) ? PlanOp::kDictReplace
                                         : PlanOp::kSetReplace;
      builder.effect(op, Ref<>(), {builder.value(object), contents});
    }
  }
  for (const Effects::LruUse& use : t.effects.lruUses()) {
    if (use.value)
      builder.effect(PlanOp::kLruStore, Ref<>(),
                     {builder.value(use.cache.get()), builder.value(use.key.get()),
                      builder.value(use.value.get())});
    else
      builder.effect(PlanOp::kLruHit, Ref<>(),
                     {builder.value(use.cache.get()), builder.value(use.key.get())});
  }
  for (const auto& [index, state] : t.torch.settings()) {
    if (PyObject_RichCompareBool(state.before.get(), state.now.get(), Py_EQ) == 1) continue;
    if (!returns) addStateNode(t, index, state.before.get());
    StateCall call = stateCall(index, state.now.get());
    std::vector<Register> operands;
    if (call.takes_value) operands.push_back(builder.value(state.now.get()));
    builder.effect(PlanOp::kEffectCall, newRef(call.function), std::move(operands));
  }
  if (t.torch.breakIsErrorChanged()) {
    builder.effect(PlanOp::kEffectCall, newRef(torchObject("stator._core.set_error_on_break")),
                   {builder.value(t.torch.breakIsError() ? Py_True : Py_False)});
  }
  addCalls(builder, t.effects.lateCalls());
  if (t.torch.now().grad_enabled != t.torch.initial().grad_enabled) {
    builder.effect(PlanOp::kEffectCall, newRef(torchObject("torch._C._set_grad_enabled")),
                   {builder.value(t.torch.now().grad_enabled ? Py_True : Py_False)});
  }
  setCellsThatEscape(builder, std::move(dying_cells));
}

// Whether a slot of the driven frame is known to hold what it held when the frame was entered, in every call.
bool slotUnchanged(Tracer& t, const SymbolicFrame& frame, size_t slot) {
  if (frame.untouched[slot]) return true;
  PyObject* value = frame.slots[slot].get();
  if (value == nullptr) return false;
  const sources::Source* source = nullptr;
  if (graph::isStandIn(value))
    source = isCast(value) ? nullptr : graph::asStandIn(value)->node->source;
  else if (values::Info* info = t.values.find(value))
    source = info->source;
  return source != nullptr && source->kind == sources::SourceKind::kLocal &&
         source->index == static_cast<int64_t>(slot);
}

void addDropped(Tracer& t, const SymbolicFrame& frame, breaks::Plan& plan) {
  for (size_t i = 0; i < frame.slots.size(); ++i) {
    if (!slotUnchanged(t, frame, i)) plan.dropped_slots.push_back(static_cast<int>(i));
  }
}

// Without grad mode no history comes into being: whether a tensor requires grad shows only where the program asks for
// it, changes it or turns grad mode on, and in what is given out as a view of an input.
bool gradsDoNotMatter(const Tracer& t) {
  if (t.torch.gradsMatter() || t.torch.initial().grad_enabled || t.torch.now().grad_enabled)
    return false;
  std::unordered_set<uint32_t> given;
  for (const graph::Node* input : t.graphs.current().inputs()) {
    if (input->wrapper) return false;
    if (input->meta == nullptr) continue;  // a number
    if (input->meta->storage_id == 0) return false;
    given.insert(input->meta->storage_id);
  }
  for (const graph::Node* output : t.graphs.current().outputs()) {
    if (output->scalar_type) continue;
    if (output->meta == nullptr || output->meta->storage_id == 0 ||
        given.count(output->meta->storage_id) != 0)
      return false;
  }
  for (const graph::Node& node : t.graphs.current().nodes()) {
    if (node.sets_mode) return false;
  }
  return true;
}

void addFrame(Tracer& t, PlanBuilder& builder, SymbolicFrame& frame, bool root,
              breaks::FrameState& out) {
  out.offset = frame.instr().offset;
  bool shows_locals = frame.code->readsLocalsDynamically();
  for (size_t i = 0; i < frame.slots.size(); ++i) {
    PyObject* value = frame.slots[i].get();
    if (root && frame.untouched[i]) {
      out.slots.push_back(kKeep);
      continue;
    }
    if (root && value != nullptr) {
      // Unchanged since the frame was entered.
      const sources::Source* source = nullptr;
      if (graph::isStandIn(value))
        source = isCast(value) ? nullptr : graph::asStandIn(value)->node->source;
      else if (values::Info* info = t.values.find(value))
        source = info->source;
      if (source != nullptr && source->kind == sources::SourceKind::kLocal &&
          source->index == static_cast<int64_t>(i)) {
        out.slots.push_back(kKeep);
        continue;
      }
      if (values::isScalar(value) && t.world.roots().slots[i] == value) {
        out.slots.push_back(builder.value(value));
        continue;
      }
    }
    bool computed = value != nullptr && hasStandIn(t, value);
    if (computed && !shows_locals && !frame.code->slotLive(out.offset, static_cast<int>(i))) {
      // Nobody can read it any more; keeping it would keep an intermediate result alive.
      out.slots.push_back(kNull);
      continue;
    }
    out.slots.push_back(builder.value(value));
  }
  for (size_t i = 0; i < frame.stack.size(); ++i) {
    out.stack.push_back(frame.stack[i].get() == unreadMarker()
                            ? builder.stackEntry(i)
                            : builder.value(frame.stack[i].get()));
  }
}

}  // namespace

bool buildPlan(Tracer& t, bool returns, breaks::Plan& plan) {
  if (!t.torch.contexts().empty()) {
    t.ending.restartAt(t.torch.contexts().front().entered_at, Reason::kUnsupportedContext,
                       "a context that is left outside of the graph");
    return false;
  }
  PlanBuilder builder(t, plan);
  plan.exit = returns ? breaks::ExitKind::kReturn : breaks::ExitKind::kBreak;
  if (returns) {
    plan.returned = builder.value(t.frames.returned());
    // The frame may live on in a traceback, and must not keep alive what the program has let go.
    addDropped(t, t.frames.finished(), plan);
  } else {
    for (size_t i = 0; i < t.frames.size(); ++i) {
      SymbolicFrame& frame = t.frames.at(i);
      breaks::FrameState state;
      addFrame(t, builder, frame, i == 0, state);
      if (i == 0) addDropped(t, frame, plan);
      if (i > 0) {
        state.function = builder.value(frame.function.get());
        state.continuation = frame.then;
        state.instance = builder.value(frame.instance.get());
      }
      plan.frames.push_back(std::move(state));
    }
  }
  // Most often there was none, and there is none again.
  PyObject* handled = t.errors.handledNow();
  const bool none = handled == nullptr && t.world.roots().handled == nullptr;
  if (t.errors.handledTouched() && !(returns && none))
    plan.handled = builder.value(handled != nullptr ? handled : Py_None);
  addEffects(t, builder, returns);
  if (returns && gradsDoNotMatter(t)) t.world.guards().ignoreGrads();
  const bool told_apart = addAliasGuards(t);
  builder.checkDropped();
  builder.finish();
  if (!t.effects.draws().empty() && usesDataOfParameters(t)) return false;
  if (!checksCanFail(t)) return false;
  return told_apart && !builder.failed();
}

}  // namespace stator::interpret
