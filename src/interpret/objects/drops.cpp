#include "interpret/objects/drops.h"

#include "base/ref.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/objects/outside_iterators.h"
#include "known/finalizers.h"

#include <algorithm>

namespace stator::interpret {

namespace {

bool wasWritten(const values::Info* info) {
  return info->origin == values::Origin::kOutside &&
         (info->dirty || info->overlay || (info->attribute_part && info->attribute_part->overlay));
}

bool isOnTheWay(const sources::Source* owner, const sources::Source* to) {
  while (to != nullptr && to != owner) to = to->base;
  return to != nullptr;
}

// The owner from which it was read holds it still: a list of layers, an attribute, a global.
bool isHeldElsewhere(Tracer& tracer, PyObject* value) {
  values::Info* info = tracer.values.find(value);
  if (info == nullptr || info->origin != values::Origin::kOutside || info->source == nullptr ||
      info->source->base == nullptr)
    return false;
  const sources::Source* source = info->source;
  for (; source->base != nullptr; source = source->base) {
    switch (source->kind) {
      case SourceKind::kAttr:
      case SourceKind::kSubmodule:
      case SourceKind::kClassDict:
      case SourceKind::kDictItem:
      case SourceKind::kListItem:
      case SourceKind::kTupleItem:
      case SourceKind::kCell:
      case SourceKind::kClosure:
      case SourceKind::kDefault:
      case SourceKind::kObjectDict:
        continue;
      default:
        return false;
    }
  }
  if (source->kind == SourceKind::kLocal) {
    // A local that was assigned to since may have been the last to hold the owner.
    SymbolicFrame& root = tracer.frames.driven();
    size_t slot = static_cast<size_t>(source->index);
    if (!root.untouched[slot] && root.slots[slot].get() != tracer.world.roots().slots[slot])
      return false;
  } else if (source->kind == SourceKind::kStack) {
    return false;
  }
  for (values::Info* other : tracer.effects.written()) {
    // Also what hangs from an owner without being named: the dicts of a module.
    if (wasWritten(other) &&
        (other->source == nullptr || isOnTheWay(other->source, info->source) ||
         (other->source->base != nullptr && isOnTheWay(other->source->base, info->source))))
      return false;
  }
  return true;
}

// Whether a frame of the trace holds it: any, or one of the innermost frame's callers, which go on holding it.
bool frameHolds(Tracer& tracer, PyObject* value, bool callers_alone) {
  const auto& frames = tracer.frames.all();
  const auto is_value = [&](const Ref<>& held) { return held.get() == value; };
  const auto end = callers_alone && !frames.empty() ? frames.end() - 1 : frames.end();
  return std::any_of(frames.begin(), end, [&](const auto& frame) {
    return std::any_of(frame->slots.begin(), frame->slots.end(), is_value) ||
           std::any_of(frame->stack.begin(), frame->stack.end(), is_value);
  });
}

// Iterators hold what they take from: a generator, or a list whose items' end is noticed.
bool holdsNoticed(Tracer& tracer, PyObject* value, int depth) {
  const auto* held = asTraceIterator(value)->sources;
  if (held == nullptr || depth > 8) return false;
  for (const Ref<>& source : *held) {
    PyObject* object = source.get();
    if (object == nullptr) continue;
    if (isTraceIterator(object) ? holdsNoticed(tracer, object, depth + 1)
        : takerOf(tracer, object) != nullptr
            ? !isHeldElsewhere(tracer, object) && dropRunsUserCode(tracer, object)
        : PyGen_CheckExact(object)
            ? !isHeldElsewhere(tracer, object)
            : !frameHolds(tracer, object, false) && dropRunsUserCode(tracer, object))
      return true;
  }
  return false;
}

}  // namespace

bool dropRunsUserCode(Tracer& tracer, PyObject* value) {
  if (value == nullptr || values::isScalar(value) || graph::isStandIn(value)) return false;
  if (isTraceIterator(value)) return holdsNoticed(tracer, value, 0);
  if (PyObject* taker = takerOf(tracer, value)) {
    // Of those of C's it took the parts.
    return asTraceIterator(taker)->kind == IteratorKind::kGenerator
               ? closingIsNoticed(tracer, taker) && !isHeldElsewhere(tracer, value)
               : holdsNoticed(tracer, taker, 0);
  }
  // The cheap questions first: a look into a module's contents costs as much as the capture of a small layer.
  if (isHeldElsewhere(tracer, value) || frameHolds(tracer, value, true)) return false;
  const known::KeptByTrace kept{
      [&](PyObject* object) { return tracer.values.find(object) != nullptr; },
      [&](PyObject* object) {
        // Not by what is dropped itself.
        const sources::Source* dropped = tracer.sourceOf(value);
        return isHeldElsewhere(tracer, object) &&
               (dropped == nullptr || !isOnTheWay(dropped, tracer.sourceOf(object)));
      }};
  return known::endIsNoticed(value) || known::endOfContentsIsNoticed(value, kept);
}

bool mayBeGone(Tracer& tracer, PyObject* object) {
  values::Info* info = tracer.values.find(object);
  PyObject* seen = info != nullptr && info->stand_in ? info->stand_in.get() : object;
  for (const auto& frame : tracer.frames.all()) {
    for (Ref<>& slot : frame->slots) {
      if (slot.get() == seen) return false;
    }
    for (Ref<>& value : frame->stack) {
      if (value.get() == seen) return false;
    }
  }
  SymbolicFrame& root = tracer.frames.driven();
  for (size_t i = 0; i < root.slots.size(); ++i) {
    PyObject* before = tracer.world.roots().slots[i];
    if (root.untouched[i]) {
      if (before == object) return false;
      continue;
    }
    if (before == nullptr || values::isScalar(before)) continue;
    values::Info* known = tracer.values.find(before);
    PyObject* now = known != nullptr && known->stand_in ? known->stand_in.get() : before;
    if (root.slots[i].get() != now) return true;
  }
  const size_t at_entry = tracer.frames.stackAtEntry();
  if (root.stack.size() < at_entry) return true;
  // What lay there may have been taken away, and other values put into its place.
  for (size_t i = 0; i < at_entry; ++i) {
    PyObject* now = root.stack[i].get();
    if (now != unreadMarker() && now != tracer.world.roots().stack[i]) return true;
  }
  const auto& written = tracer.effects.written();
  return std::any_of(written.begin(), written.end(), wasWritten);
}

}  // namespace stator::interpret
