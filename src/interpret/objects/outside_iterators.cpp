#include "interpret/objects/outside_iterators.h"

#include "base/check.h"
#include "bytecode/code_info.h"
#include "bytecode/opcodes.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/trace_iterator.h"
#include "known/code_policy.h"
#include "known/marks.h"
#include "python/instructions.h"
#include "python/objects.h"

namespace stator::interpret {

namespace {

using sources::kIteratorFunction;
using sources::kIteratorState;

// Where it did not serve for long that each place of a loop has an entry of its own, the loop's body is one.
bool serves(Tracer& t, const Source* state) {
  return t.options.history != nullptr &&
         t.options.history->takesOver(known::sourceKey(*state), t.options.repeats);
}

// The slots of a frame, or its stack: `first` is the number of the first one.
Out readValues(Tracer& t, const Source* source, PyObject* const* raw, int count, int64_t first,
               std::vector<Ref<>>& into) {
  for (int i = 0; i < count; ++i) {
    const Source* part = t.world.child(SourceKind::kIteratorPart, source, nullptr, first + i);
    if (raw[i] == nullptr) {
      t.world.guard(Guard{GuardKind::kAbsent, part});
      into.emplace_back();
      continue;
    }
    STATOR_VALUE(value, fromOutside(t, raw[i], part));
    into.push_back(std::move(value));
  }
  return newRef(Py_None);
}

// Without a frame: one that has ended.
Ref<> endedGenerator() {
  Ref<> made = makeTraceIterator(IteratorKind::kGenerator, {});
  asTraceIterator(made.get())->exhausted = true;
  return made;
}

// The instruction behind the yield at which it stands; of one that has not begun, the last of its prologue.
int indexOf(const bytecode::CodeInfo& info, PyCodeObject* code, int place) {
  if (place != STATOR_NOT_BEGUN) {
    const int at = info.indexAt(place);
    return info.instrs()[static_cast<size_t>(at)].opcode == YIELD_VALUE ? at + 1 : -1;
  }
  const int at = info.indexAt(stator_code_first_traceable(code)) - 2;
  return at >= 0 && info.instrs()[static_cast<size_t>(at)].opcode == RETURN_GENERATOR ? at : -1;
}

Out generatorTaken(Tracer& t, PyObject* generator, const Source* source) {
  const int place = stator_generator_place(generator);
  const Source* state = t.world.child(SourceKind::kIteratorPart, source, nullptr, kIteratorState);
  if (place == STATOR_RUNNING || !serves(t, state)) return Ref<>();
  const auto guardPlace = [&] {
    t.world.guard(Guard{GuardKind::kEquals, state, nullptr, stealRef(PyLong_FromLong(place))});
  };
  if (place == STATOR_ENDED) {
    guardPlace();
    return endedGenerator();
  }
  StatorFrame* frame = stator_generator_frame(generator);
  PyCodeObject* code = stator_frame_code(frame);
  auto* function = stator_frame_function(frame);
  bytecode::CodeInfo* info = bytecode::CodeInfo::of(code);
  if (info == nullptr) throw PythonError();
  const int index = indexOf(*info, code, place);
  if (index < 0 || stator_generator_handled(generator) != nullptr || stator_code_traced(code) ||
      known::codePolicy(code) == CodePolicy::kSkip ||
      known::isDisabled(reinterpret_cast<PyObject*>(function)))
    return Ref<>();
  guardPlace();
  STATOR_VALUE(of, fromOutside(t, reinterpret_cast<PyObject*>(function),
                               t.world.child(SourceKind::kIteratorPart, source, nullptr,
                                             kIteratorFunction)));
  auto entered = std::make_unique<SymbolicFrame>();
  entered->code = info;
  entered->keep_code = newRef(reinterpret_cast<PyObject*>(code));
  entered->function = of;
  entered->globals = function->func_globals;
  entered->builtins = function->func_builtins;
  entered->generator = true;
  entered->index = index;
  entered->entered_at = t.frames.instruction();
  entered->scope = t.frames.innermost().scope;
  const int slots = stator_frame_slot_count(frame);
  STATOR_FLOW(readValues(t, source, stator_frame_slots(frame), slots, 0, entered->slots).flow());
  STATOR_FLOW(readValues(t, source, stator_frame_stack(frame), stator_frame_depth(frame), slots,
                         entered->stack)
                  .flow());
  Ref<> made = makeTraceGenerator(std::move(entered));
  asTraceIterator(made.get())->index = place == STATOR_NOT_BEGUN ? 0 : 1;
  return made;
}

std::optional<IteratorKind> kindOf(PyTypeObject* type) {
  if (type == &PyZip_Type) return IteratorKind::kZip;
  if (type == &PyEnum_Type) return IteratorKind::kEnumerate;
  if (type == &PyMap_Type) return IteratorKind::kMap;
  if (type == itertoolsType("chain")) return IteratorKind::kChain;
  return std::nullopt;
}

Out partsTaken(Tracer& t, PyObject* iterator, IteratorKind kind, const Source* source) {
  const Source* state = t.world.child(SourceKind::kIteratorPart, source, nullptr, kIteratorState);
  Ref<> now = stealRef(stator_iterator_state(iterator));
  if (!now) {
    PyErr_Clear();
    return Ref<>();
  }
  if (!serves(t, state)) return Ref<>();
  t.world.guard(Guard{GuardKind::kEquals, state, nullptr, now});
  std::vector<Ref<>> parts;
  for (int64_t i = 0;; ++i) {
    PyObject* raw = stator_iterator_part(iterator, i);
    if (raw == nullptr) break;
    STATOR_VALUE(part,
                 fromOutside(t, raw, t.world.child(SourceKind::kIteratorPart, source, nullptr, i)));
    parts.push_back(std::move(part));
  }
  if (kind == IteratorKind::kChain) parts.resize(2);
  const bool counts = kind == IteratorKind::kEnumerate;
  Ref<> made = makeTraceIterator(kind, std::move(parts), counts ? PyLong_AsLongLong(now.get()) : 0);
  if (kind == IteratorKind::kZip)
    asTraceIterator(made.get())->flag = PyLong_AsLong(PyTuple_GET_ITEM(now.get(), 1)) != 0;
  return made;
}

}  // namespace

PyObject* takerOf(Tracer& tracer, PyObject* iterator) {
  if (isTraceIterator(iterator)) return iterator;
  if (!PyGen_CheckExact(iterator) && !kindOf(Py_TYPE(iterator))) return nullptr;  // cells hold some
  const values::Info* info = tracer.values.find(iterator);
  return info != nullptr && isTraceIterator(info->shadow.get()) ? info->shadow.get() : nullptr;
}

Out takenOver(Tracer& tracer, PyObject* iterator) {
  if (PyObject* taker = takerOf(tracer, iterator)) return newRef(taker);
  values::Info* info = tracer.values.find(iterator);
  if (info == nullptr || info->origin != values::Origin::kOutside || info->source == nullptr ||
      info->dirty)
    return Ref<>();
  Out made = Ref<>();
  if (PyGen_CheckExact(iterator)) {
    made = generatorTaken(tracer, iterator, info->source);
  } else if (const auto kind = kindOf(Py_TYPE(iterator))) {
    made = partsTaken(tracer, iterator, *kind, info->source);
  }
  if (!made.ok() || !made.get()) return made;
  noteWrite(tracer, iterator);
  info->shadow = newRef(made.get());
  info->dirty = true;
  return made;
}

bool ignoresClosing(const bytecode::CodeInfo& code, int target) {
  size_t at = static_cast<size_t>(code.indexAt(target));
  const auto& instrs = code.instrs();
  // 3.12 on: around the whole body of a generator, makes a RuntimeError of a StopIteration.
  if (instrs[at].opcode == CALL_INTRINSIC_1 && instrs[at].oparg == kIntrinsicStopIterationError)
    return true;
  // 3.12 on: around what `yield from` does; closes what it delegates to and raises again.
  if (instrs[at].opcode == CLEANUP_THROW) {
    auto around = code.findHandler(instrs[at].opcode_offset);
    return !around || ignoresClosing(code, around->target);
  }
  if (at + 2 >= instrs.size() || instrs[at].opcode != PUSH_EXC_INFO ||
      instrs[at + 1].opcode != LOAD_GLOBAL || instrs[at + 2].opcode != CHECK_EXC_MATCH) {
    return false;
  }
  // The first clause, or one that follows.
  PyObject* names = code.code()->co_names;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    PyObject* name = PyTuple_GET_ITEM(names, i);
    if (PyUnicode_CompareWithASCIIString(name, "BaseException") == 0 ||
        PyUnicode_CompareWithASCIIString(name, "GeneratorExit") == 0)
      return false;
  }
  // What no clause takes goes on to the handlers around (`finally`), past what only puts the exception back (COPY).
  auto around = code.findHandler(instrs[at].opcode_offset);
  while (around && instrs[static_cast<size_t>(code.indexAt(around->target))].opcode == COPY)
    around = code.findHandler(around->target);
  return !around || ignoresClosing(code, around->target);
}

bool closingIsNoticed(Tracer& tracer, PyObject* generator) {
  const TraceIterator* taken = asTraceIterator(generator);
  if (taken->exhausted || taken->index == 0 || taken->frame == nullptr) return false;
  const SymbolicFrame& frame = *taken->frame;
  const auto& stands_at = frame.code->instrs()[static_cast<size_t>(frame.index - 1)];
  const auto handler = frame.code->findHandler(stands_at.opcode_offset);
  if (handler && !ignoresClosing(*frame.code, handler->target)) return true;
  // Others end with it: what it delegates to, and such as it goes over.
  for (const Ref<>& held : frame.stack) {
    PyObject* taker = held ? takerOf(tracer, held.get()) : nullptr;
    if (taker == nullptr && held && PyGen_CheckExact(held.get())) return true;
    if (taker != nullptr && asTraceIterator(taker)->kind == IteratorKind::kGenerator &&
        closingIsNoticed(tracer, taker))
      return true;
  }
  return false;
}

}  // namespace stator::interpret
