// Functions, generators and iterators as steps of a plan: each stands where the trace left it.
#include "base/check.h"
#include "bytecode/opcodes.h"
#include "interpret/core/known.h"
#include "interpret/core/outside.h"
#include "interpret/core/trace_iterator.h"
#include "interpret/core/tracer.h"
#include "interpret/frames/plan_builder.h"
#include "interpret/objects/exceptions.h"
#include "interpret/objects/iteration.h"
#include "interpret/objects/iteration_changes.h"
#include "interpret/objects/outside_iterators.h"
#include "python/instructions.h"
#include "python/objects.h"
#include "python/types.h"

#include <unordered_map>

namespace stator::interpret {

using breaks::kNull;
using breaks::PlanOp;
using breaks::PlanStep;
using breaks::Register;

void PlanBuilder::checkDropped() {
  for (values::Info* info : t_.values.all()) {
    if (!isTraceIterator(info->object.get()) || memo_.count(info->object.get()) != 0) continue;
    if (asTraceIterator(info->object.get())->kind == IteratorKind::kGenerator &&
        closingIsNoticed(t_, info->object.get()))
      fail(info->object.get());
  }
}

void PlanBuilder::seek(Register iterator, int64_t position) {
  PlanStep step{PlanOp::kSeek};
  step.operands = {iterator};
  step.number = position;
  seeks_.push_back(std::move(step));
}

Register PlanBuilder::function(PyObject* object) {
  auto* raw = reinterpret_cast<PyFunctionObject*>(object);
  PyObject* globals = raw->func_globals;  // of the frame that the plan is for, or of a module
  std::vector<Register> operands = {
      constant(raw->func_code),
      t_.values.find(globals) != nullptr ? value(globals) : constant(globals),
      constant(raw->func_qualname),
      value(raw->func_closure),
      value(raw->func_defaults),
      value(raw->func_kwdefaults)};
  Register result = add(PlanOp::kFunction, object, Ref<>(), std::move(operands));
  auto* code = reinterpret_cast<PyCodeObject*>(raw->func_code);
  auto attribute = [&](const char* name, PyObject* held) {
    fill(PlanOp::kAttributeSet, {result, value(held)}, stealRef(PyUnicode_InternFromString(name)));
  };
  if (PyUnicode_Compare(raw->func_name, code->co_name) != 0) attribute("__name__", raw->func_name);
  if (PyUnicode_Compare(raw->func_qualname, code->co_qualname) != 0)
    attribute("__qualname__", raw->func_qualname);
  // What a new function of this code has: the first constant if that is a string, and the module of its globals.
  PyObject* first =
      PyTuple_GET_SIZE(code->co_consts) > 0 ? PyTuple_GET_ITEM(code->co_consts, 0) : Py_None;
  PyObject* doc = raw->func_doc != nullptr ? raw->func_doc : Py_None;
  if (doc != (PyUnicode_Check(first) ? first : Py_None)) attribute("__doc__", doc);
  PyObject* module = PyDict_GetItem(raw->func_globals, names().name);
  if (raw->func_module != nullptr && raw->func_module != module)
    attribute("__module__", raw->func_module);
  if (raw->func_annotations != nullptr && PyTuple_Check(raw->func_annotations)) {
    // Unevaluated form (name, value, ...): CPython turns it into a dict on first use.
    Ref<> dict = stealRef(PyFunction_GetAnnotations(object)
                              ? newRef(PyFunction_GetAnnotations(object)).release()
                              : nullptr);
    if (dict) attribute("__annotations__", dict.get());
  } else if (raw->func_annotations != nullptr) {
    attribute("__annotations__", raw->func_annotations);
  }
  // Of `def f[T]()`; CPython 3.11 has no such field.
  static PyObject* const field =
      _PyType_Lookup(&PyFunction_Type, PyUnicode_InternFromString("__type_params__"));
  if (field != nullptr) {
    Ref<> parameters = stealRef(
        Py_TYPE(field)->tp_descr_get(field, object, reinterpret_cast<PyObject*>(&PyFunction_Type)));
    if (!parameters) throw PythonError();
    if (PyTuple_GET_SIZE(parameters.get()) > 0) attribute("__type_params__", parameters.get());
  }
  if (raw->func_dict != nullptr) {
    PyObject *name = nullptr, *item = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(raw->func_dict, &position, &name, &item))
      fill(PlanOp::kEntrySet, {result, value(item)}, newRef(name));
  }
  return result;
}

Register PlanBuilder::generator(PyObject* object) {
  TraceIterator* it = asTraceIterator(object);
  // One of ours stands for an object of another type.
  if (it->flag || (it->frame == nullptr && !it->exhausted) || it->function == nullptr)
    return fail(object);
  Register function = value(it->function);
  Register made = add(PlanOp::kGenerator, object, Ref<>(), {function});
  seeks_.push_back(generatorState(made, it));
  return made;
}

PlanStep PlanBuilder::generatorState(Register generator, const TraceIterator* it) {
  PlanStep step{PlanOp::kGeneratorFill};
  step.operands = {generator, kNull};
  if (it->exhausted) {
    step.number = breaks::GeneratorState::kEnded;
    return step;
  }
  const SymbolicFrame& frame = *it->frame;
  for (const Ref<>& slot : frame.slots) step.operands.push_back(value(slot.get()));
  step.number = breaks::GeneratorState::kFresh;
  if (it->index == 0) return step;
  for (const Ref<>& entry : frame.stack) step.operands.push_back(value(entry.get()));
  if (it->handled != nullptr) step.operands[1] = value(it->handled);
  step.number = breaks::GeneratorState::pack(
      frame.code->instrs()[static_cast<size_t>(frame.index - 1)].offset, frame.slots.size());
  return step;
}

void PlanBuilder::moveOutside(const values::Info& info) {
  const TraceIterator* it = asTraceIterator(info.shadow.get());
  PyObject* iterator = info.object.get();
  Ref<> state;
  switch (it->kind) {
    case IteratorKind::kGenerator: {
      if (it->frame == nullptr && !it->exhausted) {
        fail(iterator);
        return;
      }
      if (it->index == 0 && !it->exhausted) return;  // it has not begun
      PlanStep step = generatorState(value(iterator), it);
      effect(step.op, Ref<>(), std::move(step.operands), step.number);
      return;
    }
    case IteratorKind::kEnumerate:
      state = stealRef(PyLong_FromLongLong(it->index));
      break;
    case IteratorKind::kChain:
      state = stealRef(it->exhausted || !(*it->sources)[1]
                           ? PyTuple_Pack(1, (*it->sources)[0].get())
                           : PyTuple_Pack(2, (*it->sources)[0].get(), (*it->sources)[1].get()));
      break;
    default:
      return;  // they have no place of their own
  }
  static PyObject* const set_state = torchObject("stator._core.set_iterator_state");
  effect(PlanOp::kEffectCall, newRef(set_state), {value(iterator), value(state.get())});
  t_.world.keep(state);
}

namespace {

// A call that gives an iterator of some type at its end.
struct SpentCall {
  Ref<> callable;
  std::vector<Ref<>> operands;
};

using SpentCalls = std::unordered_map<PyTypeObject*, SpentCall>;

void addSpent(SpentCalls& calls, PyObject* callable, std::vector<Ref<>> operands) {
  Ref<> arguments = stealRef(PyTuple_New(static_cast<Py_ssize_t>(operands.size())));
  for (size_t i = 0; i < operands.size(); ++i)
    PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i),
                     newRef(operands[i].get()).release());
  Ref<> sample = stealRef(PyObject_CallObject(callable, arguments.get()));
  if (!sample) throw PythonError();
  calls.try_emplace(Py_TYPE(sample.get()), SpentCall{newRef(callable), std::move(operands)});
}

// What nobody else holds and stays empty serves as well as what the iterator went over.
SpentCalls makeSpentCalls() {
  SpentCalls calls;
  PyObject* iter = torchObject("builtins.iter");
  PyObject* reversed = reinterpret_cast<PyObject*>(&PyReversed_Type);
  const Ref<> none = newRef(Py_None), no_tuple = stealRef(PyTuple_New(0)),
              zero = stealRef(PyLong_FromLong(0));
  const Ref<> dict = stealRef(PyDict_New()), list = stealRef(PyList_New(0));
  auto made = [](const char* path) { return stealRef(PyObject_CallNoArgs(torchObject(path))); };
  auto view = [](const Ref<>& of, const char* name) {
    return stealRef(PyObject_CallMethod(of.get(), name, nullptr));
  };
  const Ref<> ordered = made("collections.OrderedDict");
  for (const Ref<>& over :
       {list, no_tuple, stealRef(PyUnicode_FromString("")), stealRef(PyBytes_FromString("")),
        made("builtins.bytearray"), dict, view(dict, "values"), view(dict, "items"),
        made("builtins.set"), made("collections.deque"), ordered, view(ordered, "values"),
        stealRef(PyObject_CallOneArg(torchObject("builtins.range"), zero.get()))})
    addSpent(calls, iter, {over});
  for (const Ref<>& over :
       {list, no_tuple, dict, view(dict, "values"), view(dict, "items"), made("collections.deque")})
    addSpent(calls, reversed, {over});
  for (const char* path : {"builtins.zip", "itertools.chain", "itertools.zip_longest"})
    addSpent(calls, torchObject(path), {});
  for (const char* path : {"builtins.enumerate", "itertools.cycle", "itertools.accumulate",
                           "itertools.pairwise", "itertools.product"})
    addSpent(calls, torchObject(path), {no_tuple});
  for (const char* path : {"builtins.map", "builtins.filter", "itertools.starmap",
                           "itertools.takewhile", "itertools.dropwhile", "itertools.filterfalse"})
    addSpent(calls, torchObject(path), {none, no_tuple});
  addSpent(calls, torchObject("stator._core.iterate_by_index"), {no_tuple});
  addSpent(calls, torchObject("itertools.compress"), {no_tuple, no_tuple});
  addSpent(calls, torchObject("itertools.repeat"), {none, zero});
  addSpent(calls, torchObject("itertools.islice"), {no_tuple, zero});
  addSpent(calls, reinterpret_cast<PyObject*>(itertoolsType("_tee")), {no_tuple});
  const Ref<> one = stealRef(PyLong_FromLong(1));
  for (const char* path : {"itertools.permutations", "itertools.combinations",
                           "itertools.combinations_with_replacement"})
    addSpent(calls, torchObject(path), {no_tuple, one});
  return calls;
}

}  // namespace

Register PlanBuilder::spentIterator(PyObject* object) {
  static const SpentCalls* const calls = new SpentCalls(makeSpentCalls());
  const auto found = calls->find(iteratorType(asTraceIterator(object)));
  if (found == calls->end())
    return add(PlanOp::kIterator, object, Ref<>(), {constant(stealRef(PyTuple_New(0)).get())});
  std::vector<Register> operands;
  for (const Ref<>& operand : found->second.operands) operands.push_back(constant(operand.get()));
  Register made = add(PlanOp::kCall, object, found->second.callable, std::move(operands));
  // It has told its end.
  add(PlanOp::kCall, nullptr, newRef(torchObject("builtins.next")), {made, constant(Py_None)});
  return made;
}

Register PlanBuilder::handed(PyObject* iterator) {
  const Register made = value(iterator);
  if (made == kNull || !stator_is_user_class(typeOf(t_, iterator))) return made;
  return add(PlanOp::kCall, nullptr, newRef(torchObject("stator._core.hand_iterator")), {made});
}

Register PlanBuilder::iterator(PyObject* object) {
  TraceIterator* it = asTraceIterator(object);
  auto& parts = *it->sources;
  if (it->kind == IteratorKind::kCallable || it->running) return fail(object);
  if (it->kind == IteratorKind::kGenerator) return generator(object);
  if (it->exhausted) return spentIterator(object);
  std::vector<Register> operands;
  switch (it->kind) {
    case IteratorKind::kSequence: {
      Register sequence = value(parts[0].get());
      // A list may get its items, or others, after the iterator is made; its iterator takes no position behind the
      // list's end.
      if (!PyList_Check(parts[0].get()))
        return add(PlanOp::kIterator, object, Ref<>(), {sequence}, it->index);
      Register made = add(PlanOp::kIterator, object, Ref<>(), {sequence});
      if (it->index != 0) seek(made, it->index);
      return made;
    }
    case IteratorKind::kSnapshot: {
      bool changes = written(parts[1].get());
      // A new one would not know of what happened before.
      if (noticesChange(t_, object)) return fail(object);
      if (parts.size() > 4) {
        if (changes || it->index != 0) return fail(object);
        return add(PlanOp::kReversed, object, Ref<>(), {value(parts[1].get())});
      }
      Register made =
          add(PlanOp::kIterator, object, Ref<>(), {value(parts[1].get())}, changes ? 0 : it->index);
      if (!changes) return made;
      // What it iterates over is written to after the iterator is made, which would notice.
      if (PyODict_Check(viewed(parts[1].get()))) return fail(object);
      PlanStep step{PlanOp::kSeekEntry};
      step.operands = {made, value(parts[1].get())};
      step.number = it->index;
      seeks_.push_back(std::move(step));
      return made;
    }
    case IteratorKind::kReversed: {
      if (!PyList_Check(parts[0].get()) || it->flag) return fail(object);
      Register list = value(parts[0].get());
      Register made = add(PlanOp::kReversed, object, Ref<>(), {list});
      seek(made, it->index);
      return made;
    }
    case IteratorKind::kByIndex: {
      Register made =
          add(PlanOp::kCall, object, newRef(torchObject("stator._core.iterate_by_index")),
              {value(parts[0].get())});
      if (it->index != 0) seek(made, it->index);
      return made;
    }
    case IteratorKind::kEnumerate: {
      Ref<> start = stealRef(PyLong_FromLongLong(it->index));
      operands = {handed(parts[0].get()), constant(start.get())};
      return add(PlanOp::kCall, object, newRef(reinterpret_cast<PyObject*>(&PyEnum_Type)),
                 operands);
    }
    case IteratorKind::kZip:
      if (it->flag) return fail(object);
      for (auto& part : parts) operands.push_back(handed(part.get()));
      return add(PlanOp::kCall, object, newRef(reinterpret_cast<PyObject*>(&PyZip_Type)), operands);
    case IteratorKind::kMap:
    case IteratorKind::kFilter:
      operands.push_back(value(parts[0].get()));
      for (size_t i = 1; i < parts.size(); ++i) operands.push_back(handed(parts[i].get()));
      return add(PlanOp::kCall, object,
                 newRef(reinterpret_cast<PyObject*>(
                     it->kind == IteratorKind::kMap ? &PyMap_Type : &PyFilter_Type)),
                 operands);
    default:
      return itertools(object);
  }
}

Register PlanBuilder::withState(Register iterator, Register state) {
  static PyObject* const set_state = torchObject("stator._core.set_iterator_state");
  add(PlanOp::kCall, nullptr, newRef(set_state), {iterator, state});
  return iterator;
}

Register PlanBuilder::itertools(PyObject* object) {
  TraceIterator* it = asTraceIterator(object);
  auto& parts = *it->sources;
  PyTypeObject* type = iteratorType(it);
  auto number = [&](int64_t n) {
    Ref<> boxed = stealRef(PyLong_FromLongLong(n));
    return constant(boxed.get());
  };
  auto part = [&](size_t i) { return value(parts[i].get()); };
  auto over = [&](size_t i) { return handed(parts[i].get()); };
  auto call = [&](std::vector<Register> operands) {
    return add(PlanOp::kCall, object, newRef(reinterpret_cast<PyObject*>(type)),
               std::move(operands));
  };
  switch (it->kind) {
    case IteratorKind::kChain: {
      std::vector<Register> state = {part(0)};
      if (parts[1]) state.push_back(part(1));
      Register made = call({});
      return withState(made, add(PlanOp::kTuple, nullptr, Ref<>(), state));
    }
    case IteratorKind::kIslice: {
      int64_t next = PyLong_AsLongLong(parts[1].get());
      Register stop = parts[2].get() == Py_None
                          ? constant(Py_None)
                          : number(PyLong_AsLongLong(parts[2].get()) - it->index);
      return call({over(0), number(next - it->index), stop, part(3)});
    }
    case IteratorKind::kCount:
      return call({part(0), part(1)});
    case IteratorKind::kCycle: {
      Register rest =
          it->flag ? add(PlanOp::kIterator, nullptr, Ref<>(), {part(1)}, it->index) : over(0);
      std::vector<Register> state = {part(1), constant(it->flag ? Py_True : Py_False)};
      Register made = call({rest});
      return withState(made, add(PlanOp::kTuple, nullptr, Ref<>(), state));
    }
    case IteratorKind::kRepeat:
      return it->index < 0 ? call({part(0)}) : call({part(0), number(it->index)});
    case IteratorKind::kAccumulate: {
      Register total = parts[2] ? part(2) : kNull;
      Register made = call({over(0), part(1)});
      if (parts[3]) {
        static PyObject* const set_state = torchObject("stator._core.set_iterator_state");
        add(PlanOp::kCall, nullptr, newRef(set_state), {made, constant(Py_None), part(3)});
      }
      return total == kNull ? made : withState(made, total);
    }
    case IteratorKind::kStarMap:
    case IteratorKind::kTakeWhile:
    case IteratorKind::kFilterFalse:
      return call({part(0), over(1)});
    case IteratorKind::kCompress:
      return call({over(0), over(1)});
    case IteratorKind::kDropWhile: {
      Register made = call({part(0), over(1)});
      return it->flag ? withState(made, constant(Py_True)) : made;
    }
    case IteratorKind::kZipLongest: {
      std::vector<Register> operands;
      for (size_t i = 1; i < parts.size(); ++i) {
        if (!parts[i]) return fail(object);
        operands.push_back(over(i));
      }
      Register fill = part(0);
      Register made = call(operands);
      return withState(made, fill);
    }
    case IteratorKind::kPairwise:
      return parts[1] ? fail(object) : call({over(0)});
    case IteratorKind::kMoves: {
      Register made = add(PlanOp::kCall, nullptr, newRef(reinterpret_cast<PyObject*>(type)),
                          sequence(parts[2].get()));
      return add(PlanOp::kAdvance, object, Ref<>(), {made}, it->index);
    }
    default:
      return fail(object);
  }
}

}  // namespace stator::interpret
